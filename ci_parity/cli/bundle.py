"""`ci-parity bundle`: pack what is released under one digest, verify it, unpack it, judge it."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.escape import visible
from ci_parity.cli import options
from ci_parity.cli.bundle_attested import command as attested
from ci_parity.cli.bundle_bom import bom
from ci_parity.cli.bundle_explain import explain
from ci_parity.cli.bundle_fetch import command as fetch

if TYPE_CHECKING:
    from ci_parity.release.bundle.verify import Verified

_EXAMPLES = """\b
Examples:
  ci-parity bundle build --out release.tar
  ci-parity bundle verify release.tar --digest sha256:DIGEST
  ci-parity bundle extract release.tar --out model
  ci-parity bundle validate release.tar --digest sha256:DIGEST
  ci-parity bundle validate release.tar --target edge
  ci-parity bundle explain release.tar typical
  ci-parity bundle bom release.tar --out release.cdx.json
"""

_path = click.argument("path", type=click.Path(path_type=Path))
_digest = click.option(
    "--digest",
    default="",
    metavar="sha256:HEX",
    help="The digest that the bundle must have, from the release log or another trusted place.",
)


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Pack what gives a model its meaning under one digest; verify, unpack, judge it.

    A bundle holds graphs, weights, fixtures, references, config, locks, labels, judges and
    licences, as a folder or as one archive that is the same bytes for the same files.
    """


command.add_command(attested, "attested")
command.add_command(bom)
command.add_command(explain)
command.add_command(fetch, "fetch")


@command.command(epilog=_EXAMPLES)
@options.root
@options.config
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to make, or an archive where the name ends in .tar.",
)
def build(root: Path, config: str, out: Path) -> int:
    """Pack the deployment; print the digest, which `check` records in the release log."""
    from ci_parity.base.digest import sha256_bytes
    from ci_parity.release.bundle.manifest import read_manifest
    from ci_parity.stages.bundling import build as build_bundle

    manifest = build_bundle(root, config, out)
    said = read_manifest(manifest)
    click.echo(f"{out}: {len(said.files)} files, {said.size_bytes} bytes")
    click.echo(f"sha256:{sha256_bytes(manifest)}")
    return 0


@command.command(epilog=_EXAMPLES)
@_path
@_digest
def verify(path: Path, digest: str) -> int:
    """Hold a folder or archive to its manifest, offline; exit code 1 when anything is wrong.

    Nothing is unpacked, loaded or trusted. Without --digest this shows that the bundle is whole,
    not that it is the one that was released.
    """
    from ci_parity.release.bundle.verify import verify_bundle

    found = verify_bundle(path, digest)
    for problem in found.problems:
        click.echo(f"  {problem}")
    if found.problem_count > len(found.problems):
        click.echo(f"  and {found.problem_count - len(found.problems)} more")
    if not found.whole:
        count = found.problem_count
        click.echo(f"{path}: refused, {count} problem{'s' * (count != 1)}")
        return 1
    _say_whole(path, found, digest)
    return 0


@command.command(epilog=_EXAMPLES)
@_path
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder to make; it must be new."
)
@_digest
def extract(path: Path, out: Path, digest: str) -> int:
    """Verify a bundle and copy its files into a new folder: all of them, or none."""
    from ci_parity.release.bundle.extract import extract_bundle

    _say_whole(out, extract_bundle(path, out, digest), digest)
    return 0


@command.command(epilog=_EXAMPLES)
@_path
@_digest
@click.option("--target", default="", help="The only target to judge; all of them by default.")
@options.json_report
@options.report_files
def validate(path: Path, digest: str, target: str, json_path: str, **forms: Path | None) -> int:
    """Judge the stored cases of a bundle on this machine; the exit code is the answer.

    A verified private copy is what runs: every target of the bundle's config, against the stored
    references, under the bundle's policy. Nothing is recorded. With --target it is that one alone,
    which is then compared with no other.
    """
    from ci_parity.cli.judging import judge_bundle
    from ci_parity.cli.output import files_in_any_case, show_progress, write_files, write_json
    from ci_parity.cli.terminal import show
    from ci_parity.release.bundle.extract import extract_bundle
    from ci_parity.report import json_v1
    from ci_parity.stages.report_folder import json_bytes

    files = options.asked_files(forms)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch, files_in_any_case(files):
        folder = Path(scratch) / "bundle"
        facts = extract_bundle(path, folder, digest).facts
        verdict = judge_bundle(folder, facts.config, show_progress(), target)
    if json_path != "-":
        show(verdict)
    if json_path:
        write_json(json_bytes(json_v1.render_check(verdict)), json_path)
    return write_files(verdict, files)


def _say_whole(path: Path, found: "Verified", expected: str) -> None:
    assert found.manifest is not None
    manifest = found.manifest
    name = visible(manifest.facts.deployment, 100)
    click.echo(
        f"{path}: whole, bundle of {name}, {len(manifest.files)} files, {manifest.size_bytes} bytes"
    )
    click.echo(f"sha256:{found.digest}")
    if not expected:
        click.echo("no --digest was given: compare this one with the release log", err=True)
