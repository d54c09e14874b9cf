"""`ci-parity rollback`: back to a bundle that is proven, restored and held to this machine."""

import os
from pathlib import Path

import click

from ci_parity.cli import options
from ci_parity.cli.release import conclude

_EXAMPLES = """\b
Examples:
  ci-parity rollback --dry-run
  ci-parity rollback --reason "labels were swapped"
  ci-parity rollback --to sha256:DIGEST
  ci-parity rollback --out /srv/reader
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--to",
    default="",
    metavar="sha256:HEX",
    help="The bundle to go back to, instead of the newest that is proven and whole.",
)
@click.option("--reason", default="", help="Why, in words that every reader of the log sees.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also put the files there, as versions/DIGEST, and let the link `current` lead to them.",
)
@options.root
@options.config
@options.base_branch
@options.log
@click.option("--dry-run", is_flag=True, help="Choose, restore and judge; write nothing.")
def command(
    to: str, reason: str, out: Path | None, root: Path, config: str, base: str, log: str, *,
    dry_run: bool,
) -> int:  # fmt: skip
    """Go back to the newest older bundle that the log proves and the store still has, whole.

    Its bytes come out of release.store and are hashed. Where runtime or driver of this machine are
    not those that it was validated on, its stored cases run first, and only a pass goes on.
    Then the record is written, the channel's pointer moves, and the bundle that was out is barred
    until it is validated anew. Run again after anything that broke: it goes on, and does nothing
    twice; to go back further than that, name the bundle with --to.

    With release.rollback: pull_request the bundle that is out is barred, and a pull request brings
    the files of the other one back; once it is merged, the same command does the rest. It takes
    GITHUB_TOKEN, and where the remote is not on github.com GITHUB_API_URL and GITHUB_REPOSITORY.

    Exit codes: 0 gone back, or proposed; 1 it may not be, or is not good here; 3 that cannot be
    told. In the last two cases what is out stays out.
    """
    from ci_parity.cli.forge import pull_requests
    from ci_parity.cli.judging import judge_bundle
    from ci_parity.cli.output import show_progress
    from ci_parity.detect.host import HostSources
    from ci_parity.release.signing import find_signing_key
    from ci_parity.stages.releasing.carriers import carriers_of
    from ci_parity.stages.releasing.rollback import roll_back
    from ci_parity.stages.releasing.stream import Asked

    key = find_signing_key(None, os.environ)
    asked = Asked(root=root, config=config, log=log, base=base, dry_run=dry_run, key=key)
    done = roll_back(
        asked, to, reason, carriers=carriers_of(key, out, click.echo), host=HostSources.here(),
        pulls=lambda stream: pull_requests(stream, asked, os.environ, click.echo),
        judge=lambda folder, name: judge_bundle(folder, name, show_progress()), say=click.echo,
    )  # fmt: skip
    return conclude(done, "rolled back")
