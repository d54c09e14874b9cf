"""`ci-parity release`: a validated bundle goes out, kept, recorded, and named by its channel."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.escape import visible
from ci_parity.cli import options
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    from ci_parity.stages.releasing.stream import Done

_EXAMPLES = """\b
Examples:
  ci-parity release
  ci-parity release release.tar --digest sha256:DIGEST
  ci-parity release --dry-run
"""


@click.command(epilog=_EXAMPLES)
@click.argument("bundle", type=click.Path(path_type=Path), required=False)
@click.option(
    "--digest",
    default="",
    metavar="sha256:HEX",
    help="The digest that the bundle must have, as `check` reported it.",
)
@options.root
@options.config
@options.base_branch
@options.log
@click.option("--dry-run", is_flag=True, help="Decide, and write nothing.")
def command(
    bundle: Path | None, digest: str, root: Path, config: str, base: str, log: str, *, dry_run: bool
) -> int:
    """Release the deployment here, or the folder or archive BUNDLE, if the log proves it.

    It must be validated for every target that the config here or on the base branch has, not
    revoked or rolled back since, and of a commit that comes after the one released last. Its bytes
    go into release.store, then the line into the log, then the channel's pointer follows. Run again
    after anything that broke; nothing is done twice.

    Exit codes: 0 released; 1 it may not go out; 3 that cannot be told.
    """
    from ci_parity.release.signing import find_signing_key
    from ci_parity.stages.releasing.release import release
    from ci_parity.stages.releasing.stream import Asked

    asked = Asked(
        root=root, config=config, log=log, base=base, dry_run=dry_run,
        key=find_signing_key(None, os.environ),
    )  # fmt: skip
    return conclude(release(asked, bundle, digest, click.echo), "released")


def conclude(done: "Done", act: str) -> int:
    """Print how an act ended and return its exit code."""
    for reason in done.reasons:
        click.echo(f"  {visible(reason, 400)}")
    if done.outcome is not Outcome.PASS:
        told = "refused" if done.outcome is Outcome.FAIL else "inconclusive"
        click.echo(f"not {act}: {told}")
    return done.outcome.exit_code
