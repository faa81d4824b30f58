"""Versions: the Dewey numbers that say which pointers of the shared buffer belong to a run.

The rule is SASE+'s (section 5.1). Engines follow pointers by it, pictures explain them by it.
"""

from __future__ import annotations

Version = tuple[int, ...]


def compatible(later: Version, earlier: Version) -> bool:
    """Whether a pointer of the `earlier` version belongs to the ancestry of the `later` one:
    it is a prefix of it, or differs in the last digit only, which has grown since."""
    length = len(earlier)
    if later[:length] == earlier:
        return True
    return len(later) == length and later[:-1] == earlier[:-1] and later[-1] > earlier[-1]


def shown(version: Version) -> str:
    """`2.0.0`."""
    return ".".join(map(str, version))


def read(text: str) -> Version:
    """The version that `shown` wrote.

    >>> read("2.0.0")
    (2, 0, 0)
    """
    return tuple(int(digit) for digit in text.split("."))
