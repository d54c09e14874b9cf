"""`ci-parity detect`: what differs from the baseline, without running anything."""

from pathlib import Path

import click

from ci_parity.cli import options
from ci_parity.cli.output import write_json

_EXAMPLES = """\b
Examples:
  ci-parity detect
  ci-parity detect --base origin/main
  ci-parity detect --json changes.json
"""


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@options.base
@options.log
@click.option(
    "--json", "json_path", default="",
    help="Write the changes as JSON to a file, or - for standard output.",
)  # fmt: skip
def command(root: Path, config: str, base: str, log: str, json_path: str) -> int:
    """List what changed on every axis since the last validated state or the base commit."""
    from ci_parity.pipeline import CheckOptions, detect
    from ci_parity.report import json_v1, text
    from ci_parity.stages.report_folder import json_bytes

    deployment, changes = detect(CheckOptions(root=root, config=config, base=base, log=log))
    if json_path != "-":
        click.echo(text.render_changes(changes), nl=False)
    if json_path:
        write_json(json_bytes(json_v1.render_detect(deployment.name, changes)), json_path)
    return 0
