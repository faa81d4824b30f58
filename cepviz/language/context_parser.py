"""Text to `ContextQuery`: the reader of the language of CONTEXTS."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import lark

from cepviz.errors import PatternError, did_you_mean
from cepviz.language.contexts import (
    CONTEXTS,
    ROLES,
    STRATEGIES,
    WORDS,
    Closure,
    ContextQuery,
    Input,
    Limit,
    Part,
    Restricted,
    Selected,
    Sequence,
    Sliding,
    Source,
)
from cepviz.language.expressions import Expression, Literal
from cepviz.language.parser import Builder, place_of, read, unquoted


@lark.v_args(inline=True)
class _Builder(Builder):
    """Builds queries; conditions are built as in patterns."""

    def part(self, token: lark.Token, name: lark.Token) -> Expression:
        place = (*place_of(token)[:2], len(token) + 1 + len(name))
        return Part(_role(token), unquoted(name), place=place)

    def edge(self, edge: lark.Token, token: lark.Token, name: lark.Token) -> Expression:
        return Part(_role(token), unquoted(name), edge.capitalize(), place=place_of(edge))

    def restrict(self, keyword: lark.Token, condition: Expression) -> Expression:
        return condition

    def one_restrict(self, condition: Expression) -> tuple[Expression, ...]:
        return (condition,)

    def restricts(self, *conditions: Expression) -> tuple[Expression, ...]:
        return conditions

    def limit(self, kind: lark.Token | None, amount: Expression) -> tuple[Any, Expression]:
        return kind, amount

    def window(  # type: ignore[override]
        self, keyword: lark.Token, reach: Any, slide: Any, named: lark.Token | None
    ) -> Any:
        kind, amount = reach
        if kind is None:
            raise PatternError(
                f"WINDOW {{{amount}, ...}} needs a kind: write TEMPORAL {amount} or COUNT {amount}",
                place=amount.place or place_of(keyword),
            )
        again, step = slide
        kind = kind.upper()
        slides = Limit(kind if again is None else again.upper(), step)
        return Sliding(Limit(kind, amount), slides, _strategy(named))

    def window_angled(
        self,
        keyword: lark.Token,
        kind: lark.Token,
        _: Any,
        reach: Any,
        slide: Any,
        __: Any,
        named: lark.Token | None,
    ) -> Sliding:
        limits = Limit(kind.upper(), reach), Limit(kind.upper(), slide)
        return Sliding(*limits, _strategy(named))

    def input(self, _: lark.Token, name: lark.Token, __: lark.Token) -> Source:
        return Input(unquoted(name))

    def nested(self, _: lark.Token, source: Source, __: lark.Token) -> Source:
        return source

    def restricted(self, restrict: Expression | None, source: Source) -> Source:
        return source if restrict is None else Restricted(source, restrict)

    def sequence(
        self, initiator: Any, word: lark.Token, window: Any, restricts: Any, detector: Any
    ) -> Source:
        conditions = _by_place(restricts or (), word, ("detector",), ("initiator", "detector"))
        return Sequence(initiator, detector, window, **conditions)

    def closure(
        self,
        initiator: Any,
        word: lark.Token,
        window: Any,
        restricts: Any,
        detector: Any,
        terminator: Any,
    ) -> Source:
        conditions = _by_place(
            restricts or (),
            word,
            ("detector",),
            ("detector", "terminator"),
            ("initiator", "detector", "terminator"),
        )
        return Closure(initiator, detector, terminator, window, **conditions)

    def selected(self, name: lark.Token, _: Any, alias: lark.Token | None) -> Selected:
        return Selected(unquoted(name), None if alias is None else unquoted(alias))

    def query(self, *parts: Any) -> ContextQuery:
        named = parts[1]
        select = tuple(part for part in parts if isinstance(part, Selected))
        window, source, publish = parts[-6], parts[-5], parts[-2]
        word = unquoted(named).lower()
        if word not in WORDS:
            raise PatternError(
                f"unknown context {named!s}{did_you_mean(word, WORDS)}",
                place=place_of(named),
                expected=CONTEXTS.values(),
            )
        published = None if publish is None else unquoted(publish)
        return ContextQuery(WORDS[word], select, source, window, published)


def _strategy(token: lark.Token | None) -> str | None:
    if token is None:
        return None
    word = token.upper().replace("-", "").replace("_", "").replace("REFERENCING", "")
    return next(name for name, known in STRATEGIES.items() if known == word)


def _role(token: lark.Token) -> str:
    role = token[1:].lower()
    if role not in ROLES:
        raise PatternError(
            f"unknown part {token!s}{did_you_mean(token, [f'${role}' for role in ROLES])}",
            place=place_of(token),
            expected=[f"${role}" for role in ROLES],
        )
    return role


def _by_place(
    restricts: tuple[Expression, ...], word: lark.Token, *roles: tuple[str, ...]
) -> dict[str, Expression]:
    """The conditions by the part they are on: with fewer, the initiator's is the first to go."""
    if not restricts:
        return {}
    if len(restricts) > len(roles):
        raise PatternError(
            f"{word.upper()} takes at most {len(roles)} RESTRICT, "
            f"of {', '.join(roles[-1])}, not {len(restricts)}",
            place=place_of(word),
        )
    named = zip(roles[len(restricts) - 1], restricts, strict=True)
    return {f"{role}_restrict": c for role, c in named if c != Literal(True)}


@cache
def _lark() -> lark.Lark:
    path = Path(__file__).with_name("contexts.lark")
    return lark.Lark(
        path.read_text(encoding="utf-8"),
        start="query",
        parser="lalr",
        transformer=_Builder(),
        maybe_placeholders=True,
        source_path=str(path),
        import_paths=[str(path.parent)],
    )


def parse_context(text: str, **values: Any) -> ContextQuery:
    """Reads a query in the form of CONTEXTS; `values` are given to its bare names."""
    query: ContextQuery = read(text, _lark())
    object.__setattr__(query, "text", text)
    return query.given(**values) if values else query
