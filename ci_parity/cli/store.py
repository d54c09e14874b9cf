"""`ci-parity store`: the bytes of bundles, kept by their digests, and brought back by them."""

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import ConfigError
from ci_parity.base.escape import visible
from ci_parity.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_parity.release.objects.collect import Collected
    from ci_parity.release.objects.object_store import ObjectStore

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_EXAMPLES = """\b
Examples:
  ci-parity store put release.tar
  ci-parity store put release.tar --store s3://BUCKET/models
  ci-parity store put release.tar --store github-release:ci-parity-store
  ci-parity store list --store released
  ci-parity store get sha256:DIGEST --out model
  ci-parity store verify sha256:DIGEST
  ci-parity store gc --keep 5 --dry-run
"""
_store = click.option(
    "--store",
    default="",
    metavar="SPEC",
    help="A folder, an s3://, gs:// or az:// address, or github-release:TAG, instead of the "
    "configured store.",
)


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Keep bundles in a content-addressed store, and bring them back.

    Every file is kept once, under the SHA-256 of its bytes, and hashed again whenever it is read.
    """


@command.command(epilog=_EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@options.root
@options.config
@_store
@click.option(
    "--digest", default="", metavar="sha256:HEX", help="The digest that the bundle must have."
)
@click.option(
    "--again", is_flag=True, help="Read what is there already, and replace what was changed."
)
def put(path: Path, root: Path, config: str, store: str, digest: str, *, again: bool) -> int:
    """Keep a bundle, a folder or an archive; what is there already is not sent again."""
    from ci_parity.release.objects.bundles import keep_bundle

    opened = _open(root, config, store)
    kept = keep_bundle(opened, path, digest, again=again)
    click.echo(
        f"{opened.label}: {kept.files_sent} files sent ({kept.bytes_sent} bytes), "
        f"{kept.files_there} were there"
    )
    click.echo(f"sha256:{kept.digest}")
    return 0


@command.command(epilog=_EXAMPLES)
@click.argument("digest")
@options.root
@options.config
@_store
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder to make; it must be new."
)
def get(digest: str, root: Path, config: str, store: str, out: Path) -> int:
    """Bring the bundle DIGEST into a new folder: verified and whole, or not at all.

    Cut off, it goes on from what had arrived when it is run again.
    """
    from ci_parity.release.objects.bundles import restore_bundle

    found = restore_bundle(_open(root, config, store), _digits(digest), out)
    assert found.manifest is not None
    click.echo(
        f"{out}: whole, bundle of {visible(found.facts.deployment, 100)}, "
        f"{len(found.manifest.files)} files, {found.manifest.size_bytes} bytes"
    )
    click.echo(f"sha256:{found.digest}")
    return 0


@command.command("list", epilog=_EXAMPLES)
@options.root
@options.config
@_store
def list_bundles(root: Path, config: str, store: str) -> int:
    """List the bundles that the store holds, and what all its objects weigh."""
    from ci_parity.base.errors import EvidenceError
    from ci_parity.release.objects.bundles import listed_bundles, manifest_in

    opened = _open(root, config, store)
    for digest in sorted(listed_bundles(opened)):
        try:
            manifest = manifest_in(opened, digest)
            name = visible(manifest.facts.deployment, 100)
            words = f"{name}, {len(manifest.files)} files, {manifest.size_bytes} bytes"
        except EvidenceError as error:
            words = f"incomplete: {error.what}"
        click.echo(f"sha256:{digest}  {words}")
    sizes = [stored.size_bytes for stored in opened.objects()]
    click.echo(f"{opened.label}: {len(sizes)} objects, {sum(sizes)} bytes")
    return 0


@command.command(epilog=_EXAMPLES)
@click.argument("digests", nargs=-1, metavar="[DIGEST]...")
@options.root
@options.config
@_store
def verify(digests: "Sequence[str]", root: Path, config: str, store: str) -> int:
    """Read every byte of the bundles DIGEST, or of all, and hash it; nothing is written.

    Exit codes: 0 all whole; 1 something is missing or was changed; 3 there is no bundle to verify.
    """
    from ci_parity.records.outcome import Outcome
    from ci_parity.release.objects.bundles import check_bundle, listed_bundles

    opened = _open(root, config, store)
    chosen = [_digits(digest) for digest in digests] or sorted(listed_bundles(opened))
    outcomes = []
    for digest in chosen:
        problems = check_bundle(opened, digest)
        for problem in problems:
            click.echo(f"  {visible(problem, 600)}")
        click.echo(f"sha256:{digest}  {f'{len(problems)} broken' if problems else 'whole'}")
        outcomes.append(Outcome.FAIL if problems else Outcome.PASS)
    click.echo(f"{opened.label}: {len(chosen)} bundles read")
    return Outcome.worst(outcomes).exit_code


@command.command(epilog=_EXAMPLES)
@options.root
@options.log
@_store
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many of the newest proven bundles stay, for each deployment in each channel.",
)
@click.option(
    "--also", multiple=True, metavar="sha256:HEX", help="A bundle that stays in any case; repeat."
)
@click.option(
    "--grace-hours",
    type=click.IntRange(min=2),
    default=24,
    show_default=True,
    help="An object that was kept since then stays: its bundle may be on its way.",
)
@click.option(
    "--unknown", is_flag=True, help="Also collect bundles that the release log does not name."
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and delete nothing.")
def gc(
    root: Path,
    log: str,
    store: str,
    keep: int,
    also: "Sequence[str]",
    grace_hours: int,
    *,
    unknown: bool,
    dry_run: bool,
) -> int:
    """Delete what no release needs any more, by the word of a release log that verifies."""
    from ci_parity.cli.logs import open_configured
    from ci_parity.release.objects.collect import Rules, collect

    lines = open_configured(root, log).read()
    opened = _open(root, "", store)
    rules = Rules(
        keep=keep, also=tuple(_digits(digest) for digest in also), grace_s=grace_hours * 3600,
        unknown=unknown, dry_run=dry_run,
    )  # fmt: skip
    found = collect(opened, lines, rules, now_s=time.time())
    _print_collected(found, dry_run=dry_run)
    return 0


def _print_collected(found: "Collected", *, dry_run: bool) -> None:
    for word, digests in (
        ("keep", found.kept),
        ("keep, unknown to this log", found.unknown),
        ("never kept here", found.absent),
        ("would drop" if dry_run else "dropped", found.dropped),
    ):
        for digest in digests:
            click.echo(f"{word}  sha256:{digest}")
    would = "would be deleted" if dry_run else "deleted"
    click.echo(f"{found.objects_deleted} objects {would}, {found.bytes_freed} bytes")
    if found.young:
        click.echo(f"{found.young} objects without a bundle are too young to go")
    if found.uploads_ended:
        click.echo(f"{found.uploads_ended} unfinished uploads ended")


def _open(root: Path, config: str, store: str) -> "ObjectStore":
    from ci_parity.config.discover import find_deployment
    from ci_parity.stages.releasing.stores import open_store

    spec = store or find_deployment(root, config).release.store
    if not spec:
        raise ConfigError(
            "no store is configured",
            where=os.fspath(root),
            remedy="set release.store in ci-parity.yml, or pass --store",
        )
    return open_store(spec, root)


def _digits(digest: str) -> str:
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise ConfigError(
            f"{digest[:80]!a} is not the digest of a bundle",
            where="DIGEST",
            remedy="write sha256: and 64 lowercase hexadecimal digits",
        )
    return match[1]
