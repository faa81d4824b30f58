"""A pattern as a picture, without any engine: its variables, their order, and who is compared.

A column for each variable, in the order of the text: an arrow says that one comes before another,
none that the order is free. Below, a row for each condition, with a dot under each variable it is
about. A pattern with OR or `T*` has such a picture for each of its branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cepviz.language.build import as_pattern
from cepviz.language.chain import Chain
from cepviz.language.expressions import Attribute, Compare
from cepviz.language.pattern import Branch, Negation, Pattern
from cepviz.language.structure import Variable
from cepviz.views.layout import Point
from cepviz.views.marks import circle, head, tick, tip, width_of
from cepviz.views.scene import Scene, shortened, stacked

#: Branches, and conditions of a branch, that are drawn; the others are counted.
MOST_BRANCHES, MOST_ROWS = 6, 16
LEFT, GAP, ROW = 28, 44, 24
_HIGH = 46

Bound = Mapping[str, Iterable[str]]


def pattern(given: Any, *, bound: Bound | None = None) -> Scene:
    """Draws a pattern: what must happen, in which order, and what is compared with what.

    `given` is a pattern, its text, a draft or a chain of queries. `bound` names events that stand
    for variables, as `{"a": ["e1"]}`.

    >>> pattern("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5")
    a before b; a.x < b.x; within 5.
    """
    if isinstance(given, Chain):
        return stacked(pattern(query, bound=bound) for query in given.queries)
    query = as_pattern(given)
    branches = query.branches[:MOST_BRANCHES]
    scenes = []
    for number, branch in enumerate(branches, 1):
        of = f"branch {number} of {len(query.branches)}" if len(query.branches) > 1 else ""
        scenes.append(_Drawing(query, branch, of, bound).scene())
    whole = scenes[0] if len(scenes) == 1 else stacked(scenes, gap=8)
    rest = len(query.branches) - len(branches)
    if rest:
        more = Scene(whole.width, 24, "")
        more.label("more", 16, 16, f"and {rest} more branches", "small")
        whole = stacked([whole, more], gap=4)
    said = " Or: ".join(scene.say for scene in scenes[:3])
    whole.say = f"{said} And {len(query.branches) - 3} more." if len(scenes) > 3 else said
    return whole


@dataclass(frozen=True)
class _Column:
    """A variable's place: its centre, its width, and what stands in it."""

    variable: Variable
    x: float
    width: float
    negation: Negation | None = None


class _Drawing:
    def __init__(self, query: Pattern, branch: Branch, of: str, bound: Bound | None):
        self.query, self.branch, self.of = query, branch, of
        known = {name: tuple(labels) for name, labels in (bound or {}).items()}
        # The events of a match are those of the branch that has all its variables.
        there = {name for name, labels in known.items() if labels}
        self.bound = known if there <= branch.by_name.keys() else {}
        self.tall = _HIGH + (16 if bound is not None else 0)
        self.narrow = 76.0 if bound is None else 124.0
        self.columns = self.placed()
        self.by_name = {column.variable.name: column for column in self.columns}
        self.arrows = _arrows(branch)
        places = [column.variable.name for column in self.columns]
        spans = [places.index(v) - places.index(u) for u, v in self.arrows]
        self.arch = max((12 + 9 * span for span in spans if span > 1), default=0)
        self.top = (26 if of else 8) + 36 + self.arch
        self.rows = self.conditions()
        self.right = max(column.x + column.width / 2 for column in self.columns)
        words = max((width_of(shortened(text, 60), 12) for text, *_ in self.rows), default=0)
        self.bottom = self.top + self.tall + 18 + ROW * len(self.rows)
        width = max(self.right + 28 + words + 16, self.right + 40, 360)
        self.picture = Scene(round(width), round(self.bottom + 6), self.said())

    def placed(self) -> list[_Column]:
        """The variables in the order of the text, negated ones before what they come before."""
        order: list[tuple[Variable, Negation | None]] = [(v, None) for v in self.branch.variables]
        for absent in self.branch.negations:
            names = [variable.name for variable, _ in order]
            at = min((names.index(name) for name in absent.before), default=len(order))
            order.insert(at, (absent.variable, absent))
        columns, x = [], float(LEFT)
        for variable, negation in order:
            texts = [width_of(shortened(_name(variable), 16), 13) * 1.08,
                     width_of(shortened(variable.type, 16), 11)]  # fmt: skip
            # Room for labels of events is there before they are, so that nothing moves.
            width = round(max(self.narrow, max(texts) + 26), 1)
            columns.append(_Column(variable, round(x + width / 2, 1), width, negation))
            x += width + GAP
        return columns

    def conditions(self) -> list[tuple[str, frozenset[str], str, str]]:
        """The rows: text, variables, the negated one among them, and the whole as tooltip."""
        rows: dict[str, tuple[frozenset[str], str]] = {}
        for conjunct in self.branch.conjuncts:
            text = str(conjunct)
            side = conjunct.left if isinstance(conjunct, Compare) else None
            if conjunct in self.branch.equivalences and isinstance(side, Attribute):
                text = f"[{side.name}]: all the same"
            known, _ = rows.get(text, (frozenset(), ""))
            rows[text] = (known | conjunct.variables, "")
        for negation in self.branch.negations:
            for conjunct in negation.conjuncts:
                name = negation.variable.name
                rows[str(conjunct)] = (conjunct.variables | {name}, name)
        listed = [(text, names, negated, text) for text, (names, negated) in rows.items()]
        if len(listed) > MOST_ROWS:
            rest = listed[MOST_ROWS - 1 :]
            told = "\n".join(text for text, *_ in rest)
            listed = listed[: MOST_ROWS - 1]
            listed.append((f"and {len(rest)} more conditions", frozenset(), "", told))
        return listed

    def said(self) -> str:
        order = ", ".join(f"{u} before {v}" for u, v in self.arrows) or "in any order"
        names = " and ".join(str(variable) for variable in self.branch.variables)
        first = order if self.arrows else names + (
            " in any order" if len(self.branch.variables) > 1 else "")  # fmt: skip
        absent = [f"no {n.variable.type} {n.variable.name}" for n in self.branch.negations]
        parts = [first, *absent, *(text for text, *_ in self.rows)]
        parts += [f"within {self.query.within}"] if self.query.within else []
        return shortened("; ".join(parts), 400) + "."

    # ---- drawing ----

    def scene(self) -> Scene:
        self.heading()
        self.conditions_drawn()
        self.free()
        for number, column in enumerate(self.columns):
            self.box(number, column)
        for number, (one, two) in enumerate(self.arrows):
            self.arrow(number, self.by_name[one], self.by_name[two])
        return self.picture

    def heading(self) -> None:
        picture, y = self.picture, 18
        if self.of:
            empty = [f"{name}[] is empty" for name in self.branch.empty]
            picture.label("branch", 12, y, ", ".join([self.of, *empty]), "label", 60)
            y += 20
        first, last = self.columns[0], self.columns[-1]
        x1, x2 = first.x - first.width / 2, last.x + last.width / 2
        words = [self.query.strategy.replace("_", " ")]
        if self.query.within is not None:
            words.insert(0, f"within {self.query.within}")
            path = f"M{x1:g},{y + 14:g}V{y + 8:g}H{x2:g}V{y + 14:g}"
            picture.add("window", "path", "window", d=path, title=tip(str(self.query.within)))
        picture.label("window:text", x1, y, ", ".join(words), "small", 70)

    def box(self, number: int, column: _Column) -> None:
        picture, key, variable = self.picture, f"variable:{number}", column.variable
        x, y = column.x - column.width / 2, self.top
        held = self.bound.get(variable.name, ())
        classes = "negated" if column.negation else "state"
        if variable.kleene:  # one behind the other: one or more
            picture.add(f"{key}:more", "rect", classes, x=x + 5, y=y - 5, width=column.width,
                        height=self.tall, rx=10)  # fmt: skip
        classes += " found path" if held else ""
        title = _about(column)
        picture.add(key, "rect", classes, title=tip(title), x=x, y=y, width=column.width,
                    height=self.tall, rx=10)  # fmt: skip
        picture.label(f"{key}:name", column.x, y + 20, _name(variable), "label middle", 16)
        picture.label(f"{key}:type", column.x, y + 36, variable.type, "small middle", 16)
        if held:
            said = " ".join(held)
            picture.label(f"{key}:held", column.x, y + 53, said, "text middle bold yes", 14)

    def arrow(self, number: int, one: _Column, two: _Column) -> None:
        """Straight to the neighbour, in an arch over those between."""
        key = f"order:{number}"
        title = tip(f"{_name(one.variable)} comes before {_name(two.variable)}")
        between = self.columns[self.columns.index(one) + 1 : self.columns.index(two)]
        if not between:
            y = self.top + self.tall / 2
            x1 = one.x + one.width / 2 + (5 if one.variable.kleene else 0)
            x2 = two.x - two.width / 2
            self.picture.add(key, "path", "edge", d=f"M{x1:g},{y:g}L{x2 - 9:g},{y:g}", title=title)
            head(self.picture, f"{key}:head", "ignore-head", Point(x2, y), Point(x1, y))
            return
        y, rise = self.top, 12 + 9 * (len(between) + 1)
        x1, x2 = one.x + one.width / 4, two.x - two.width / 4
        d = f"M{x1:g},{y:g}C{x1 + 14:g},{y - rise * 1.3:g} {x2 - 14:g},{y - rise * 1.3:g} "
        self.picture.add(key, "path", "edge", d=f"{d}{x2:g},{y - 9:g}", title=title)
        head(self.picture, f"{key}:head", "ignore-head", Point(x2, y), Point(x2 - 4, y - 10))

    def free(self) -> None:
        """Between neighbours without an order stands the word."""
        for number, (one, two) in enumerate(zip(self.columns, self.columns[1:], strict=False)):
            pair = (one.variable.name, two.variable.name)
            if one.negation is None and two.negation is None and pair not in self.branch.order:
                x = (one.x + one.width / 2 + two.x - two.width / 2) / 2 + 2
                y = self.top + self.tall / 2 + 4
                self.picture.add(f"free:{number}", "text", "small middle", text="and", x=x, y=y,
                                 title=tip(f"{pair[0]} and {pair[1]}, in any order"))  # fmt: skip

    def conditions_drawn(self) -> None:
        picture = self.picture
        for number, (text, names, negated, told) in enumerate(self.rows):
            key, y = f"condition:{number}", self.top + self.tall + 24 + ROW * number
            places = sorted(self.by_name[name].x for name in names if name in self.by_name)
            end = self.right + 16
            if places:
                d = f"M{places[0]:g},{y:g}H{end:g}"
                picture.add(key, "path", "kin", d=d, title=tip(told))
            for place, x in enumerate(places):
                if negated and x == self.by_name[negated].x:
                    tick(picture, f"{key}:{place}", x, y, False)
                else:
                    picture.add(f"{key}:{place}", "path", "dot", d=circle(x, y, 4), title=tip(told))
            classes = "said-drop" if negated else "text"
            picture.label(f"{key}:text", end + 10, y + 4, text, classes, 60)


def _name(variable: Variable) -> str:
    return f"~{variable}" if variable.negated else str(variable)


def _about(column: _Column) -> str:
    variable = column.variable
    if column.negation is not None:
        sides = [("after", column.negation.after), ("before", column.negation.before)]
        where = " and ".join(f"{word} {', '.join(sorted(names))}" for word, names in sides if names)
        return f"no event of type {variable.type} {where}".rstrip()
    several = "one or more events" if variable.kleene else "an event"
    return f"{variable}: {several} of type {variable.type}"


def _arrows(branch: Branch) -> list[tuple[str, str]]:
    """The order without what follows from the rest of it."""
    names = [variable.name for variable in branch.variables]
    return [
        (u, v)
        for u in names
        for v in names
        if (u, v) in branch.order
        and not any((u, w) in branch.order and (w, v) in branch.order for w in names)
    ]
