"""Going back to a bundle that is proven: chosen by the log, restored, held to this machine.

What is restored is hashed again, and judged again where driver or runtime are not those that it was
validated on. Nothing is written before that: what is out stays out until all of it is there. The
bundle that is left is barred by the line (`release.query.barred`).
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError
from ci_parity.detect.host import HostSources
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.records.verdict import Verdict
from ci_parity.release.bundle.extract import refuse_broken
from ci_parity.release.bundle.verify import Verified, digest_text, verify_bundle
from ci_parity.release.decisions import Decision, going_out, may_roll_back, record
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.query import barred, current, put_back, validations, ways_back
from ci_parity.stages.releasing.carriers import Carrier, MakeCarriers
from ci_parity.stages.releasing.environment import drift
from ci_parity.stages.releasing.proposing import PullRequests, Target, run_key
from ci_parity.stages.releasing.stream import (
    Asked,
    Done,
    Required,
    Stream,
    act,
    in_words,
    open_stream,
    required,
)

Say = Callable[[str], None]
Judge = Callable[[Path, str], Verdict]
"""Judges a bundle's folder under its config on this machine, as `bundle validate` does."""

MakePullRequests = Callable[[Stream], PullRequests]

_SAME = "this machine is what it was validated on: same runtimes, same drivers"
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A bundle to go back to, restored: the line that proves it, its files, how it is good here."""

    proof: LogLine
    folder: Path
    found: Verified
    held: str = ""

    @property
    def config(self) -> str:
        """Its config file below the folder, empty where it was discovered."""
        return self.found.facts.config


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingBack:
    """What is asked of one rollback, and what it works with; `pulls` where it is proposed first."""

    stream: Stream
    store: ObjectStore
    asked: Asked
    required: Required
    judge: Judge
    host: HostSources
    scratch: Path
    say: Say
    carriers: tuple[Carrier, ...]
    pulls: PullRequests | None = None

    def carry(self, line: LogLine, folder: Path) -> None:
        """Put what is recorded in effect, wherever it is not yet."""
        for carrier in self.carriers:
            if not carrier.has(line):
                carrier.carry(line, folder)

    def decide(self, lines: Sequence[LogLine], bundle: str) -> Decision:
        """Decide on some lines."""
        decision = may_roll_back(
            lines, bundle=bundle, targets=self.required.pairs, **self.stream.of
        )
        if decision.outcome is Outcome.PASS and self.required.unknown:
            return Decision(outcome=Outcome.INCONCLUSIVE, reasons=(self.required.unknown,))
        return decision


def roll_back(
    asked: Asked, to: str, reason: str, *, judge: Judge, carriers: MakeCarriers,
    pulls: MakePullRequests, host: HostSources, say: Say,
) -> Done:  # fmt: skip
    """Go back to a bundle, or say why that cannot be; what is out is untouched then.

    1. A rollback that was recorded and not carried out is carried out, and that is all.
    2. The bundle: the one asked for, else the newest that is proven and whole.
    3. Its bytes out of the store, hashed; its environment held against this machine's.
    4. Where rollbacks go by pull request and the branch has not gone back yet, a proposal, and that
       is all (`proposing`).
    5. The line.
    6. Whatever carries it out: the channel's pointer, a folder here.

    Args:
        asked: which checkout, log and base branch.
        to: the digest to go back to, empty for the newest good one.
        reason: why, in words that stand in the log.
        judge: judges a bundle's folder on this machine.
        carriers: make of the stream what carries out what is recorded.
        pulls: makes of the stream what proposes; asked only where the config says so.
        host: where to read this machine's facts.
        say: takes each sentence for the reader.

    Raises:
        ConfigError: there is no store, or `to` is no digest.
        CiParityError: it could not be decided, or not be carried out; running again is safe.
    """
    wanted, stream = digest_text(to), open_stream(asked)
    if stream.store is None:
        raise ConfigError(
            "no release.store is configured: there is nothing to roll back to but what the log "
            "says",
            where=stream.deployment.origin,
            remedy="set release.store and release again, or check out the commit that "
            "`ci-parity log show` names and deploy its files",
        )
    by_pull_request = stream.deployment.release.rolls_back_by_pull_request
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        rolling = RollingBack(
            stream=stream, store=stream.store, asked=asked,
            required=required(stream, asked, Path(scratch) / "base"), judge=judge, host=host,
            scratch=Path(scratch), say=say, carriers=carriers(stream, stream.store),
            pulls=pulls(stream) if by_pull_request else None,
        )  # fmt: skip
        return go_back(rolling, wanted, reason)


def go_back(rolling: RollingBack, wanted: str, reason: str) -> Done:
    """Finish what was stopped, else choose, restore, hold to this machine, record and carry out."""
    lines = rolling.stream.log.read()
    done = _done_before(rolling, lines, wanted)
    if isinstance(done, Done):
        return done
    if done is not None:
        return _carried_again(rolling, done)
    place = rolling.pulls.place(lines, rolling.scratch) if rolling.pulls else None
    if rolling.pulls and place and not wanted:
        wanted = rolling.pulls.merged(place, lines, rolling.required)
    way = _the_way_back(rolling, lines, wanted)
    if isinstance(way, Done):
        return way
    if rolling.pulls and place:
        target = Target(proof=way.proof, folder=way.folder, found=way.found, held=way.held)
        proposed = rolling.pulls.propose(place, lines, target, reason)
        if proposed is not None:
            return proposed
        rolling.say(f"branch {place.there.branch} has it already")
    return _gone_back(rolling, way, reason)


def _done_before(
    rolling: RollingBack, lines: Sequence[LogLine], wanted: str
) -> LogLine | Done | None:
    """Return the rollback that is in force, if that is what this one asks for.

    Without a bundle that is asked for, it is: whether an earlier command that wrote it was stopped,
    or only its answer was lost, cannot be told, and going back by one more would be worse than
    doing nothing. A run that went back, and after which something else went out, does not go back
    once more.
    """
    out = current(lines, **rolling.stream.of)
    own = _of_this_run(rolling, lines)
    if own is not None and out is not None and out.seq != own.seq:
        why = f"this run went back by record {own.seq}, and {in_words(out)} came after it"
        return Done(outcome=Outcome.FAIL, bundle=own.entry.bundle, reasons=(why,), line=own)
    back = put_back(lines, **rolling.stream.of)
    if back is not None and wanted in ("", back.entry.bundle):
        return back
    if out is not None and (why := _outrun(rolling, lines, out)):
        return Done(outcome=Outcome.FAIL, bundle=out.entry.bundle, reasons=(why,))
    if out is None or out.entry.kind is not EntryKind.ROLLED_BACK:
        return None
    if out.entry.bundle in barred(lines, **rolling.stream.of):
        return None
    return out if wanted in ("", out.entry.bundle) else None


def _of_this_run(rolling: RollingBack, lines: Sequence[LogLine]) -> LogLine | None:
    if not rolling.asked.run:
        return None
    of_run = (x for x in lines if x.entry.idempotency.startswith(_own(rolling)))
    return next(of_run, None)


def _outrun(rolling: RollingBack, lines: Sequence[LogLine], out: LogLine) -> str:
    """Say what came after a proposal of this run, empty where what it is about is still out."""
    if not rolling.asked.run:
        return ""
    key = f"{run_key(rolling.asked, rolling.stream)}/barred/"
    for line in lines[: out.seq]:
        if line.entry.idempotency.startswith(key):
            return (
                f"this run proposed to go back (record {line.seq}), and {in_words(out)} came after"
            )
    return ""


def _own(rolling: RollingBack) -> str:
    """Return how the keys of this run's rollbacks begin."""
    return f"{run_key(rolling.asked, rolling.stream)}/rolled_back/"


def _carried_again(rolling: RollingBack, line: LogLine) -> Done:
    """Carry out a rollback whose line is there; its bytes are fetched and hashed as before."""
    bundle = line.entry.bundle
    rolling.say(f"{in_words(line)} went back to sha256:{bundle} already; --to names an older one")
    if rolling.asked.dry_run:
        return Done(outcome=Outcome.PASS, bundle=bundle, line=line)
    folder, _ = _restored(rolling, line)
    rolling.carry(line, folder)
    return Done(outcome=Outcome.PASS, bundle=bundle, line=line)


def _the_way_back(rolling: RollingBack, lines: Sequence[LogLine], wanted: str) -> Way | Done:
    """Return the first bundle that may be gone back to and is whole, good on this machine."""
    passed: list[str] = []
    for proof in _ways(rolling, lines, wanted):
        bundle = proof.entry.bundle
        decision = rolling.decide(lines, bundle)
        if decision.outcome is not Outcome.PASS:
            return Done(outcome=decision.outcome, bundle=bundle, reasons=decision.reasons)
        rolling.say(f"sha256:{bundle}, proven by {in_words(proof)} of {proof.entry.finished_at}")
        try:
            folder, found = _restored(rolling, proof)
        except EvidenceError as error:
            passed.append(f"sha256:{bundle}: {error.what}")
            rolling.say(f"  passed over: {error.what}")
            continue
        way = Way(proof=proof, folder=folder, found=found)
        return _good_here(rolling, lines, way)
    if wanted and not passed:
        reasons = rolling.decide(lines, wanted).reasons
        return Done(outcome=Outcome.FAIL, bundle=wanted, reasons=reasons)
    why = "there is no older bundle that is proven for every required pair, not barred, and whole"
    return Done(outcome=Outcome.FAIL, bundle=wanted, reasons=tuple(passed) or (why,))


def _ways(rolling: RollingBack, lines: Sequence[LogLine], wanted: str) -> Iterator[LogLine]:
    if wanted:
        yield from validations(lines, wanted, **rolling.stream.of)[-1:]
    else:
        yield from ways_back(lines, targets=rolling.required.pairs, **rolling.stream.of)


def _restored(rolling: RollingBack, line: LogLine) -> tuple[Path, Verified]:
    """Bring a bundle's bytes out of the store into a folder of this run, and hash them there.

    Raises:
        EvidenceError: some are not there, or not what they were.
    """
    from ci_parity.release.objects.bundles import restore_bundle

    folder = rolling.scratch / line.entry.bundle
    restore_bundle(rolling.store, line.entry.bundle, folder)
    found = verify_bundle(folder, line.entry.bundle)
    refuse_broken(found, folder)
    return folder, found


def _good_here(rolling: RollingBack, lines: Sequence[LogLine], way: Way) -> Way | Done:
    """Return the way if nothing drifted since it was validated, or if it is good all the same."""
    bundle = way.proof.entry.bundle
    proofs = validations(lines, bundle, **rolling.stream.of)
    moved = drift(way.folder, way.config, proofs, rolling.host)
    if not moved:
        rolling.say(f"  {_SAME}")
        return replace(way, held=_SAME)
    for words in moved[:_SHOWN]:
        rolling.say(f"  drifted: {words}")
    if len(moved) > _SHOWN:
        rolling.say(f"  and {len(moved) - _SHOWN} more")
    rolling.say("  it is judged again, on this machine")
    try:
        verdict = rolling.judge(way.folder, way.config)
    except CiParityError as error:
        return _not_good(bundle, Outcome.INCONCLUSIVE, [f"it could not be judged: {error.what}"])
    if verdict.outcome is not Outcome.PASS:
        failed = [_in_words(f) for f in verdict.findings if _counts(f)]
        return _not_good(bundle, verdict.outcome, [verdict.summary, *failed[:_SHOWN]])
    # What was judged is what goes out: no file was touched meanwhile.
    refuse_broken(verify_bundle(way.folder, bundle), way.folder)
    rolling.say(f"  it holds here: {verdict.summary}")
    return replace(
        way, held=f"it is another than that of then; judged again here: {verdict.summary}"
    )


def _not_good(bundle: str, outcome: Outcome, reasons: Sequence[str]) -> Done:
    first = "runtime or driver are not those that it was validated on, and judged again it is " + (
        "not good" if outcome is Outcome.FAIL else "inconclusive"
    )
    return Done(outcome=outcome, bundle=bundle, reasons=(first, *reasons))


def _counts(finding: Finding) -> bool:
    return finding.outcome is not Outcome.PASS and not finding.advisory


def _in_words(finding: Finding) -> str:
    subject = finding.subject
    where = " ".join(filter(None, (subject.target, subject.variant, subject.case, subject.output)))
    return f"{finding.id} {where}: {finding.evidence}".strip()


def _gone_back(rolling: RollingBack, way: Way, reason: str) -> Done:
    """Record the rollback and carry it out."""
    stream, bundle = rolling.stream, way.proof.entry.bundle
    if rolling.asked.dry_run:
        rolling.say("a dry run: it may be gone back to, and nothing was written")
        return Done(outcome=Outcome.PASS, bundle=bundle)
    out = current(stream.log.read(), **stream.of)
    key = f"{_own(rolling)}{bundle}/{out.seq if out else 0}"
    entry = going_out(way.proof, EntryKind.ROLLED_BACK, act(key, rolling.asked))
    entry = replace(entry, findings_failed=(reason,) if reason else ())
    line = record(stream.log, entry, lambda lines: rolling.decide(lines, bundle))
    if isinstance(line, Decision):
        # Another may have gone back to the same in between: then theirs is the line.
        out = current(stream.log.read(), **stream.of)
        if out is None or (out.entry.kind, out.entry.bundle) != (EntryKind.ROLLED_BACK, bundle):
            return Done(outcome=line.outcome, bundle=bundle, reasons=line.reasons)
        line = out
    rolling.say(f"{in_words(line)} of {stream.log.label}")
    rolling.carry(line, way.folder)
    return Done(outcome=Outcome.PASS, bundle=bundle, line=line)
