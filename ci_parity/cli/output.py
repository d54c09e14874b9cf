"""What commands print: results on standard output, progress on standard error."""

import sys
from pathlib import Path

import click

from ci_parity.base import progress
from ci_parity.base.files import write_atomic


def show_progress() -> progress.Progress:
    """Return bars on a terminal, lines elsewhere."""
    return progress.for_stream(interactive=sys.stderr.isatty())


def write_json(data: bytes, destination: str) -> None:
    """Write a JSON report to a file, or to standard output for `-`."""
    if destination == "-":
        click.echo(data.decode(), nl=False)
    else:
        write_atomic(Path(destination), data)
