"""What happens next? A question about each step that can be foreseen from the picture before it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from cepviz.steps import Drop, Matched, Merge, Move, Replan, Spawn, Step, Test
from cepviz.trace import Trace

#: How many answers there are to choose from.
CHOICES = 4


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the answers to choose from, and the place of the right one among them."""

    text: str
    answers: tuple[str, ...]
    right: int


def question(trace: Trace, index: int) -> Question | None:
    """The question to ask before step `index` is shown; None where there is nothing to guess.

    The answers are mixed the same way each time, and none but the right one is true.
    """
    step = trace[index]
    if isinstance(step, Test):
        conditions = " and ".join(test.text for test in step.tests)
        if not conditions:
            return None
        asked = f"Run {step.run} at {step.state} tries to {step.action} {step.event}: {conditions}?"
        return Question(asked, ("It holds.", "It fails."), 0 if step.passed else 1)
    right = _said(step)
    if not right:
        return None
    run, event = getattr(step, "run", ""), trace.event_of(index)
    others = [said for said in _others(run, event) if said != right]
    mix = random.Random(index)
    answers = [right, *mix.sample(others, CHOICES - 1)]
    mix.shuffle(answers)
    return Question("What happens next?", tuple(answers), answers.index(right))


def _said(step: Step) -> str:
    """A step as an answer: what it is, without what only the engine can know."""
    match step:
        case Move(action="ignore"):
            return f"Run {step.run} ignores {step.event}."
        case Move(action="proceed"):
            return f"Run {step.run} proceeds."
        case Move(action="begin"):
            return f"Run {step.run} begins with {step.event}."
        case Move(action="take"):
            return f"Run {step.run} takes {step.event}."
        case Spawn():
            return f"Run {step.run} splits in two."
        case Drop():
            return f"Run {step.run} is dropped."
        case Merge():
            return f"Run {step.run} becomes one with another."
        case Matched():
            return "A match is found."
        case Replan():
            return "The plan is replaced."
    return ""


def _others(run: str, event: str) -> list[str]:
    name = f"Run {run}" if run else "A run"
    return [
        f"{name} ignores {event}.",
        f"{name} takes {event}.",
        f"{name} splits in two.",
        f"{name} is dropped.",
        "A match is found.",
        "The next event arrives.",
    ]
