"""`Estimator`: statistics of a stream as it passes, over a sliding window, in bounded memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from random import Random

from cepviz.errors import PlanError
from cepviz.events import Event, Schema
from cepviz.language.compile import predicate
from cepviz.language.evaluate import Bindings
from cepviz.language.expressions import Expression, looks_back
from cepviz.language.pattern import Branch, Pattern
from cepviz.language.resolve import resolve, window_size
from cepviz.plans.histogram import ExponentialHistogram, WindowedCount
from cepviz.plans.statistics import Statistics
from cepviz.steps import Arrive, Step, Test

Counting = ExponentialHistogram | WindowedCount

#: How many recent events of a variable are kept to try conditions on.
KEPT = 32


class Trial:
    """A condition that is tried on samples: how often it was, and how often it was true."""

    def __init__(self, tried: Counting, passed: Counting):
        self.tried = tried
        self.passed = passed

    def note(self, now: float, passed: bool) -> None:
        self.tried.add(now)
        if passed:
            self.passed.add(now)

    def share(self, now: float) -> float | None:
        """The share that passed, or None if nothing was tried. Half a success in one trial more is
        assumed, so that a condition that never held yet is not taken for impossible."""
        tried = self.tried.count(now)
        if tried == 0:
            return None
        return min((self.passed.count(now) + 0.5) / (tried + 1), 1.0)

    def deviation(self, now: float) -> float | None:
        """One standard error of the share, from the number of samples."""
        share = self.share(now)
        if share is None:
            return None
        return math.sqrt(share * (1 - share) / (self.tried.count(now) + 1))


class Place:
    """A variable of a branch: where events of its type may stand, and what can be tried there."""

    def __init__(self, branch: Branch, name: str):
        self.name = name
        self.kleene = branch.by_name[name].kleene
        own = branch.own(name)
        self.own = predicate(own, {name: "e"}, candidate=name, failed=_unknown) if own else None
        self.recent: deque[Event] = deque(maxlen=KEPT)
        self.tasks: list[Task] = []
        self.turn = 0

    def bound(self, *events: Event) -> Event | tuple[Event, ...]:
        return events if self.kleene else events[-1]


class Task:
    """A condition as it is tried when an event comes for one of its variables."""

    def __init__(self, trial: Trial, conjunct: Expression, branch: Branch, place: Place,
                 places: Mapping[str, Place]):  # fmt: skip
        self.trial = trial
        self.alone = conjunct in branch.own(place.name)
        self.back = place.kleene and looks_back(conjunct, place.name)
        others = sorted(conjunct.variables - {place.name})
        self.others = [places[name] for name in others]
        # An event is the latest there is: it comes too late for a variable that others follow.
        self.late = any((place.name, name) in branch.order for name in others)
        names = [*others, place.name]
        kleene = [name for name in names if places[name].kleene]
        places_in_m = {name: f"m[{index}]" for index, name in enumerate(names)}
        self.test = predicate([conjunct], places_in_m, kleene=kleene, failed=_unknown)


class Estimator:
    """Measures rates and selectivities for the planning of one pattern.

    Counts come from exponential histograms over the last `windows` windows of the pattern, with a
    relative error of at most `error`. Each event is tried on one condition of each variable it
    may stand for, in turn, together with one recent event for each other variable: so
    selectivities are those of sampled pairs, and an event costs the same however many conditions
    there are. Feed it with `push`, or use it as a hook of any engine: then the verdicts of the
    engine's own tests are its samples.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10")
    >>> e = Estimator(p)
    >>> for t in range(400):
    ...     e.push(cep.Event("AB"[t % 4 == 0], t, x=t % 5))
    >>> print(e.statistics())
    rate(A) 7.312, rate(B) 2.438, sel(a.x < b.x) 0.4884
    """

    def __init__(
        self,
        pattern: Pattern,
        schema: Schema | None = None,
        *,
        windows: float = 8,
        error: float = 0.05,
        exact: bool = False,
        seed: int = 0,
    ):
        schema = schema or Schema()
        self.pattern = resolve(pattern, schema)
        size = window_size(self.pattern, schema)
        if size is None:
            raise PlanError("rates are counted by the window: give the pattern a WITHIN")
        self.window = float(size)
        self.by_count = self.pattern.within is not None and self.pattern.within.in_events
        self.span = self.window * windows
        self.error = error
        self._counting = WindowedCount if exact else ExponentialHistogram
        self._random = Random(seed)
        self._trials: dict[str, Trial] = {}
        self._by_type: dict[str, list[Place]] = {}
        for branch in self.pattern.branches:
            self._enter(branch)
        self._counts = {
            variable.type: self._counted() for variable in self.pattern.variables.values()
        }
        self._first: float | None = None
        self.now: float = 0.0
        self._seen = 0

    def _counted(self) -> Counting:
        return self._counting(self.span, self.error)

    def _enter(self, branch: Branch) -> None:
        places = {variable.name: Place(branch, variable.name) for variable in branch.variables}
        for variable in branch.variables:
            self._by_type.setdefault(variable.type, []).append(places[variable.name])
        for conjunct in branch.conjuncts:
            text = str(conjunct)
            if text not in self._trials:
                self._trials[text] = Trial(self._counted(), self._counted())
            for name in conjunct.variables:
                task = Task(self._trials[text], conjunct, branch, places[name], places)
                if not task.late:
                    places[name].tasks.append(task)

    # ---- feeding it ----

    def push(self, event: Event) -> None:
        """Counts an event, and tries one condition on it for each variable it may stand for."""
        position = event.position if event.position >= 0 else self._seen
        self._tick(float(position) if self.by_count else event.end)
        counted = self._counts.get(event.type)
        if counted is None:
            return
        counted.add(self.now)
        for place in self._by_type.get(event.type, ()):
            fits = place.own is None or place.own(event, ())
            if place.tasks:
                place.turn = (place.turn + 1) % len(place.tasks)
                self._try(place.tasks[place.turn], place, event, fits)
            if fits:
                place.recent.append(event)

    def __call__(self, step: Step) -> None:
        """As a hook: counts events as they arrive, and takes the engine's tests as samples."""
        if isinstance(step, Arrive):
            self._tick(float(self._seen) if self.by_count else step.end)
            if step.type in self._counts:
                self._counts[step.type].add(self.now)
        elif isinstance(step, Test):
            for tested in step.tests:
                trial = self._trials.get(tested.text)
                if trial is not None and tested.truth is not None:
                    trial.note(self.now, tested.truth)

    def _tick(self, now: float) -> None:
        self._seen += 1
        self.now = now
        if self._first is None:
            self._first = now

    def _try(self, task: Task, place: Place, event: Event, fits: bool) -> None:
        """Tries a condition on an event and one recent event for each other variable."""
        if not (fits or task.alone):
            return
        values = []
        for other in task.others:
            found = self._recent(other)
            if found is None or found is event:
                return
            values.append(other.bound(found))
        mine = place.bound(event)
        if task.back:
            earlier = self._recent(place)
            if earlier is None:
                return
            mine = (earlier, event)
        task.trial.note(self.now, task.test(event, (*values, mine)))

    def _recent(self, place: Place) -> Event | None:
        recent = place.recent
        edge = self.now - self.window
        while recent and (recent[0].position if self.by_count else recent[0].start) <= edge:
            recent.popleft()
        return recent[self._random.randrange(len(recent))] if recent else None

    # ---- what it knows ----

    @property
    def ready(self) -> bool:
        """Whether a whole window has passed, so that rates mean something."""
        return self._first is not None and self.now - self._first >= self.window

    def statistics(self) -> Statistics:
        """The estimates of now."""
        rates = {}
        if self._first is not None:
            passed = min(self.now - self._first + (1 if self.by_count else 0), self.span)
            windows = passed / self.window
            if windows > 0:
                rates = {
                    type: counted.count(self.now) / windows
                    for type, counted in self._counts.items()
                }
        shares = {text: trial.share(self.now) for text, trial in self._trials.items()}
        return Statistics(rates, {t: share for t, share in shares.items() if share is not None})

    def deviations(self) -> dict[str, float]:
        """One standard error of each selectivity, by the number of samples in the window."""
        found = {t: trial.deviation(self.now) for t, trial in self._trials.items()}
        return {text: value for text, value in found.items() if value is not None}


def _unknown(node: Expression, bindings: Bindings, error: Exception) -> None:
    """A condition that cannot be computed is not true; the engine tells of it, not we."""
