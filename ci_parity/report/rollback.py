"""What a pull request says by which a rollback is proposed: title and body, as Markdown.

Names of files, reasons and addresses come from bundles, logs and people, and are escaped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci_parity.base.escape import code, prose, visible
from ci_parity.base.words import plural
from ci_parity.records.release import LogLine
from ci_parity.report.markup import folded, linked, more, table

_FILES = 40
_CHANGES = {"A": "added", "M": "changed", "D": "removed", "T": "changed"}
_SHORT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackProposal:
    """What is proposed.

    `proof` is the record that validated the bundle to go back to, `left` the one that put out what
    is out, `barred` the one that bars it. `files` are letter and path of each change, as git says
    them; `settings` say in words where the config of then keeps releases elsewhere. `held` says how
    the bundle was held to the machine that proposes it.
    """

    deployment: str
    channel: str
    proof: LogLine
    left: LogLine
    barred: LogLine
    log: str
    files: Sequence[tuple[str, str]]
    held: str
    settings: Sequence[str] = ()
    reason: str = ""
    run_url: str = ""


def title(deployment: str, bundle: str) -> str:
    """Return the title: plain text, of what a config may call a deployment and a digest."""
    return f"Roll {visible(deployment, 64)[:128]} back to sha256:{bundle[:_SHORT]}"


def body(proposal: RollbackProposal) -> str:
    """Return the body; the same proposal gives the same text."""
    return "\n\n".join(_paragraphs(proposal)) + "\n"


def _paragraphs(proposal: RollbackProposal) -> Iterator[str]:
    proof, left, barred = proposal.proof, proposal.left, proposal.barred
    stream = f"{prose(proposal.deployment)} on channel {prose(proposal.channel)}"
    yield (
        f"Brings the files of {code(_digest(proof))} back, a bundle of {stream} that is whole and "
        f"proven, by {_record(proof)} of {prose(proposal.log)}, "
        f"{prose(proof.entry.finished_at)}{_from(proof)}."
    )
    yield (
        f"**What is out, {code(_digest(left))}, is barred already**, by {_record(barred)}: it is "
        "not released until it is validated anew."
    )
    if proposal.reason:
        yield f"**Reason**: {prose(proposal.reason, 1000)}"
    yield _files(proposal.files)
    yield f"Held to the machine that proposes it: {prose(proposal.held)}."
    if proposal.settings:
        lines = "".join(f"\n- {words}" for words in proposal.settings)
        yield f"⚠️ **The config of then keeps releases elsewhere**, and so will the branch:\n{lines}"
    yield _what_follows(proof, barred)
    if proposal.run_url:
        yield f"<sub>{linked('the run that proposes it', proposal.run_url)}</sub>"


def _what_follows(proof: LogLine, barred: LogLine) -> str:
    digest = code(_digest(proof))
    checks = (
        "The required checks are those of any change; nothing here stands in for them. Runs that a "
        "workflow's own token would start wait for somebody's approval, below."
    )
    merged = (
        "Merged, the branch has the bundle again, byte for byte: with these files its digest was "
        f"computed to be {digest}."
    )
    out = (
        "Merging moves no channel. The next release puts the bundle out, or the rollback, run once "
        "more: it records `rolled_back` and moves the channel's pointer."
    )
    not_so = (
        f"To stay with what is out, close this and validate it anew; that lifts {_record(barred)}."
    )
    points = (checks, merged, out, not_so)
    return "**Then**\n" + "".join(f"\n- {words}" for words in points)


def _files(files: Sequence[tuple[str, str]]) -> str:
    rows = [(_CHANGES.get(letter[:1], "changed"), code(path, 100)) for letter, path in files]
    shown = table(("", "file"), rows[:_FILES]) + more(len(rows) - _FILES, "files")
    count = plural(len(rows), "file")
    return shown if len(rows) <= 10 else folded(f"{count} change", shown)


def _digest(line: LogLine) -> str:
    return f"sha256:{line.entry.bundle}"


def _record(line: LogLine) -> str:
    return f"record {line.seq}"


def _from(line: LogLine) -> str:
    return f", from commit {code(line.entry.commit[:12])}" if line.entry.commit else ""
