"""`columnar`: patterns on whole columns, by loops generated from the plan and compiled."""

from cepviz.engines.columnar.engine import Columnar

__all__ = ["Columnar"]
