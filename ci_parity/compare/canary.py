"""What two models of one shape said of a runtime's caches, as findings."""

from collections.abc import Iterator

from ci_parity.records.canary import Canary, Freshness
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import Observation
from ci_parity.records.outcome import Outcome

_ID = "provider.stale"


def judge_canary(
    subject: Subject, candidate: Observation, baseline: Observation | None
) -> Iterator[Finding]:
    """Yield whether the candidate's runtime, and the baseline's, tell two models apart.

    A runtime that nobody asked yields nothing: it is the CPU, which keeps no engines.
    """
    sides = {"candidate": candidate, "baseline": baseline}
    for name, side in sides.items():
        told = side.canary if side is not None else None
        if told is not None and (name == "candidate" or told.freshness is not Freshness.APART):
            yield _finding(subject, name, told)


def _finding(subject: Subject, side: str, told: Canary) -> Finding:
    evidence = f"on the {side}'s runtime: {told.words}"
    match told.freshness:
        case Freshness.APART:
            return Finding(id=_ID, outcome=Outcome.PASS, subject=subject, evidence=evidence)
        case Freshness.STALE:
            return Finding(
                id=_ID, outcome=Outcome.FAIL, subject=subject, evidence=evidence,
                remedy="switch off the cache of compiled engines that the runtime keeps, or empty "
                "it: nothing that was measured here is sure to be of this model",
            )  # fmt: skip
        case Freshness.UNKNOWN:
            return Finding(
                id=_ID, outcome=Outcome.INCONCLUSIVE, subject=subject,
                evidence=f"whether a cache serves one model for another is not known: {evidence}",
                remedy="see why the provider cannot run a MatMul of float32",
            )  # fmt: skip
