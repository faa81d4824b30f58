"""Files that streams are read from; every way a file can be bad is one kind of error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cepviz.errors import StreamError, did_you_mean


def read_file(reader: Any, path: Any, **options: Any) -> Any:
    """What the reader makes of the file; every way a file can be bad is a StreamError."""
    from pandas.errors import EmptyDataError

    try:
        return reader(path, **options)
    except FileNotFoundError:
        folder = Path(path).parent
        near = did_you_mean(Path(path).name, [p.name for p in folder.glob("*")])
        raise StreamError(f"there is no file {str(path)!r}{near}") from None
    except EmptyDataError:
        raise StreamError(f"{str(path)!r} has no rows") from None
    except StreamError:
        raise
    except Exception as error:  # parsers of foreign files raise whatever they like
        raise StreamError(f"cannot read {str(path)!r}: {error}") from error


def json_lines(path: Any) -> list[Any]:
    records = []
    with open(path, encoding="utf-8-sig") as lines:
        for line, text in enumerate(lines, start=1):
            try:
                if text.strip():
                    records.append(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise StreamError(
                    f"line {line} of {str(path)!r} is not JSON ({error}): write one object a line",
                    row=len(records),
                ) from None
    return records
