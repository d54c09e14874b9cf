"""`ci-parity publish`: a stored verdict as the files that other CI systems read."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.base.escape import visible
from ci_parity.cli import options
from ci_parity.cli.output import write_files

if TYPE_CHECKING:
    from ci_parity.records.verdict import Verdict

_EXAMPLES = """\b
Examples:
  ci-parity check --report-dir out
  ci-parity publish --from out --junit parity.xml
  ci-parity publish --from out --sarif parity.sarif --badge parity.json --exit-zero
  ci-parity publish --from out --prometheus /var/lib/node_exporter/parity.prom
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="ci-parity-report",
    show_default=True,
    help="Report folder of a `ci-parity check`.",
)
@options.all_report_files
@click.option(
    "--exit-zero",
    is_flag=True,
    help="End with 0 whatever the verdict; not where there is none to publish.",
)
def command(folder: Path, exit_zero: bool, **given: Path | None) -> int:
    """Write the verdict in a report folder as files for CI systems and dashboards.

    Ends with the exit code of that verdict. A folder without a whole verdict is inconclusive: the
    files then say so, and the exit code is 3.
    """
    from ci_parity.report.words import headline

    files = options.asked_files(given)
    if not files:
        raise ConfigError(
            "no file to write is named",
            where="ci-parity publish",
            remedy="name at least one, such as --junit FILE",
        )
    verdict, found = _read(folder)
    click.echo(visible(headline(verdict), 300))
    code = write_files(verdict, files, folder)
    for form, path in files.items() if code == verdict.outcome.exit_code else ():
        click.echo(f"  {form}: {visible(str(path), 300)}")
    stood = found and code == verdict.outcome.exit_code
    return 0 if exit_zero and stood else code


def _read(folder: Path) -> "tuple[Verdict, bool]":
    """Return the stored verdict, or the inconclusive one of a folder that has none."""
    from ci_parity.stages.stored_report import no_verdict, read_record

    try:
        return read_record(folder), True
    except EvidenceError as error:
        click.echo(f"ci-parity: there is no verdict to publish: {error}", err=True)
        return no_verdict(error), False
