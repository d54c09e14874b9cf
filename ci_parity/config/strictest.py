"""The policy a candidate is judged under when it loosened its own without leave.

Between the order of policies and the guard. It is the candidate's policy, but for what it loosened:
there the baseline's value counts. A value that cannot be compared counts as loosened, so that what
passes both here and under the candidate's own policy passes under the baseline's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from ci_parity.config.decisions import Decision
from ci_parity.config.model import (
    Contract,
    CoveragePolicy,
    Deployment,
    LatencyPolicy,
    MemoryPolicy,
    PlacementPolicy,
    Policy,
    SelfChecks,
    Tolerance,
)
from ci_parity.config.policy_order import PolicyChange

Group = TypeVar("Group", LatencyPolicy, MemoryPolicy, SelfChecks, CoveragePolicy)
_KNOWN = frozenset(
    {
        "tolerance", "outputs", "repeat", "timeout_s", "latency", "decisions", "self_checks",
        "contract", "files", "placement", "memory", "coverage",
    }
)  # fmt: skip


def guarded(
    own: Deployment, base: Deployment, loosened: Sequence[PolicyChange]
) -> tuple[Policy, Contract]:
    """Return policy and contract with the baseline's value for every key in `loosened`.

    A decision is taken whole, and so are a contract and the placement of a target: their parts mean
    something together. Where a key is loosened that is not known here, all is the baseline's.
    """
    paths = [change.path for change in loosened]
    if any(path[0] not in _KNOWN for path in paths):
        return base.policy, base.contract
    groups: dict[str, set[str]] = {}
    for path in paths:
        groups.setdefault(path[0], set()).add(path[1] if len(path) > 1 else "")
    policy = replace(
        own.policy,
        **{
            name: getattr(base.policy, name)
            for name in ("tolerance", "repeat", "timeout_s")
            if name in groups
        },
        outputs=_tolerances(own.policy, base.policy, groups.get("outputs", set())),
        latency=_group(own.policy.latency, base.policy.latency, groups.get("latency", set())),
        memory=_group(own.policy.memory, base.policy.memory, groups.get("memory", set())),
        self_checks=_group(
            own.policy.self_checks, base.policy.self_checks, groups.get("self_checks", set())
        ),
        coverage=_group(own.policy.coverage, base.policy.coverage, groups.get("coverage", set())),
        decisions=_chosen(own, base, groups),
        placement=_placement(own.policy, base.policy, groups.get("placement", set())),
    )
    return policy, base.contract if "contract" in groups else own.contract


def _tolerances(own: Policy, base: Policy, from_base: set[str]) -> dict[str, Tolerance | str]:
    """Return the tolerance of every output that either side names, each as its side has it."""
    sides = {name: base if name in from_base else own for name in (*base.outputs, *own.outputs)}
    return {name: side.outputs.get(name, side.tolerance) for name, side in sides.items()}


def _placement(own: Policy, base: Policy, from_base: set[str]) -> dict[str, PlacementPolicy]:
    """Return what is asked of each target that either side asks anything of, whole."""
    names = (*base.placement, *own.placement)
    sides = {name: base if name in from_base else own for name in names}
    return {name: side.placement[name] for name, side in sides.items() if name in side.placement}


def _chosen(
    own: Deployment, base: Deployment, groups: Mapping[str, set[str]]
) -> dict[str, Decision]:
    """Return the decisions; the baseline's are those loosened, or resting on edited files."""
    before, after = base.policy.decisions, own.policy.decisions
    edited = {
        name
        for side in (before, after)
        for name, decision in side.items()
        if "files" in groups and decision.files
    }
    from_base = groups.get("decisions", set()) | edited
    sides = {name: before if name in from_base else after for name in (*before, *after)}
    return {name: side[name] for name, side in sides.items() if name in side}


def _group(own: Group, base: Group, from_base: set[str]) -> Group:
    names = {field.name for field in fields(own)} & from_base
    return replace(own, **{name: getattr(base, name) for name in names})
