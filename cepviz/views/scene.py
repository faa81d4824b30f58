"""A picture as plain data: keyed shapes, written as SVG, compared, and stepped by difference.

A view is a pure function from a trace (or a plan, a pattern, a stream) to a `Scene`. Shapes have
keys that stay the same from step to step, so two scenes differ by a few shapes: a player, in a
notebook or in a page without Python, only ever applies such differences.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cepviz.errors import CepError, SetupError
from cepviz.views.style import COLOURS, FONT, resolved, stylesheet

Number = int | float

#: Longer labels are cut in the middle; the whole text is the tooltip.
LONGEST = 28

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Shape:
    """One mark: an SVG element with its attributes, classes, text and tooltip."""

    tag: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    classes: str = ""
    text: str | None = None
    title: str | None = None

    def to_plain(self) -> list[Any]:
        """The shape as JSON, for players."""
        return [self.tag, dict(self.attributes), self.classes, self.text, self.title]


class Scene:
    """Shapes by key, in drawing order, with a size and a sentence that says what is shown."""

    def __init__(self, width: Number, height: Number, say: str = ""):
        self.width = width
        self.height = height
        self.say = say
        self.shapes: dict[str, Shape] = {}

    def add(
        self,
        key: str,
        tag: str,
        classes: str = "",
        *,
        text: str | None = None,
        title: str | None = None,
        **attributes: Any,
    ) -> None:
        """Adds a shape; `stroke_width=2` is the attribute stroke-width."""
        named = {_attribute(name): value for name, value in attributes.items()}
        if key in self.shapes:
            raise CepError(f"two shapes of one picture have the key {key!r}")
        self.shapes[key] = Shape(tag, named, classes, text, title)

    def label(
        self, key: str, x: Number, y: Number, text: str, classes: str = "text", most: int = LONGEST
    ) -> None:
        """Adds text, cut in the middle where it is long, with the whole as tooltip."""
        cut = shortened(text, most)
        self.add(key, "text", classes, text=cut, title=text if cut != text else None, x=x, y=y)

    def place(self, prefix: str, other: Scene, x: Number, y: Number) -> None:
        """Draws another scene into this one, moved; its keys get a prefix."""
        for key, shape in other.shapes.items():
            moved = dict(shape.attributes)
            moved["transform"] = f"translate({x} {y}) {moved.get('transform', '')}".strip()
            self.shapes[f"{prefix}{key}"] = Shape(
                shape.tag, moved, shape.classes, shape.text, shape.title
            )

    def diff(self, before: Scene | None) -> dict[str, Any]:
        """What a player must change to come from another scene to this one."""
        known = before.shapes if before is not None else {}
        changed = {
            key: shape.to_plain()
            for key, shape in self.shapes.items()
            if (old := known.get(key)) is not shape and old != shape
        }
        gone = [key for key in known if key not in self.shapes]
        return {"put": changed, "del": gone, "say": self.say}

    # ---- showing ----

    def svg(self, theme: str = "auto") -> str:
        """The picture as SVG: `light`, `dark`, or `auto`, which follows the page it is on."""
        if theme not in ("auto", "light", "dark"):
            raise CepError(f"the theme is 'auto', 'light' or 'dark', not {theme!r}")
        size = f'width="{self.width:g}" height="{self.height:g}"'
        box = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" class="cep"'
        head += f' aria-label="{_escaped(self.say)}"'
        if theme == "auto":
            style = f"<style>{stylesheet()}</style>"
            return f"{head}>{style}{self._body(None)}</svg>"
        paper = COLOURS["paper"][0 if theme == "light" else 1]
        back = f'<rect width="100%" height="100%" fill="{paper}"/>'
        return f'{head} font-family="{html.escape(FONT)}">{back}{self._body(theme)}</svg>'

    def _body(self, theme: str | None) -> str:
        return "".join(_written(key, shape, theme) for key, shape in self.shapes.items())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        page = f'<div class="cep" style="overflow-x:auto">{self.svg()}</div>'
        return {"text/plain": self.say, "text/html": page}

    def __repr__(self) -> str:
        return self.say or f"<picture of {len(self.shapes)} shapes>"

    def save(self, path: str | Path, theme: str = "light") -> Path:
        """Saves the picture as .svg, .html or .png."""
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(theme), encoding="utf-8")
        elif path.suffix == ".html":
            title = _escaped(self.say or "cepviz")
            page = f"<!doctype html><meta charset=utf-8><title>{title}</title>{self.svg()}"
            path.write_text(page, encoding="utf-8")
        elif path.suffix == ".png":
            path.write_bytes(self._png(theme))
        else:
            raise CepError(f"a picture is saved as .svg, .html or .png, not {path.name!r}")
        return path

    def _png(self, theme: str) -> bytes:
        try:
            import resvg_py
        except ImportError:
            raise SetupError(
                "PNG needs the package resvg-py: pip install 'cepviz[lab]', or save as .svg"
            ) from None
        return bytes(resvg_py.svg_to_bytes(svg_string=self.svg(theme), zoom=2.0))


@cache
def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _written(key: str, shape: Shape, theme: str | None) -> str:
    attributes = dict(shape.attributes)
    if theme is None:
        attributes["class"] = shape.classes
    else:
        attributes = resolved(shape.classes, theme) | attributes
    written = "".join(
        f' {name}="{_escaped(_number(value))}"' for name, value in attributes.items() if value != ""
    )
    inner = "" if shape.title is None else f"<title>{_escaped(shape.title)}</title>"
    inner += "" if shape.text is None else _escaped(shape.text)
    return f'<{shape.tag} data-key="{_escaped(key)}"{written}>{inner}</{shape.tag}>'


def _escaped(text: str) -> str:
    """Text as XML has it: without the characters that no escape makes legal there."""
    return html.escape(_NOT_XML.sub("\ufffd", text))


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def shortened(text: str, most: int = LONGEST) -> str:
    """Text cut in the middle, on one line, without control characters."""
    clean = text
    if not text.isprintable():
        clean = "".join(c if c.isprintable() else " " for c in text)
    if len(clean) <= most:
        return clean
    head = (most - 1) * 2 // 3
    return f"{clean[:head]}…{clean[-(most - 1 - head) :]}"


def stacked(scenes: Iterable[Scene], gap: Number = 16) -> Scene:
    """Scenes one below the other."""
    listed = list(scenes)
    width = max((scene.width for scene in listed), default=0)
    height = sum(scene.height for scene in listed) + gap * max(0, len(listed) - 1)
    joined = Scene(width, height, " ".join(scene.say for scene in listed))
    y: Number = 0
    for number, scene in enumerate(listed):
        joined.place(f"{number}:", scene, 0, y)
        y += scene.height + gap
    return joined


Made = TypeVar("Made")


class _Kept:
    """What views computed for a trace. It lives and dies with it, and is not saved with it."""

    def __init__(self, size: int = -1):
        self.size = size
        self.made: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def remembered(source: Sized, what: Hashable, make: Callable[[], Made]) -> Made:
    """What a view computed for a trace before, anew only where the trace has grown since.

    Stepping draws the same trace again and again; its layout is made once. `what` names it among
    all that the views of one trace remember.
    """
    kept: _Kept = vars(source).get("_views") or _Kept()
    if kept.size != len(source):
        kept = vars(source)["_views"] = _Kept(len(source))
    if what not in kept.made:
        kept.made[what] = make()
    made: Made = kept.made[what]
    return made
