"""One output judged by one decision, as a case of the policy would be."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ci_parity.compare.decisions import CaseDecisions
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.metrics import LinearAllowance, scales_of
from ci_parity.compare.tolerance import Rule, rule_for
from ci_parity.config.load import policy
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.values import element_type

EXACT = Rule(source="test")


def within(atol: float) -> Rule:
    """Return a tolerance that allows so much everywhere."""
    return Rule(atol=atol, source="test")


def linear(rule: Rule, array: Any) -> LinearAllowance:
    """Return what a rule allows in an output."""
    return LinearAllowance(
        rtol=rule.rtol, atol=rule.atol, fraction=rule.fraction, scales=scales_of(array)
    )


def leeway(array: Any, rule: Rule = EXACT) -> Leeway:
    """Return what a tolerance leaves the elements of an output."""
    array = np.asarray(array)
    return Leeway(array.size, lambda: linear(rule, array))


def case_of(
    decisions: Mapping[str, Any], baseline: Mapping[str, Any], candidate: Mapping[str, Any],
    rule: Rule | None = None, root: Path = Path(),
) -> CaseDecisions:  # fmt: skip
    """Return the decisions on a case, both sides given by output; the ladder is the tolerance."""
    return CaseDecisions(
        Subject(case="c"), baseline, candidate, policy({"decisions": decisions}, root).decisions,
        lambda _, array: linear(rule or rule_for(None, element_type(array)), array),
    )  # fmt: skip


def judged(
    decision: Mapping[str, Any], baseline: Any, candidate: Any, rule: Rule | None = EXACT,
    dtype: Any = np.float32,
) -> Finding:  # fmt: skip
    """Return the one finding of one decision on one output, `y`."""
    sides = [
        side if isinstance(side, list | dict | np.ndarray) and not _plain(side)
        else np.array(side, dtype=dtype)
        for side in (baseline, candidate)
    ]  # fmt: skip
    found = case_of({"y": decision}, {"y": sides[0]}, {"y": sides[1]}, rule).findings(())
    (only,) = found
    return only


def _plain(side: Any) -> bool:
    """Whether nested lists of numbers are meant to become an array."""
    return isinstance(side, list) and not any(isinstance(item, dict) for item in side)
