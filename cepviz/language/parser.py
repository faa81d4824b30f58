"""Text to `Pattern`, with errors as compilers give them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lark

from cepviz.errors import PatternError, did_you_mean, one_of
from cepviz.language.allen import RELATIONS
from cepviz.language.expressions import (
    AGGREGATES,
    TRUTHS,
    UNITS,
    Aggregate,
    All,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Duration,
    Either,
    Expression,
    In,
    Length,
    Like,
    Literal,
    Negative,
    Opposite,
    Percent,
    Place,
    Relation,
    Symbol,
    Timestamp,
)
from cepviz.language.functions import FUNCTIONS
from cepviz.language.normal_form import conjuncts
from cepviz.language.pattern import STRATEGIES, Pattern, Returns, Window
from cepviz.language.structure import And, Atom, Kleene, Not, Or, Seq, Structure

LONGEST = 100_000

#: How a reader would name the terminals of the grammar.
SHOWN = {
    "NAME": "a name",
    "SET_NAME": "the name of a set",
    "NUMBER": "a number",
    "PERCENT": "a number",
    "STRING": "a string",
    "UNIT": "a unit of time",
    "EVENTS": "events",
    "UNBOUNDED": "unbounded",
    "STRATEGY": "a strategy such as skip_till_next_match",
    "COMPARE": "a comparison",
    "RELATION": "a relation such as DURING",
    "PLUS_MINUS": "+ or -",
    "TIMES": "*, / or %",
    "KLEENE": "+ or *",
    "BRACKETS": "[]",
    "OUTPUTS": "all or non_overlap",
    "LPAR": "(",
    "RPAR": ")",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "COMMA": "a comma",
    "SEMICOLON": ";",
    "DOT": "a dot",
    "EQUAL": "=",
    "TILDE": "~",
    "MINUS": "-",
    "LESS": "<",
    "MORE": ">",
    "KIND": "TEMPORAL or COUNT",
    "SLIDING": "ROLLING, WIPEOUT, KEEP or RIGID",
    "PART": "$pre, $suf or $cur",
    "EDGE": "Start or End",
    "$END": "the end",
}

#: CONTEXTS' own form starts so, maybe behind comments.
CONTEXT_FIRST = re.compile(r"(?:\s|--[^\n]*|/\*(?:.|\n)*?\*/)*+context\b", re.IGNORECASE)


@dataclass(frozen=True)
class Range(Expression):
    """`a[]` or `a[..i-1]` on its way to an aggregate; it does not outlive the parser."""

    variable: str
    prefix: bool
    name: str | None


@dataclass(frozen=True)
class Element(Expression):
    """`a[i]` on its way to a relation between events."""

    event: Attribute

    def __str__(self) -> str:
        return str(self.event).removesuffix(".start")


@dataclass(frozen=True)
class Same(Expression):
    """`[symbol]` on its way to `Pattern.same`."""

    names: tuple[str, ...]


def place_of(token: lark.Token) -> Place:
    return (token.line or 1, token.column or 1, max(1, len(token)))


def unquoted(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else str(token)


def _number(token: lark.Token, digits: str | None = None) -> int | float:
    digits = str(token) if digits is None else digits
    try:
        value: int | float = int(digits) if digits.isdecimal() else float(digits)
    except ValueError:
        value = math.inf
    if isinstance(value, float) and not math.isfinite(value):
        raise PatternError("this number is too large", place=place_of(token))
    return value


def _is_truth(node: Expression) -> bool:
    """Whether it could stand where true or false is wanted."""
    if isinstance(node, Literal):
        return isinstance(node.value, bool)
    return isinstance(node, (*TRUTHS, Attribute, Call, Same))


@lark.v_args(inline=True)
class Builder(lark.Transformer[lark.Token, Any]):
    """Builds the value of each grammar rule as it is recognised."""

    # ---- structure ----

    def atom(
        self,
        type: lark.Token,
        kleene: lark.Token | None,
        variable: lark.Token | None,
        brackets: lark.Token | None,
    ) -> Structure:
        if brackets is not None and brackets[1:-1].strip():
            raise PatternError(f"a declaration is written {variable}[]", place=place_of(brackets))
        if brackets is not None and kleene is None:
            raise PatternError(
                f"{variable}[] is a list: write {type}+ {variable}[] or {type}* {variable}[]",
                place=place_of(brackets),
            )
        named = type if variable is None else variable
        atom = Atom(unquoted(type), unquoted(named), place=place_of(named))
        return Kleene(atom, optional=kleene == "*") if kleene else atom

    def typed_atom(self, type: lark.Token, *attributes: lark.Token) -> Structure:
        # APAM writes A(attr1): the type doubles as variable, the list only announces attributes.
        return Atom(unquoted(type), unquoted(type), place=place_of(type))

    def absent(self, *parts: Any) -> Structure:
        atom = parts[-1]
        if not isinstance(atom, Atom):
            raise PatternError(
                f"NOT takes one event, so ~({atom}) is refused: one is enough to break it",
                place=atom.atom.place,
            )
        return Not(atom)

    def seq(self, *parts: Any) -> Structure:
        return Seq(tuple(part for part in parts if not isinstance(part, lark.Token)))

    chain = seq

    def both(self, keyword: lark.Token, *parts: Structure) -> Structure:
        return And(parts)

    def either_node(self, keyword: lark.Token, *parts: Structure) -> Structure:
        return Or(parts)

    # ---- conditions ----

    def scope(self, *parts: lark.Token | None) -> list[lark.Token]:
        return [part for part in parts if part is not None and part.type != "BRACKETS"]

    def where_strategy(self, *parts: Any) -> tuple[lark.Token, Any, Any]:
        return parts[1], parts[2], parts[3]

    def where_strategy_and(self, *parts: Any) -> tuple[lark.Token, Any, Any]:
        return parts[1], parts[2], parts[4]

    def where_expr(self, keyword: lark.Token, expr: Expression) -> tuple[None, None, Expression]:
        return None, None, expr

    def any_of(self, *parts: Any) -> Expression:
        return Either(tuple(part for part in parts if not isinstance(part, lark.Token)))

    def all_of(self, *parts: Any) -> Expression:
        return All(tuple(part for part in parts if not isinstance(part, lark.Token)))

    def opposite(self, keyword: lark.Token, part: Expression) -> Expression:
        return Opposite(part, place=place_of(keyword))

    def compare(self, left: Expression, operator: lark.Token, right: Expression) -> Expression:
        written = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
        return Compare(
            written.get(str(operator), str(operator)), left, right, place=place_of(operator)
        )

    def in_list(self, operand: Expression, no: Any, word: Any, *options: Any) -> Expression:
        given = tuple(option for option in options if option is not None)
        return In(operand, given, no is not None, place=place_of(word))

    def in_set(self, operand: Expression, no: Any, word: Any, name: lark.Token) -> Expression:
        options = Symbol(str(name), place=place_of(name))
        return In(operand, options, no is not None, place=place_of(word))

    def between(self, operand: Any, no: Any, word: Any, low: Any, _: Any, high: Any) -> Expression:
        return Between(operand, low, high, no is not None, place=place_of(word))

    def like(self, operand: Expression, no: Any, word: Any, text: lark.Token) -> Expression:
        return Like(operand, str(self.string(text).value), no is not None, place=place_of(word))

    def relation(self, first: Any, no: Any, word: lark.Token, second: Any) -> Expression:
        return related(word, (first, second), place_of(word), no is not None)

    def arithmetic(self, left: Any, operator: lark.Token, right: Any) -> Expression:
        return Arithmetic(str(operator), left, right, place=place_of(operator))

    def negative(self, operand: Expression) -> Expression:
        if isinstance(operand, Literal) and not isinstance(operand.value, str | bool):
            return Literal(-operand.value, place=operand.place)
        return Negative(operand, place=operand.place)

    def number(self, token: lark.Token) -> Expression:
        return Literal(_number(token), place=place_of(token))

    def percent(self, token: lark.Token) -> Expression:
        return Percent(_number(token, token[:-1]), place=place_of(token))

    def duration(self, token: lark.Token, unit: lark.Token) -> Expression:
        return Duration(_number(token), UNITS[unit.lower()], place=place_of(token))

    def string(self, token: lark.Token) -> Literal:
        quote = token[0]
        return Literal(token[1:-1].replace(quote * 2, quote), place=place_of(token))

    def timestamp(self, keyword: lark.Token, token: lark.Token) -> Expression:
        return Timestamp(str(self.string(token).value), place=place_of(token))

    def true(self, token: lark.Token) -> Expression:
        return Literal(True, place=place_of(token))

    def false(self, token: lark.Token) -> Expression:
        return Literal(False, place=place_of(token))

    def reference(self, variable: lark.Token, name: lark.Token) -> Expression:
        place = (*place_of(variable)[:2], len(variable) + 1 + len(name))
        if name in ("LEN", "len"):
            return Length(unquoted(variable), str(name), place=place)
        return Attribute(unquoted(variable), unquoted(name), place=place)

    def reference_at(
        self, variable: lark.Token, brackets: lark.Token, name: lark.Token
    ) -> Expression:
        place = (*place_of(variable)[:2], len(variable) + len(brackets) + 1 + len(name))
        index = re.sub(r"\s", "", brackets[1:-1])
        called = unquoted(variable)
        if index in ("", "..i-1"):
            return Range(called, index != "", unquoted(name), place=place)
        head, _, tail = brackets[1:-1].rpartition(".")
        if unquoted(head.strip()) == called and tail.strip().lower() == "len":
            index = "LEN"
        if index not in ("1", "i", "i-1", "LEN"):
            raise PatternError(
                f"{variable}{brackets} is not an element: write {variable}[1], {variable}[i], "
                f"{variable}[i-1] or {variable}[{variable}.LEN]",
                place=place_of(brackets),
            )
        return Attribute(called, unquoted(name), index, place=place)

    def range(self, variable: lark.Token, brackets: lark.Token) -> Expression:
        index = re.sub(r"\s", "", brackets[1:-1])
        if index not in ("", "..i-1"):
            start = lark.Token("NAME", "start")
            event = self.reference_at(variable, brackets, start)
            assert isinstance(event, Attribute)
            return Element(event, place=place_of(brackets))
        return Range(unquoted(variable), index != "", None, place=place_of(variable))

    def call(self, name: lark.Token, *arguments: Any) -> Expression:
        function = unquoted(name)
        place = place_of(name)
        given = tuple(argument for argument in arguments if argument is not None)
        if function.upper() in RELATIONS and function not in FUNCTIONS:
            return related(name, given, place)
        if function.lower() not in AGGREGATES:
            return Call(function, given, place=place)
        return self._aggregate(function.lower(), given, place)

    def _aggregate(self, function: str, given: tuple[Any, ...], place: Place) -> Expression:
        (over,) = given if len(given) == 1 else (None,)
        if isinstance(over, Attribute) and not over.index:
            over = Range(over.variable, False, over.name, place=place)
        if not isinstance(over, Range) or (over.name is None and function != "count"):
            example = "a[]" if function == "count" else "a[].price"
            hint = f"{function}({example}) or {function}({example.replace('[]', '[..i-1]')})"
            if isinstance(over, Attribute):
                hint = f"{function}({over.variable}[..i-1].{over.name})"
            raise PatternError(
                f"{function} runs over the elements of a Kleene variable: write {hint}",
                place=place,
            )
        return Aggregate(function, over.variable, over.name, over.prefix, place=place)

    def symbol(self, token: lark.Token) -> Expression:
        return Symbol(unquoted(token), place=place_of(token))

    def same(self, *names: lark.Token) -> Expression:
        return Same(tuple(unquoted(name) for name in names), place=place_of(names[0]))

    def parenthesis(self, inner: Expression) -> Expression:
        return inner

    # ---- the rest ----

    def window(self, amount: lark.Token, unit: lark.Token | None) -> Window:
        word = "" if unit is None else "events" if unit.type == "EVENTS" else UNITS[unit.lower()]
        if amount.type != "NUMBER":
            return Window(Symbol(unquoted(amount), place=place_of(amount)), word)
        number = _number(amount)
        if number <= 0:
            raise PatternError("a window must be longer than 0", place=place_of(amount))
        if word == "events" and not isinstance(number, int):
            raise PatternError("a window holds a whole number of events", place=place_of(amount))
        return Window(number, word)

    def unbounded(self, token: lark.Token) -> Window:
        return Window(None)

    def window_only(self, window: Window) -> Window:
        return window

    def assignment(self, name: lark.Token, value: Expression) -> tuple[str, Expression]:
        return unquoted(name), value

    def returns(self, type: lark.Token, *attributes: Any) -> Returns:
        given = tuple(attribute for attribute in attributes if attribute is not None)
        return returned(unquoted(type), given)

    def pattern(self, *parts: Any) -> Pattern:
        structure, where = parts[1], parts[2]
        within, returns, output = parts[4], parts[6], parts[8]
        strategy, scope, condition = where or (None, None, None)
        tests, same = split_condition(condition)
        fields: dict[str, Any] = {}
        if strategy is not None:
            fields["strategy"] = strategy.lower().replace("-", "_")
        if output is not None:
            fields["output"] = output.lower().replace("-", "_")
        try:
            made = Pattern(structure, tests, same, within=within, returns=returns, **fields)
        except PatternError as error:
            if error.place is None and strategy is not None and fields["strategy"] in str(error):
                raise PatternError(error.message, place=place_of(strategy)) from None
            raise
        for name in scope or ():
            if unquoted(name) not in made.variables:
                raise PatternError(
                    f"{name!s} is not a variable of the pattern"
                    f"{did_you_mean(name, made.variables)}; it has {one_of(made.variables)}",
                    place=place_of(name),
                )
        return made


def related(word: str, given: tuple[Any, ...], place: Place, negated: bool = False) -> Relation:
    """One of Allen's relations between two events, as `a DURING b` or `DURING(a, b)`."""
    name = word.upper()
    events = []
    for part in given:
        if isinstance(part, Symbol):
            part = Element(Attribute(part.name, "start", place=part.place))
        if not isinstance(part, Element):
            raise PatternError(
                f"{name} is between two events, and {part} is none: write a {name} b", place=place
            )
        events.append(part.event)
    if len(events) != 2:
        raise PatternError(f"{name} is between two events: write a {name} b", place=place)
    return Relation.of(name, events[0], events[1], negated, place=place)


def returned(type: str, attributes: tuple[tuple[str, Expression], ...]) -> Returns:
    """The RETURN clause of these attributes, if each is a value."""
    for _, value in attributes:
        _refuse_leftovers(value)
        _check_kinds(value, truth=_is_truth(value))
    return Returns(type, attributes)


def split_condition(
    condition: Expression | None,
) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    """The conjuncts of a WHERE clause, and the attributes of its equivalence tests."""
    if condition is None:
        return (), ()
    parts = _top_level(condition)
    same = tuple(name for part in parts if isinstance(part, Same) for name in part.names)
    tests = [part for part in parts if not isinstance(part, Same)]
    for test in tests:
        check_condition(test)
    return tuple(clause for test in tests for clause in conjuncts(test)), same


def _top_level(condition: Expression) -> list[Expression]:
    if isinstance(condition, All):
        return [inner for part in condition.parts for inner in _top_level(part)]
    return [condition]


def check_condition(expression: Expression) -> None:
    """Refuses what is not a condition, and values in it that are."""
    _refuse_leftovers(expression)
    _check_kinds(expression, truth=True)


def _refuse_leftovers(expression: Expression) -> None:
    for node in expression.walk():
        if isinstance(node, Same):
            raise PatternError(
                "an equivalence test stands alone, joined to the rest by and", place=node.place
            )
        if isinstance(node, Element):
            raise PatternError(
                f"{node} is an event: name one of its attributes, as in {node}.price",
                place=node.place,
            )
        if isinstance(node, Range):
            raise PatternError(
                "a range of elements needs an aggregate, as in avg(a[..i-1].price)",
                place=node.place,
            )


def _check_kinds(node: Expression, truth: bool) -> None:
    """Refuses a value where true or false is wanted, and the other way round."""
    place = next((part.place for part in node.walk() if part.place), None)
    if truth and not _is_truth(node):
        near = did_you_mean(node.name, STRATEGIES) if isinstance(node, Symbol) else ""
        raise PatternError(f"{node} is a value, not a condition{near}", place=place)
    if not truth and isinstance(node, TRUTHS):
        raise PatternError(f"({node}) is a condition, not a value", place=place)
    inner = isinstance(node, All | Either | Opposite)
    for child in node.children():
        _check_kinds(child, inner)


@cache
def _lark(start: str) -> lark.Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(
        grammar,
        start=start,
        parser="lalr",
        transformer=Builder(),
        maybe_placeholders=True,
    )


def read(text: str, parser: lark.Lark) -> Any:
    """What the parser makes of a text; whatever it cannot read is a `PatternError`."""
    if not isinstance(text, str):
        raise PatternError(f"a pattern is text, not {type(text).__name__}")
    if len(text) > LONGEST:
        raise PatternError(f"this text is longer than {LONGEST} characters")
    if not text.strip():
        raise PatternError("the text is empty; a pattern starts with PATTERN SEQ(...)")
    try:
        return parser.parse(text)
    except lark.exceptions.VisitError as error:
        if isinstance(error.orig_exc, PatternError):
            raise error.orig_exc.within(text) from None
        raise
    except PatternError as error:
        raise error.within(text) from None
    except lark.exceptions.UnexpectedInput as error:
        raise _explained(error, text) from None
    except RecursionError:
        raise PatternError("the pattern is nested too deeply") from None


def _explained(error: lark.exceptions.UnexpectedInput, text: str) -> PatternError:
    if isinstance(error, lark.exceptions.UnexpectedToken):
        token = error.token
        expected = error.accepts or error.expected
        if token.type == "$END":
            lines = text.rstrip().split("\n")
            return PatternError(
                "the text ends too early",
                place=(len(lines), len(lines[-1]) + 1, 1),
                text=text,
                expected=_shown(expected),
            )
        at = token.start_pos or 0
        for back in (0, 1):  # its slash may have been taken for a division
            if at >= back and text.startswith("/*", at - back):
                place = (token.line or 1, (token.column or 1) - back, 2)
                return PatternError("the comment /* is not closed", place=place, text=text)
        word = str(token)
        keywords = [name.lower() for name in expected if name.isalpha() and name not in SHOWN]
        hint = did_you_mean(word, keywords)
        return PatternError(
            f"{_cut(word)!r} is not expected here{hint}",
            place=place_of(token),
            text=text,
            expected=_shown(expected),
        )
    found = text[error.pos_in_stream] if error.pos_in_stream is not None else ""
    message = f"{found!r} cannot be read here"
    if found in "'\"`":
        message = f"the quote {found} is not closed"
    elif text.startswith("/*", error.pos_in_stream or 0):
        message = "the comment /* is not closed"
    return PatternError(
        message,
        place=(error.line, error.column, 1),
        text=text,
        expected=_shown(getattr(error, "allowed", None) or ()),
    )


def _cut(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:20]}…{word[-15:]}"


def _shown(expected: Any) -> list[str]:
    names = {SHOWN.get(name, name) for name in expected if name not in ("WS", "COMMENT")}
    return sorted(names, key=lambda shown: (shown[0].isupper(), shown))


def parse(text: str, **values: Any) -> Pattern:
    """Reads a pattern; `values` are given to its bare names, as `Pattern.given` does.

    >>> print(parse("PATTERN SEQ(A a, B b) WHERE a.x > T WITHIN 5 min", T=3))
    PATTERN SEQ(A a, B b)
    WHERE a.x > 3
    WITHIN 5 minutes
    """
    if isinstance(text, str) and CONTEXT_FIRST.match(text):
        from cepviz.language.context_parser import parse_context

        return parse_context(text, **values)  # type: ignore[return-value]
    pattern: Pattern = read(text, _lark("pattern"))
    object.__setattr__(pattern, "source", text)
    return pattern.given(**values) if values else pattern


def parse_window(text: str) -> Window:
    """Reads what may stand behind WITHIN."""
    window: Window = read(text, _lark("window_only"))
    return window
