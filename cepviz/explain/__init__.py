"""Answers to "why?": why a match is one, why some events are not, and why there are so many."""

from cepviz.explain.groups import WhySoMany, why_so_many
from cepviz.explain.story import Why, why
from cepviz.explain.verdict import WhyNot, why_not

__all__ = ["Why", "WhyNot", "WhySoMany", "why", "why_not", "why_so_many"]
