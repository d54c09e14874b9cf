"""A bundle goes out: kept in the store, then `released` in the log, then named by the channel.

Decided is on the lines that the new one will follow (`release.decisions`). A release that is done
is done again without a second line: its key is made of the bundle and of the line that proves it.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import ConfigError
from ci_parity.config.discover import find_deployment
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.release.bundle.extract import extract_bundle
from ci_parity.release.bundle.verify import Verified
from ci_parity.release.decisions import Decision, going_out, may_release, record
from ci_parity.release.query import current, validations
from ci_parity.stages.bundling import build
from ci_parity.stages.releasing.pointing import point
from ci_parity.stages.releasing.stream import (
    Asked,
    Done,
    Required,
    Stream,
    act,
    in_words,
    open_stream,
    pairs_of,
    required,
)

Say = Callable[[str], None]
_NO_STORE = (
    "no release.store is configured: the bytes are not kept, and there is nothing to roll back to "
    "but what the log says"
)

_UNSIGNED = (
    "unsigned: no key here signs the log's checkpoint; `ci-parity log attest` signs what it says "
    "of the bundle"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Releasing:
    """What is asked of one release, once its bundle is a verified folder."""

    stream: Stream
    asked: Asked
    folder: Path
    bundle: str
    required: Required

    def decide(self, lines: Sequence[LogLine]) -> Decision:
        """Decide on some lines; what the base branch requires must be known for a pass."""
        proofs = validations(lines, self.bundle, **self.stream.of)
        decision = may_release(
            lines, bundle=self.bundle, targets=self.required.pairs,
            commit=proofs[-1].entry.commit if proofs else "",
            descends=self.stream.repository.descends, **self.stream.of,
        )  # fmt: skip
        if decision.outcome is Outcome.PASS and self.required.unknown:
            return Decision(outcome=Outcome.INCONCLUSIVE, reasons=(self.required.unknown,))
        return decision


def release(asked: Asked, bundle: Path | None, digest: str, say: Say) -> Done:
    """Release a bundle, or say why it may not go out.

    1. The bundle, built from the checkout or given, as a verified private copy.
    2. The decision, on the lines that are there.
    3. Its bytes into the store, where they are hashed again.
    4. The line, decided once more on what it follows.
    5. The channel's pointer.

    Args:
        asked: which checkout, log and base branch.
        bundle: a folder or archive; None for the deployment here.
        digest: what its digest must be, empty for any.
        say: takes each sentence for the reader.

    Raises:
        CiParityError: it could not be decided, or not be carried out; running again is safe.
    """
    stream = open_stream(asked)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        folder = Path(scratch) / "bundle"
        found = _copy(stream, asked, bundle, digest, folder)
        _refuse_another(found, stream)
        needed = required(stream, asked, Path(scratch) / "base")
        carried = pairs_of(find_deployment(folder, found.facts.config))
        needed = Required(pairs=needed.pairs | carried, words=needed.words, unknown=needed.unknown)
        say(f"sha256:{found.digest}: {stream.name} on channel {stream.channel}")
        count = len(needed.pairs)
        say(f"{count} pair{'s' * (count != 1)} must be proven, {needed.words}")
        return put_out(
            Releasing(
                stream=stream, asked=asked, folder=folder, bundle=found.digest, required=needed
            ),
            say,
        )


def _copy(stream: Stream, asked: Asked, bundle: Path | None, digest: str, folder: Path) -> Verified:
    """Verify a bundle into a private folder; without one, the deployment's own is built."""
    if bundle is not None:
        return extract_bundle(bundle, folder, digest)
    built = folder.with_name("built")
    build(stream.deployment.root, asked.config, built)
    return extract_bundle(built, folder, digest)


def _refuse_another(found: Verified, stream: Stream) -> None:
    if found.facts.deployment != stream.name:
        raise ConfigError(
            f"the bundle is of deployment {found.facts.deployment!a}, and the config here of "
            f"{stream.name!a}",
            where=stream.deployment.origin,
            remedy="release it from the checkout of its own deployment",
        )


def put_out(releasing: Releasing, say: Say) -> Done:
    """Decide on a verified bundle, and carry it through: store, line, pointer."""
    stream, bundle = releasing.stream, releasing.bundle
    lines = stream.log.read()
    decision = releasing.decide(lines)
    if decision.outcome is not Outcome.PASS:
        return Done(outcome=decision.outcome, bundle=bundle, reasons=decision.reasons)
    if stream.store is None:
        say(_NO_STORE)
    if releasing.asked.dry_run:
        say("a dry run: it may be released, and nothing was written")
        return Done(outcome=Outcome.PASS, bundle=bundle)
    _keep(releasing, say)
    line = _line(releasing, lines)
    if isinstance(line, Decision):
        return Done(outcome=line.outcome, bundle=bundle, reasons=line.reasons)
    newest = current(stream.log.read(), **stream.of)
    if newest is not None and newest.seq > line.seq and newest.entry.bundle != bundle:
        why = f"it was released by record {line.seq}, and {in_words(newest)} put out another"
        return Done(outcome=Outcome.FAIL, bundle=bundle, reasons=(why,), line=line)
    say(f"{in_words(line)} of {stream.log.label}")
    if releasing.asked.key is None:
        say(_UNSIGNED)
    _point(releasing, line, say)
    return Done(outcome=Outcome.PASS, bundle=bundle, line=line)


def _keep(releasing: Releasing, say: Say) -> None:
    store = releasing.stream.store
    if store is None:
        return
    from ci_parity.release.objects.bundles import keep_bundle

    kept = keep_bundle(store, releasing.folder, releasing.bundle, again=True)
    say(f"kept in {store.label}: {kept.files_sent} files sent, {kept.files_there} there already")


def _line(releasing: Releasing, lines: Sequence[LogLine]) -> LogLine | Decision:
    """Return the line that says that the bundle is out, there already or recorded now."""
    stream, bundle = releasing.stream, releasing.bundle
    out = current(lines, **stream.of)
    if out is not None and out.entry.bundle == bundle:
        return out
    proof = validations(lines, bundle, **stream.of)[-1]
    key = f"{stream.name}/{stream.channel}/released/{bundle}/{proof.seq}"

    def decide(now: Sequence[LogLine]) -> Decision:
        out = current(now, **stream.of)
        if out is not None and out.entry.bundle == bundle:
            return Decision(outcome=Outcome.FAIL, reasons=("it is what is out already",))
        return releasing.decide(now)

    done = record(
        stream.log, going_out(proof, EntryKind.RELEASED, act(key, releasing.asked)), decide
    )
    if isinstance(done, Decision):
        # Another writer may have done the same in between: then theirs is the line.
        out = current(stream.log.read(), **stream.of)
        if out is not None and out.entry.bundle == bundle:
            return out
    return done


def _point(releasing: Releasing, line: LogLine, say: Say) -> None:
    store = releasing.stream.store
    if store is None:
        return
    pointer = point(releasing.stream.log, store, line, releasing.asked.key)
    say(f"channel {pointer.channel} is at record {pointer.seq}, sha256:{pointer.bundle}")
