"""Decisions next to tensors: what a product does with an output, judged beside its numbers.

`CaseDecisions` is the way in: one case, both sides, every decision of the policy. A decision is a
finding of its own; it never replaces the tensor comparison and never excuses it.
"""

from ci_parity.compare.decisions.case import CaseDecisions

__all__ = ["CaseDecisions"]
