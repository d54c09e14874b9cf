"""What may be released, gone back to or revoked, by what the log says; and the line that says so.

The decisions are pure functions of a verified log. `record` asks them again on the very lines that
the new one will follow, so that of two writers the slower one does not act on what is no longer so.
Required targets are those of the base branch's policy: who changes the policy cannot shorten them.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from ci_parity.records.identity import PairName
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.release.query import barred, current, proven

if TYPE_CHECKING:
    from ci_parity.release.store import ReleaseLog

Descends: TypeAlias = Callable[[str, str], bool | None]
"""Tells whether a commit descends from another or is it; `None` where that cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether an act may stand in the log, and every reason why not."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Who acts now: what becomes of a line that proves, when it is written as another kind."""

    idempotency: str
    finished_at: str
    tool_version: str
    run_url: str = ""


class _Refused(Exception):  # noqa: N818 - it carries a value out of an append, and is no error
    def __init__(self, decision: Decision) -> None:
        super().__init__()
        self.decision = decision


def may_release(
    lines: Sequence[LogLine],
    *,
    bundle: str,
    channel: str,
    deployment: str,
    targets: Collection[PairName],
    commit: str,
    descends: Descends,
) -> Decision:
    """Decide whether a bundle goes out: proven for every target, not barred, not an older commit.

    What cannot be told, such as the ancestry of an unknown commit, is inconclusive.
    """
    reasons = _unproven(lines, bundle, channel, deployment, targets)
    out = current(lines, channel=channel, deployment=deployment)
    released = [
        line.entry.commit
        for line in lines
        if line.entry.kind is EntryKind.RELEASED
        and (line.entry.channel, line.entry.deployment) == (channel, deployment)
    ]
    if released and (out is None or out.entry.bundle != bundle):
        newer = descends(commit, released[-1]) if commit and released[-1] else None
        if newer is None and not reasons:
            words = "cannot tell whether the commit descends from the one released last"
            return Decision(outcome=Outcome.INCONCLUSIVE, reasons=(words,))
        if newer is False:
            reasons.append(f"its commit does not descend from {released[-1]}, released last")
    return _decided(reasons)


def may_roll_back(
    lines: Sequence[LogLine],
    *,
    bundle: str,
    channel: str,
    deployment: str,
    targets: Collection[PairName],
) -> Decision:
    """Decide whether to go back to a bundle: an older one, proven for every target, not barred."""
    reasons = _unproven(lines, bundle, channel, deployment, targets)
    out = current(lines, channel=channel, deployment=deployment)
    if out is None:
        reasons.append("nothing was released yet: there is nothing to go back from")
    elif out.entry.bundle == bundle:
        reasons.append("it is what is out already")
    elif not any(line.entry.bundle == bundle for line in lines[: out.seq]):
        reasons.append("it is newer than what is out: release it instead")
    return _decided(reasons)


def may_revoke(lines: Sequence[LogLine], *, bundle: str, channel: str, deployment: str) -> Decision:
    """Decide whether to take a bundle's proofs away: only of one that the log knows."""
    known = any(line.entry.bundle == bundle for line in lines)
    if barred(lines, channel=channel, deployment=deployment).get(bundle, "").startswith("revoked"):
        return _decided(["it is revoked already, and not validated anew"])
    return _decided([] if known else [f"the log has no line about sha256:{bundle}"])


def going_out(proof: LogLine, kind: EntryKind, act: Act) -> LogEntry:
    """Return the entry that says that a proven bundle is released or gone back to."""
    return replace(
        proof.entry, kind=kind, idempotency=act.idempotency, finished_at=act.finished_at,
        tool_version=act.tool_version, run_url=act.run_url, coverage="", timings=(),
    )  # fmt: skip


def revocation(newest: LogLine, reason: str, act: Act) -> LogEntry:
    """Return the entry that takes a bundle's proofs away; the reason stands for its findings."""
    entry = going_out(newest, EntryKind.REVOKED, act)
    return replace(entry, findings_failed=(reason,))


def record(
    log: "ReleaseLog", entry: LogEntry, decide: Callable[[Sequence[LogLine]], Decision]
) -> LogLine | Decision:
    """Append an entry if it may stand after the lines that are there then, or say why not.

    A rerun of an act finds its line, whatever came after it.

    Raises:
        EvidenceError, PublishError: as for any append.
    """

    def guard(lines: Sequence[LogLine]) -> None:
        decision = decide(lines)
        if decision.outcome is not Outcome.PASS:
            raise _Refused(decision)

    try:
        return log.append(entry, guard)
    except _Refused as refused:
        return refused.decision


def _unproven(
    lines: Sequence[LogLine],
    bundle: str,
    channel: str,
    deployment: str,
    targets: Collection[PairName],
) -> list[str]:
    reasons = []
    if why := barred(lines, channel=channel, deployment=deployment).get(bundle):
        reasons.append(f"{why}, and not validated since")
    if not targets:
        reasons.append("no target is required: nothing would be proven")
    pairs = proven(lines, bundle, channel=channel, deployment=deployment)
    reasons += [
        f"no validated record for {pair.variant} on {pair.target}"
        for pair in targets
        if pair not in pairs
    ]
    return reasons


def _decided(reasons: Sequence[str]) -> Decision:
    outcome = Outcome.FAIL if reasons else Outcome.PASS
    return Decision(outcome=outcome, reasons=tuple(reasons))
