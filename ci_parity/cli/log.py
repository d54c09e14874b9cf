"""`ci-parity log`: read, verify and prove the release log, and take a bundle's proofs back."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import ConfigError
from ci_parity.cli import options
from ci_parity.cli.log_attest import attest
from ci_parity.cli.log_trend import trend
from ci_parity.cli.logs import open_configured
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogLine

if TYPE_CHECKING:
    from ci_parity.release.audit import Audit, Known
    from ci_parity.release.checkpoint import Checkpoint, LogTree, Snapshot
    from ci_parity.release.last_seen import LastSeen
    from ci_parity.release.store import ReleaseLog

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_LAST_SEEN = "last-seen"
_NONE = "none"
_MARKS = {Outcome.PASS: "ok", Outcome.FAIL: "FAIL", Outcome.INCONCLUSIVE: "open"}
_EXAMPLES = """\b
Examples:
  ci-parity log verify
  ci-parity log verify --log branch:ci-parity-log --key log.pub
  ci-parity log show --log file:release-log.jsonl --kind released --last 5
  ci-parity log prove 17 --out line.tlog-proof
  ci-parity log verify --proof line.tlog-proof --key log.pub
  ci-parity log attest 17 --signing-key log.key
  ci-parity log trend
  ci-parity log checkpoint --signing-key log.key --out head.checkpoint
  ci-parity log revoke sha256:DIGEST --reason "labels were swapped"
"""
_signing_key = click.option(
    "--signing-key",
    "signing_key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Ed25519 private key, PEM; else the one in CI_PARITY_SIGNING_KEY, else unsigned.",
)
_origin = click.option("--origin", default="", help="The name that the log must bear.")
_checkpoint = click.option(
    "--checkpoint",
    default=_LAST_SEEN,
    show_default=True,
    metavar="FILE|last-seen|none",
    help="Earlier state with which the log must begin: a checkpoint's file, beside the state that "
    "this user saw last; that state alone; or neither.",
)


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Read, verify and prove the release log."""


command.add_command(attest)
command.add_command(trend)


@command.command(epilog=_EXAMPLES)
@options.root
@options.log
@click.option(
    "--key",
    "key_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Ed25519 public key, PEM or NAME+ID+BASE64, that must have signed the log's checkpoint.",
)
@_checkpoint
@_origin
@click.option(
    "--proof",
    "proof_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Verify this proof instead of a log, which need not be at hand.",
)
def verify(
    root: Path,
    log: str,
    key_path: Path | None,
    checkpoint: str,
    origin: str,
    proof_path: Path | None,
) -> int:
    """Check every line, and the log against its signed checkpoint and the state last seen.

    Exit codes: 0 verified; 1 the log contradicts a checkpoint, a signature or the state last seen;
    3 nothing to verify, or nothing to verify it by; 4 malformed, or a broken chain.
    """
    from ci_parity.release.audit import audit_log, audit_proof
    from ci_parity.release.signing import read_public_key

    key = read_public_key(key_path) if key_path else None
    given = _given(checkpoint)
    if proof_path is not None:
        audit = audit_proof(
            _bytes_of(proof_path), where=str(proof_path), origin=origin or None, key=key,
            given=given,
        )  # fmt: skip
        _print(audit, signed=key is not None)
        click.echo(_table([_row(audit.lines[0])]))
        return audit.outcome.exit_code
    opened = open_configured(root, log)
    seen = _last_seen() if checkpoint != _NONE else None
    home, given = _with_last_seen(seen, opened, given)
    audit = audit_log(
        opened.snapshot(), where=opened.label, origin=origin or None, key=key, given=given
    )
    click.echo(f"{opened.label}: {len(audit.lines)} lines")
    _print(audit, signed=key is not None)
    if seen is not None and audit.checkpoint is not None and _holds(audit):
        seen.put(home, audit.checkpoint)
    return audit.outcome.exit_code


@command.command(epilog=_EXAMPLES)
@options.root
@options.log
@click.option("--kind", type=click.Choice([kind.value for kind in EntryKind]), help="Only these.")
@click.option("--channel", default="", help="Only this channel.")
@click.option("--deployment", default="", help="Only this deployment.")
@click.option("--last", type=click.IntRange(min=1), help="Only the newest so many of them.")
@click.option("--json", "as_json", is_flag=True, help="The lines themselves, as JSON lines.")
def show(
    root: Path,
    log: str,
    kind: str | None,
    channel: str,
    deployment: str,
    last: int | None,
    *,
    as_json: bool,
) -> int:
    """List the lines of the log, oldest first."""
    from ci_parity.release.chain import verify as verify_lines

    opened = open_configured(root, log)
    # Read once: the text that is shown is the text that was verified.
    stored = opened.stored() or b""
    whole = stored[: stored.rfind(b"\n") + 1]
    lines = verify_lines(whole, origin=None, where=opened.label) if whole else opened.read()
    if len(whole) < len(stored):
        click.echo("the log ends in a torn line, which is not shown", err=True)
    chosen = [
        line
        for line in lines
        if kind in (None, line.entry.kind.value)
        and channel in ("", line.entry.channel)
        and deployment in ("", line.entry.deployment)
    ][-last if last else 0 :]
    if as_json:
        texts = whole.split(b"\n")
        for line in chosen:
            click.echo(texts[line.seq].decode())
    elif chosen:
        click.echo(_table([_row(line) for line in chosen]))
    return 0


@command.command(epilog=_EXAMPLES)
@click.argument("seq", type=click.IntRange(min=0))
@options.root
@options.log
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="The proof's file; line-SEQ.tlog-proof by default.",
)
@click.option(
    "--since",
    type=click.IntRange(min=1),
    help="Also prove that the log begins with its first so many lines.",
)
@_signing_key
@_checkpoint
def prove(
    seq: int,
    root: Path,
    log: str,
    out: Path | None,
    since: int | None,
    signing_key: Path | None,
    checkpoint: str,
) -> int:
    """Write the proof that record SEQ, counted from 0 as by `log show`, stands in the log."""
    from ci_parity.base.files import write_atomic
    from ci_parity.release.proof import prove as prove_line
    from ci_parity.release.proof import write_proof

    snapshot, audit, tree = _verified(root, log, checkpoint)
    if tree is None or audit.checkpoint is None:
        return audit.outcome.exit_code
    sealed, words = _sealed(snapshot, audit.checkpoint, max(seq + 1, since or 0), signing_key)
    if max(seq + 1, since or 0) > len(tree):
        raise ConfigError(
            f"the log has {len(tree)} lines", where="SEQ or --since",
            remedy="name a line by the number that `ci-parity log show` prints",
        )  # fmt: skip
    path = out or Path(f"line-{seq}.tlog-proof")
    write_atomic(path, write_proof(prove_line(tree, seq, sealed, since)))
    click.echo(f"{path}: record {seq} in a log of {len(tree)}, {words}")
    return 0


@command.command("checkpoint", epilog=_EXAMPLES)
@options.root
@options.log
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of the terminal."
)
@_signing_key
@_checkpoint
def write_checkpoint(
    root: Path, log: str, out: Path | None, signing_key: Path | None, checkpoint: str
) -> int:
    """Write the log's checkpoint: its name, size and root, signed where there is a key."""
    from ci_parity.base.files import write_atomic

    snapshot, audit, tree = _verified(root, log, checkpoint)
    if tree is None or audit.checkpoint is None:
        return audit.outcome.exit_code
    sealed, words = _sealed(snapshot, audit.checkpoint, len(tree), signing_key)
    if out is None:
        click.echo(sealed.decode(), nl=False)
    else:
        write_atomic(out, sealed)
    click.echo(f"{len(tree)} lines, {words}", err=True)
    return 0


@command.command(epilog=_EXAMPLES)
@click.argument("digest")
@options.root
@options.log
@click.option("--reason", required=True, help="Why, in words that every reader of the log sees.")
def revoke(digest: str, root: Path, log: str, reason: str) -> int:
    """Take all proofs of the bundle DIGEST back: it may not go out until it is validated anew."""
    from ci_parity.release import acts

    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise ConfigError(
            f"{digest!a} is no digest of a bundle",
            where="DIGEST",
            remedy="give its SHA-256: 64 lowercase hexadecimal digits, as `log show --json` prints",
        )
    line = acts.revoke(open_configured(root, log, signing=True), match[1], reason)
    click.echo(f"sha256:{match[1]} is revoked by record {line.seq}")
    return 0


def _given(checkpoint: str) -> "tuple[Known, ...]":
    from ci_parity.release.audit import known

    if checkpoint in (_LAST_SEEN, _NONE):
        return ()
    return (known(checkpoint, _bytes_of(Path(checkpoint))),)


def _last_seen() -> "LastSeen":
    from ci_parity.release.last_seen import LastSeen
    from ci_parity.run.environments import cache_folder

    return LastSeen(cache_folder())


def _with_last_seen(
    seen: "LastSeen | None", opened: "ReleaseLog", given: "tuple[Known, ...]"
) -> "tuple[str, tuple[Known, ...]]":
    from ci_parity.release.audit import Known

    if seen is None:
        return "", given
    home = opened.home()
    state = seen.get(home)
    return home, given if state is None else (
        *given,
        Known(label="the state last seen", checkpoint=state),
    )


def _verified(root: Path, log: str, checkpoint: str) -> "tuple[Snapshot, Audit, LogTree | None]":
    """Return a log that contradicts nothing, with its tree; without one it has been said why."""
    from ci_parity.release.audit import audit_log

    opened = open_configured(root, log)
    seen = _last_seen() if checkpoint != _NONE else None
    _, given = _with_last_seen(seen, opened, _given(checkpoint))
    snapshot = opened.snapshot()
    audit = audit_log(snapshot, where=opened.label, given=given)
    if audit.outcome is not Outcome.PASS:
        _print(audit, signed=True)
        return snapshot, audit, None
    return snapshot, audit, audit.tree


def _sealed(
    snapshot: "Snapshot", now: "Checkpoint", size: int, path: Path | None
) -> tuple[bytes, str]:
    """Return a checkpoint of at least `size` lines and who signed it: we, the log, or nobody."""
    from ci_parity.release.checkpoint import key_name, read_checkpoint, sealed
    from ci_parity.release.signing import find_signing_key

    key = find_signing_key(path, os.environ)
    if key is None and snapshot.checkpoint is not None:
        old, note = read_checkpoint(snapshot.checkpoint, where="the log's checkpoint")
        if old.size >= size and note.signatures:
            return snapshot.checkpoint, f"under the log's checkpoint of {old.size} lines"
    words = f"signed by {key_name(now.origin)}" if key else "unsigned: there is no signing key"
    return sealed(now, key), words


def _holds(audit: "Audit") -> bool:
    return all(claim.outcome is not Outcome.FAIL for claim in audit.claims)


def _print(audit: "Audit", *, signed: bool) -> None:
    for claim in audit.claims:
        click.echo(f"  {_MARKS[claim.outcome]:<5} {claim.words}")
    if not signed:
        click.echo("  note  no key was given, so who wrote it is not verified")


def _row(line: LogLine) -> tuple[str, ...]:
    e = line.entry
    pairs = ", ".join(f"{i.variant} on {i.target}" for i in e.identities[:3])
    more = f" and {len(e.identities) - 3} more" if len(e.identities) > 3 else ""
    return (
        str(line.seq), e.finished_at, e.kind.value, e.channel, e.deployment,
        f"sha256:{e.bundle[:16]}", e.commit[:12] or "-", f"{e.cases_run} of {e.cases_expected}",
        pairs + more or "-",
    )  # fmt: skip


def _table(rows: list[tuple[str, ...]]) -> str:
    head = (
        "seq",
        "finished",
        "kind",
        "channel",
        "deployment",
        "bundle",
        "commit",
        "cases",
        "about",
    )
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )


def _bytes_of(path: Path) -> bytes:
    from ci_parity.release.note import MAX_NOTE_BYTES

    try:
        with path.open("rb") as stream:
            return stream.read(2 * MAX_NOTE_BYTES)
    except OSError as error:
        raise ConfigError(
            f"cannot read the file: {error.strerror or error}",
            where=str(path),
            remedy="name a file that `ci-parity log` wrote",
        ) from error
