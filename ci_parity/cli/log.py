"""`ci-parity log`: read and verify the release log."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import ConfigError
from ci_parity.cli import options

if TYPE_CHECKING:
    from ci_parity.release.store import ReleaseLog

_EXAMPLES = """\b
Examples:
  ci-parity log verify
  ci-parity log verify --log branch:ci-parity-log
  ci-parity log show --log file:release-log.jsonl
"""


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Read and verify the release log."""


@command.command(epilog=_EXAMPLES)
@options.root
@options.log
def verify(root: Path, log: str) -> int:
    """Check every line's form, place and link to the line before it."""
    from ci_parity.release.store import verify_log

    opened = _open(root, log)
    lines = verify_log(opened)
    head = f", head {lines[-1].sha256}" if lines else ""
    click.echo(f"{opened.label}: {len(lines)} lines verified{head}")
    return 0


@command.command(epilog=_EXAMPLES)
@options.root
@options.log
def show(root: Path, log: str) -> int:
    """List the lines of the log, oldest first."""
    for line in _open(root, log).read():
        e = line.entry
        commit = e.commit[:12] or "-"
        click.echo(
            f"{line.seq:>6}  {e.finished_at}  {e.kind.value:<12}  {e.channel}  {e.deployment}  "
            f"sha256:{e.bundle[:16]}  {commit}  {e.cases_run} of {e.cases_expected} cases"
        )
    return 0


def _open(root: Path, log: str) -> "ReleaseLog":
    from ci_parity.config.discover import find_deployment
    from ci_parity.release.store import open_log

    spec = log or find_deployment(root).release.log
    if not spec:
        raise ConfigError(
            "no release log is configured",
            where=str(root),
            remedy="set release.log in ci-parity.yml, or pass --log file:PATH",
        )
    return open_log(spec, root)
