"""Where the candidate's nodes ran, judged by what its target asks for.

What was asked for and not measured is `inconclusive`. Nodes that moved since the baseline are a
warning that names them. A provider that is not in use at all is judged by `observations`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ci_parity.compare.executed import judge_executed
from ci_parity.compare.runtime_warnings import classed
from ci_parity.config.model import PlacementPolicy
from ci_parity.config.systems import PLAIN_CPU
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Method, OperatorPlacement, Placement, WarningKind

_BRANCHES = {"If", "Loop", "Scan"}
_SHOWN = 8
_NOTHING_ASKED = PlacementPolicy()
_NOT_RECORDED = "the model did not load, or it was observed before this was recorded"


def judge_placement(
    subject: Subject, candidate: Observation, baseline: Observation | None,
    policy: PlacementPolicy | None,
) -> tuple[Finding, ...]:  # fmt: skip
    """Judge where a candidate ran.

    1. A provider other than the CPU must have run at least one node.
    2. The share of the nodes that it ran, the operators it did not run, and the copies.
    3. The graph that ran: its types, and what of it changed since the baseline.
    4. As warnings: what moved since the baseline, and what the runtime says it fell back from. The
       target may say that what changed fails.

    Args:
        subject: target and variant.
        candidate: what is judged.
        baseline: the version before, where there is one.
        policy: what the target asks for; None for nothing.
    """
    requested = next(iter(candidate.providers_requested), "")
    if candidate.load is not RunStatus.OK or requested not in candidate.providers_used:
        return ()
    placed = placement_of(candidate)
    asked = policy or _NOTHING_ASKED
    found = [
        *_asked(subject, requested, placed, asked),
        *judge_executed(subject, placed, placement_of(baseline) if baseline else None, asked),
        *(_moved(subject, requested, baseline.placement, placed, asked) if baseline else ()),
        *_fallbacks(subject, baseline.warnings if baseline else (), candidate.warnings),
    ]
    return tuple(found)


def placement_of(observation: Observation) -> Placement:
    """Return where a system ran; one that was observed on nothing but the CPU needs no record."""
    used = observation.providers_used
    if observation.placement is not None:
        return observation.placement
    if used and PLAIN_CPU.issuperset((*used, *observation.providers_requested)):
        return Placement(method=Method.CPU)
    return Placement(method=Method.NONE, why_not=_NOT_RECORDED)


def _asked(
    subject: Subject, requested: str, placed: Placement, policy: PlacementPolicy
) -> Iterator[Finding]:
    if placed.method is Method.CPU:
        return
    if not placed.known or not placed.count:
        if (policy.cpu_allowed, policy.min_share, policy.max_memcpy) != (None, None, None):
            why_not = placed.why_not or "the graph that was run has no node left"
            yield _open(subject, f"where nodes ran was not measured: {why_not}")
        return
    if not placed.on(requested) and requested not in PLAIN_CPU:
        evidence = f"{requested} ran none of {placed.count} nodes: {_listed(placed.operators)}"
        yield _failed("placement.nothing", subject, evidence)
    if policy.min_share is not None:
        yield _share(subject, requested, placed, policy.min_share)
    if policy.cpu_allowed is not None:
        yield _operators(subject, requested, placed, policy.cpu_allowed)
    if policy.max_memcpy is not None:
        yield _copies(subject, placed, policy.max_memcpy)


def _share(subject: Subject, requested: str, placed: Placement, least: float) -> Finding:
    share = placed.on(requested) / placed.count
    elsewhere = placed.off(requested)
    evidence = f"{requested} ran {placed.on(requested)} of {placed.count} nodes"
    evidence += f"; elsewhere: {_listed(elsewhere)}" if elsewhere else ""
    judged = _judged("placement.share", subject, evidence, share >= least)
    judged = replace(
        judged, measured=100 * share, limit=100 * least, required=100 * share, unit="%"
    )
    if placed.method is not Method.PROFILE:
        return judged
    if judged.outcome is Outcome.FAIL:
        return _unsettled(judged, "a profile counts kernels, and one may be many nodes")
    return _all_seen(judged, placed)


def _operators(
    subject: Subject, requested: str, placed: Placement, allowed: Sequence[str]
) -> Finding:
    others = tuple(one for one in placed.off(requested) if one.op_type not in allowed)
    count = float(sum(one.count for one in others))
    evidence = f"elsewhere than on {requested} ran {_listed(others) if others else 'nothing else'}"
    evidence += f"; allowed: {', '.join(allowed) or 'nothing'}"
    judged = _judged("placement.operators", subject, evidence, not others)
    judged = replace(judged, measured=count, limit=0.0, required=count, unit="nodes")
    return _all_seen(judged, placed)


def _copies(subject: Subject, placed: Placement, most: int) -> Finding:
    if placed.memcpy is None:
        return _open(subject, f"copies between providers were not counted: {placed.why_not}")
    evidence = f"{placed.memcpy} Memcpy nodes copy tensors between providers"
    judged = _judged("placement.memcpy", subject, evidence, placed.memcpy <= most)
    count = float(placed.memcpy)
    judged = replace(judged, measured=count, limit=float(most), required=count, unit="nodes")
    return _all_seen(judged, placed)


def _all_seen(judged: Finding, placed: Placement) -> Finding:
    """Return a finding, open where it passes by a profile that need not have every node."""
    branches = any(one.op_type in _BRANCHES for one in placed.operators)
    if judged.outcome is Outcome.FAIL or placed.method is not Method.PROFILE or not branches:
        return judged
    return _unsettled(judged, "a profile shows only the branches that were taken")


def _unsettled(judged: Finding, why: str) -> Finding:
    return replace(
        judged, outcome=Outcome.INCONCLUSIVE, evidence=f"{judged.evidence}; {why}",
        remedy="onnxruntime 1.24 and later tell of every node",
    )  # fmt: skip


def _moved(
    subject: Subject, requested: str, before: Placement | None, after: Placement,
    policy: PlacementPolicy,
) -> Iterator[Finding]:  # fmt: skip
    """Yield a warning for nodes that ran on the provider before and do not now, or only now.

    Two methods count different things, and are not compared.
    """
    if before is None or before.method is not after.method or not after.known:
        if policy.changes == "fail" and (before or after).method is not after.method:
            yield _open(subject, "whether nodes moved was not measured the same way on both sides")
        return
    old, new = before.off(requested), after.off(requested)
    for kind, one, other, words in (
        ("placement.left", new, old, f"no longer on {requested}"),
        ("placement.joined", old, new, f"now on {requested}, and not on the baseline"),
    ):
        more = _more(one, other)
        if more:
            count = float(sum(part.count for part in more))
            evidence = f"{words}: {_listed(more)}"
            yield Finding(
                id=kind, outcome=Outcome.FAIL, subject=subject, evidence=evidence, measured=count,
                unit="nodes", remedy="check that it is meant, and what it does to latency",
                advisory=policy.changes != "fail",
            )  # fmt: skip


def _more(
    some: Sequence[OperatorPlacement], others: Sequence[OperatorPlacement]
) -> tuple[OperatorPlacement, ...]:
    """Return what some have more of than others, by provider and operator, with names where told.

    The name of a node counts only where the operator has more nodes: names alone may be new.
    """
    known = {(one.provider, one.op_type): one for one in others}
    found = []
    for one in some:
        other = known.get((one.provider, one.op_type))
        count = one.count - (other.count if other else 0)
        if count > 0:
            names = Counter(one.names) - Counter(other.names if other else ())
            found.append(replace(one, count=count, names=tuple(names.elements())))
    return tuple(found)


def _fallbacks(subject: Subject, before: Sequence[str], after: Sequence[str]) -> Iterator[Finding]:
    known = {one.text for one in classed(before)}
    new = [
        one.text
        for one in classed(after)
        if one.kind is WarningKind.FALLBACK and one.text not in known
    ]
    if new:
        yield Finding(
            id="placement.fallback", outcome=Outcome.FAIL, subject=subject,
            evidence=f"the runtime says: {' | '.join(new[:_SHOWN])}", measured=float(len(new)),
            remedy="see what it could not run where it was asked to", advisory=True,
        )  # fmt: skip


def _listed(operators: Sequence[OperatorPlacement]) -> str:
    """Return operators in words, the most frequent first, such as `2 Shape ('a') on CPU…`."""
    ordered = sorted(operators, key=lambda one: -one.count)
    words = [f"{one.count} {one.op_type}{_names(one)} on {one.provider}" for one in ordered]
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more operators" if more > 0 else "")


def _names(one: OperatorPlacement) -> str:
    shown = ", ".join(repr(name) for name in one.names[:_SHOWN])
    return f" ({shown}{', …' if len(one.names) > _SHOWN else ''})" if shown else ""


def _judged(kind: str, subject: Subject, evidence: str, holds: bool) -> Finding:
    if not holds:
        return _failed(kind, subject, evidence)
    return Finding(id=kind, outcome=Outcome.PASS, subject=subject, evidence=evidence)


def _failed(kind: str, subject: Subject, evidence: str) -> Finding:
    return Finding(
        id=kind, outcome=Outcome.FAIL, subject=subject, evidence=evidence,
        remedy="see in the runtime's warnings why, or allow it in the target's placement",
    )  # fmt: skip


def _open(subject: Subject, evidence: str) -> Finding:
    return Finding(
        id="placement.unmeasured", outcome=Outcome.INCONCLUSIVE, subject=subject,
        evidence=evidence, remedy="use a runner that has the verb placement, or ask for nothing",
    )  # fmt: skip
