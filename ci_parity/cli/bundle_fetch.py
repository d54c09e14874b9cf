"""`ci-parity bundle fetch`: a device brings what is out on its channel, and runs nothing older."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.escape import visible
from ci_parity.records.outcome import Outcome

_EXAMPLES = """\b
Examples:
  ci-parity bundle fetch --store s3://acme-models --channel edge-prod --deployment reader \\
    --out /srv/reader --key log.pub
  ci-parity bundle fetch --store github-release:acme/models:ci-parity-store \\
    --deployment reader --out /srv/reader --key log.pub
"""

if TYPE_CHECKING:
    from ci_parity.records.verdict import Verdict


@click.command(epilog=_EXAMPLES)
@click.option(
    "--store", "spec", required=True, metavar="SPEC", help="The store, as release.store names it."
)
@click.option("--channel", default="default", show_default=True, help="The channel to follow.")
@click.option("--deployment", required=True, help="The deployment's name.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for versions/DIGEST, and the link `current` to the one in use.",
)
@click.option(
    "--key",
    "key_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Ed25519 public key, PEM or NAME+ID+BASE64, that must have signed the log's checkpoint.",
)
@click.option(
    "--unsigned",
    is_flag=True,
    help="Take what nobody signed: whoever writes to the store decides what runs here.",
)
@click.option(
    "--validate",
    is_flag=True,
    help="Judge the stored cases on this machine first; only a pass is taken.",
)
def command(
    spec: str, channel: str, deployment: str, out: Path, key_path: Path | None, *, unsigned: bool,
    validate: bool,
) -> int:  # fmt: skip
    """Follow a channel: verify what it names, bring the files, swap the link by one rename.

    The pointer in the store must lead, by proof, to a line of the release log that the key vouches
    for, and to none before the one that was taken last: an older bundle comes only as a rollback,
    which is a later line. Whatever is wrong, `current` stays what it is.

    Exit codes: 0 taken, or there already; 1 a false signature, or not good on this machine;
    3 nothing out, nobody vouches, or it cannot be judged; 4 older than what was taken, missing,
    changed or malformed.
    """
    from ci_parity.release.last_seen import LastSeen
    from ci_parity.release.signing import read_public_key
    from ci_parity.release.versions import Versions
    from ci_parity.run.environments import cache_folder
    from ci_parity.stages.releasing.fetch import Following, follow
    from ci_parity.stages.releasing.stores import open_store

    done = follow(
        Following(
            store=open_store(spec, Path.cwd()), channel=channel, deployment=deployment,
            versions=Versions(out), seen=LastSeen(cache_folder()),
            key=read_public_key(key_path) if key_path else None, unsigned=unsigned,
            judge=_judge if validate else None,
        ),
        click.echo,
    )  # fmt: skip
    for reason in done.reasons:
        click.echo(f"  {visible(reason, 400)}")
    if done.outcome is not Outcome.PASS:
        click.echo("nothing was taken; what is in use stays")
    return done.outcome.exit_code


def _judge(place: Path) -> "Verdict":
    """Judge a private copy of a bundle: what is taken stays as it was verified."""
    from ci_parity.cli.judging import judge_bundle
    from ci_parity.cli.output import show_progress
    from ci_parity.release.bundle.extract import extract_bundle

    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        folder = Path(scratch) / "bundle"
        facts = extract_bundle(place, folder).facts
        return judge_bundle(folder, facts.config, show_progress())
