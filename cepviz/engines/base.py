"""What every engine shares: the protocol, matches, windows, budgets and counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from cepviz.errors import BudgetError, CepError, PredicateError, StreamError
from cepviz.events import Event, Schema, Stream
from cepviz.language.evaluate import Bindings, Failed, value
from cepviz.language.expressions import Expression
from cepviz.language.pattern import Pattern, Returns
from cepviz.language.resolve import resolve, window_size
from cepviz.steps import Arrive, Drop, Graph, Matched, Step

Hook = Callable[[Step], None]

#: How many failed predicates are kept with their text; further ones are only counted.
MOST_FAILURES = 100


@dataclass(frozen=True)
class Budget:
    """How much a run may hold before it is stopped: live runs, buffered events, matches."""

    runs: int = 1_000_000
    buffered: int = 10_000_000
    matches: int = 1_000_000

    @classmethod
    def of(cls, given: Budget | Mapping[str, int] | None) -> Budget:
        """The budget for what a caller passed: a Budget, a dict of limits, or nothing."""
        if given is None:
            return cls()
        if isinstance(given, Budget):
            return given
        known = [item.name for item in fields(cls)]
        for name, limit in given.items():
            if name not in known:
                raise CepError(f"unknown limit {name!r} in the budget (must be one of {known})")
            if not isinstance(limit, int) or limit < 1:
                raise CepError(f"the budget for {name} must be a whole number from 1, not {limit}")
        return cls(**given)


@dataclass
class Counters:
    """What an engine counted: exact, so that engines can be compared and tested by them.

    `evaluations` counts conditions tried on an edge as LAZY section 7 does: one for each run and
    each event that fits the variable by its type and its own predicates. `filters` counts those
    own predicates, tried once for each event and variable. `merged` counts runs that became one
    with another, `reprocessed` events that were read again after backtracking.
    """

    events: int = 0
    evaluations: int = 0
    filters: int = 0
    runs: int = 0
    peak_runs: int = 0
    peak_buffered: int = 0
    merged: int = 0
    reprocessed: int = 0
    matches: int = 0
    failed_predicates: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True)
class Failure:
    """A predicate that could not be computed, the event it was tried on, and why."""

    predicate: str
    events: str
    reason: str

    def __str__(self) -> str:
        return f"{self.predicate} on {self.events}: {self.reason}"


def before(first: Event, second: Event) -> bool:
    """Whether one event precedes another: by stream order, for true intervals strictly in time."""
    if first.start == first.end and second.start == second.end:
        return first.position < second.position
    return first.end < second.start


def partition_key(names: Sequence[str], schema: Schema) -> Callable[[Event], Any]:
    """The function that gives an event's partition by `[attr]`; None if it is in none."""
    sure = all(schema.attributes.get(name) in ("number", "string", "bool") for name in names)
    if len(names) == 1 and sure:
        (name,) = names
        return lambda event: event.attributes.get(name)

    def key(event: Event) -> Any:
        values = tuple([event.get(name) for name in names])
        if None in values:
            return None
        try:
            hash(values)
        except TypeError:  # a list, say
            return repr(values)
        return values

    return key


class Match:
    """Events that satisfy a pattern: each variable with its event, or events if it is Kleene."""

    __slots__ = ("_returns", "_schema", "bindings", "completed", "result")

    def __init__(
        self,
        bindings: Mapping[str, Event | tuple[Event, ...]],
        completed: Event,
        returns: Returns | None = None,
        schema: Schema | None = None,
    ):
        self.bindings = dict(bindings)
        self.completed = completed
        self._returns = returns
        self._schema = schema or Schema()
        #: The result it was taken from, which knows the pattern and the stream.
        self.result: Any = None

    def __getitem__(self, variable: str) -> Event | tuple[Event, ...]:
        try:
            return self.bindings[variable]
        except KeyError:
            raise KeyError(f"no variable {variable!r}; there is {list(self.bindings)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.bindings)

    @property
    def events(self) -> list[Event]:
        """All its events in stream order."""
        return sorted(events_of(self.bindings), key=lambda event: event.position)

    @property
    def ids(self) -> dict[str, Any]:
        """Variable to event id, or list of ids."""
        return {
            name: bound.id if isinstance(bound, Event) else [event.id for event in bound]
            for name, bound in self.bindings.items()
        }

    @property
    def key(self) -> tuple[Any, ...]:
        """The bindings as a value that can be compared and counted."""
        return tuple(
            (name, (bound.id,) if isinstance(bound, Event) else tuple(e.id for e in bound))
            for name, bound in sorted(self.bindings.items())
        )

    @property
    def first(self) -> int | float:
        """The time its first event starts."""
        return min(event.start for event in events_of(self.bindings))

    @property
    def last(self) -> int | float:
        """The time its last event ends."""
        return max(event.end for event in events_of(self.bindings))

    def composite(self) -> Event:
        """The match as one event, with the type and attributes that RETURN gives it."""
        type, attributes = "Match", {}
        if self._returns is not None:
            type = self._returns.type
            attributes = {
                name: value(node, self.bindings) for name, node in self._returns.attributes
            }
        return Event(type, self.first, end=self.last, **attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Match) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={' '.join(labels)}" for name, labels in labels_of(self.bindings))
        start, end = (self._schema.format_time(time) for time in (self.first, self.last))
        return f"<Match {said} from {start} to {end}>"


def events_of(bindings: Bindings) -> Iterator[Event]:
    """Every event of some bindings."""
    for bound in bindings.values():
        if isinstance(bound, Event):
            yield bound
        else:
            yield from bound


def labels_of(bindings: Bindings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Bindings as plain data for a step: variable to labels."""
    return tuple(
        (name, (bound.label,) if isinstance(bound, Event) else tuple(e.label for e in bound))
        for name, bound in bindings.items()
    )


class Engine:
    """Reads events one by one and gives the matches each completes.

    A subclass says in `refuses` which patterns it does not take, and implements `graph`, `read`
    and `finish`. `emit` is None unless somebody watches: no step is built then.
    """

    name: ClassVar[str] = ""
    takes_intervals: ClassVar[bool] = False
    #: Whether it takes a stream as whole columns, with `run`, and so has no steps to show.
    whole: ClassVar[bool] = False
    #: The options that change how it works but not what it finds; each is tested like an engine.
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    #: The keywords it takes beside those of every engine.
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        pattern: Pattern,
        plan: Any = None,
        *,
        hooks: Sequence[Hook] = (),
        schema: Schema | None = None,
        budget: Budget | Mapping[str, int] | None = None,
        on_error: str = "keep",
    ):
        self.schema = schema or Schema()
        self.pattern = resolve(pattern, self.schema)
        self.plan = plan
        self._names = list(self.pattern.variables)
        self.window = window_size(self.pattern, self.schema)
        self.by_count = self.pattern.within is not None and self.pattern.within.in_events
        self.budget = Budget.of(budget)
        self.counters = Counters()
        self.failures: list[Failure] = []
        self.out: list[Match] = []
        self.emit: Hook | None = _joined(tuple(hooks))
        if on_error not in ("keep", "raise"):
            raise CepError(f"on_error is 'keep' or 'raise', not {on_error!r}")
        self._raises = on_error == "raise"
        self.latest: Event | None = None

    # ---- what a subclass says ----

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        """Why this engine does not take a pattern; None if it does."""
        return None

    @classmethod
    def orders_intervals(cls, pattern: Pattern) -> bool:
        """Whether it finds this pattern among events that last."""
        return cls.takes_intervals

    @classmethod
    def planned(cls, pattern: Pattern, counts: Mapping[str, int]) -> Any:
        """The plan to use where none is given, by how many events of each type there are."""
        return None

    @property
    def graph(self) -> Graph:
        """The engine's still picture: states and edges as plain data."""
        return Graph()

    def read(self, event: Event) -> None:
        """Processes one event; matches go to `found`."""
        raise NotImplementedError

    def finish(self) -> None:
        """Processes the end of the stream."""

    # ---- what a caller uses ----

    @property
    def form(self) -> str:
        """Which form of the engine ran, where there are several."""
        return ""

    def run(self, stream: Stream) -> None:
        """Takes a whole stream at once, where an engine does that; `collected` has the matches."""
        raise NotImplementedError

    def push(self, event: Event) -> list[Match]:
        """Reads one event and returns the matches it completed."""
        latest = self.latest
        if event.position < 0:
            event = _placed(event, 0 if latest is None else latest.position + 1)
        if latest is not None and (event.end < latest.end or event.position <= latest.position):
            raise StreamError(
                f"{event.label} at {self.schema.format_time(event.end)} comes after "
                f"{latest.label} at {self.schema.format_time(latest.end)}: "
                "push events in order of time, or make a Stream with sort=True"
            )
        if event.start != event.end and not self.orders_intervals(self.pattern):
            raise StreamError(
                f"{event.label} is an interval, and the engine {self.name} orders events by "
                "position: use engine='naive'"
            )
        self.latest = event
        self.counters.events += 1
        self.out = []
        if self.emit is not None:
            self.emit(Arrive.of(event))
        self.read(event)
        return self.out

    def flush(self) -> list[Match]:
        """Ends the stream: trailing negations are confirmed, open windows closed."""
        self.out = []
        self.finish()
        return self.out

    def collected(self, matches: list[Match]) -> Sequence[Match]:
        """The matches of a whole run, given those that `push` and `flush` returned."""
        return matches

    # ---- what a subclass uses ----

    def fits(self, first: Event, last: Event) -> bool:
        """Whether a match from one event to another is shorter than the window."""
        if self.window is None:
            return True
        if self.by_count:
            return last.position - first.position < self.window
        return last.end - first.start < self.window

    def found(self, bindings: Bindings, completed: Event, run: str = "") -> Match:
        """Reports a match, its variables in the order of the pattern's text."""
        bindings = {name: bindings[name] for name in self._names if name in bindings}
        match = Match(bindings, completed, self.pattern.returns, self.schema)  # type: ignore[arg-type]
        self.out.append(match)
        self.counters.matches += 1
        if self.emit is not None:
            events = match.events
            self.emit(
                Matched(
                    self.counters.matches,
                    run,
                    completed.label,
                    labels_of(bindings),
                    self._span(events[0], events[-1]),
                )
            )
        if self.counters.matches >= self.budget.matches:
            self.stop("matches", completed)
        return match

    def negated(self, run: str, variable: str, held: Bindings, culprit: Event) -> None:
        """Tells those who watch that a negation eliminated a match."""
        if self.emit is not None:
            ordered = {name: held[name] for name in self._names if name in held}
            said = ", ".join(f"{name} = {' '.join(labels)}" for name, labels in labels_of(ordered))
            detail = f"{culprit.label} is a {variable} that must not be, so {said} is no match"
            self.emit(Drop(run, "negation", culprit.label, detail))

    def stop(self, limit: str, event: Event) -> None:
        """Ends the run because a limit of the budget is reached."""
        most = getattr(self.budget, limit)
        said = {"runs": "live runs", "buffered": "buffered events", "matches": "matches"}[limit]
        raise BudgetError(
            f"stopped at {event.label}: {most} {said}, the budget's limit. A shorter WITHIN, a "
            "predicate between the variables or skip_till_next_match would need fewer; "
            f"budget={{{limit!r}: {most * 10}}} allows more.",
            limit=limit,
        )

    @property
    def failed(self) -> Failed:
        """Takes note of a predicate that could not be computed, or raises it if asked to."""

        def note(node: Expression, bindings: Bindings, error: Exception) -> None:
            labels = " ".join(f"{n}={','.join(e)}" for n, e in labels_of(bindings))
            failure = Failure(str(node), labels, str(error))
            if self._raises:
                raise PredicateError(f"{failure}") from error
            self.counters.failed_predicates += 1
            if len(self.failures) < MOST_FAILURES:
                self.failures.append(failure)

        return note

    def _span(self, first: Event, last: Event) -> str:
        if self.by_count:
            return f"{last.position - first.position + 1} events of {self.window}"
        length = self.schema.format_duration(last.end - first.start)
        limit = "" if self.window is None else f" of {self.schema.format_duration(self.window)}"
        return f"{length}{limit}"


def _placed(event: Event, position: int) -> Event:
    """An event made by hand, with the place in the stream that it was pushed at."""
    return Event(
        event.type,
        event.start,
        end=event.end,
        id=position if event.id is None else event.id,
        position=position,
        schema=event.schema,
        attributes=event.attributes,
    )


def _joined(hooks: tuple[Hook, ...]) -> Hook | None:
    if len(hooks) < 2:
        return hooks[0] if hooks else None

    def emit(step: Step) -> None:
        for hook in hooks:
            hook(step)

    return emit


def bag(matches: Iterable[Match]) -> dict[tuple[Any, ...], int]:
    """Matches as a multiset of bindings, the form in which engines are compared."""
    counted: dict[tuple[Any, ...], int] = {}
    for match in matches:
        counted[match.key] = counted.get(match.key, 0) + 1
    return counted
