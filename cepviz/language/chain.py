"""Queries that feed each other: what one returns, the next reads as events."""

from __future__ import annotations

from dataclasses import dataclass

from cepviz.errors import PatternError, one_of
from cepviz.language.build import Draft, as_query
from cepviz.language.contexts import ContextQuery
from cepviz.language.pattern import Pattern


@dataclass(frozen=True)
class Chain:
    """Queries in order; each but the last has a RETURN, or a PUBLISH if it is a CONTEXT query, and
    later ones can use its type."""

    queries: tuple[Pattern | ContextQuery, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.queries))


def chain(*queries: Pattern | Draft | ContextQuery | str) -> Chain:
    """Joins queries so that the composite events of one are events for the next.

    A composite event has the type and attributes of its RETURN, and lasts from the first to the
    last event of its match. The next query reads it together with the events of the stream.

    >>> import cepviz as cep
    >>> rises = "PATTERN SEQ(A a, A b) WHERE a.x < b.x WITHIN 5 RETURN Rise(top = b.x)"
    >>> both = cep.chain(rises, "PATTERN SEQ(Rise r, B b) WHERE b.x > r.top WITHIN 9")
    >>> s = cep.Stream.from_records(
    ...     {"type": t, "time": i, "x": int(x)} for i, (t, x) in enumerate(["A1", "A2", "B3"])
    ... )
    >>> cep.match(both, s)[0].ids
    {'r': 'Rise#1', 'b': 2}
    """
    read = tuple(map(as_query, queries))
    if not read:
        raise PatternError("a chain needs at least one query")
    returned: list[str] = []
    for number, query in enumerate(read, 1):
        types = {variable.type for variable in query.variables.values()}
        if returned and not types & set(returned):
            raise PatternError(
                f"query {number} of the chain uses nothing that comes before it: "
                f"use the type {one_of(returned)}"
            )
        if number < len(read):
            if query.returns is None:
                context = isinstance(query, ContextQuery)
                needs = (
                    "PUBLISH, such as PUBLISH <Rise>"
                    if context
                    else ("RETURN, such as RETURN Rise(top = b.x)")
                )
                raise PatternError(
                    f"query {number} of the chain feeds the next, so it needs a {needs}"
                )
            returned.append(query.returns.type)
    return Chain(read)
