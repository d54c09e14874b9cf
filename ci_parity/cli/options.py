"""Options that several commands share, each with one wording."""

from pathlib import Path

import click

root = click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="The repository, or the folder of one deployment in it.",
)
config = click.option(
    "--config", default="", help="Config file below the root; ci-parity.yml by default."
)
base = click.option(
    "--base",
    default="",
    metavar="REVISION",
    help="Commit to compare with when the release log has no validated line.",
)
log = click.option(
    "--log",
    default="",
    metavar="SPEC",
    help="Release log, branch:NAME or file:PATH, instead of the configured one.",
)
