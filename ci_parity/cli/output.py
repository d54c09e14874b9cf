"""What commands print: results on standard output, progress on standard error."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base import progress
from ci_parity.base.errors import CiParityError, PublishError
from ci_parity.base.files import write_atomic

if TYPE_CHECKING:
    from ci_parity.records.verdict import Verdict


def show_progress() -> progress.Progress:
    """Return bars on a terminal, lines elsewhere."""
    return progress.for_stream(interactive=sys.stderr.isatty())


def write_json(data: bytes, destination: str) -> None:
    """Write a JSON report to a file, or to standard output for `-`."""
    if destination == "-":
        click.echo(data.decode(), nl=False)
    else:
        write_atomic(Path(destination), data)


@contextmanager
def files_in_any_case(files: Mapping[str, Path]) -> Iterator[None]:
    """Let the files that were asked for never be those of an earlier run.

    They are deleted before the work; where it ends without a verdict they say so, as inconclusive.
    """
    if files:
        from ci_parity.stages.report_files import drop_files

        drop_files(files)
    try:
        yield
    except CiParityError as error:
        if files:
            from ci_parity.stages.stored_report import no_verdict

            write_files(no_verdict(error), files)
        raise


def write_files(
    verdict: "Verdict", files: Mapping[str, Path], reproductions: Path | None = None
) -> int:
    """Write a verdict in the forms that were asked for; return the exit code.

    It is the verdict's, and that of publishing only for a pass that did not get out.
    `reproductions` is the folder of what reproduces its divergences, to which a page links.
    """
    code = verdict.outcome.exit_code
    if files:
        from ci_parity.stages.report_files import write_forms

        try:
            write_forms(verdict, files, reproductions)
        except PublishError as error:
            click.echo(f"ci-parity: {error}", err=True)
            return code or error.exit_code
    return code
