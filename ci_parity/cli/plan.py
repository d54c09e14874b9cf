"""`ci-parity plan`: the matrix of a workflow that fans out over targets and shards."""

from pathlib import Path

import click

from ci_parity.cli import options
from ci_parity.cli.output import write_json

_EXAMPLES = """\b
Examples:
  ci-parity plan
  ci-parity plan --shards 4 --json plan.json
  echo "matrix=$(ci-parity plan --json -)" >> "$GITHUB_OUTPUT"
"""


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@options.base
@options.log
@click.option("--force", is_flag=True, help="Plan every target even when nothing changed.")
@click.option(
    "--shards",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Parts into which each target's cases are split.",
)
@click.option(
    "--json", "json_path", default="",
    help="Write the plan as one line of JSON to a file, or - for standard output.",
)  # fmt: skip
def command(
    root: Path, config: str, base: str, log: str, force: bool, shards: int,
    json_path: str,
) -> int:  # fmt: skip
    """Say which targets must run, on which runners, and why the others need not."""
    from ci_parity.base.canonical import canonical_bytes
    from ci_parity.detect.plan import legs
    from ci_parity.pipeline import CheckOptions, detect
    from ci_parity.report import json_v1, text

    wanted = CheckOptions(root=root, config=config, base=base, log=log, force=force)
    deployment, changes = detect(wanted)
    planned = legs(deployment, changes, shards)
    if json_path != "-":
        click.echo(text.render_changes(changes), nl=False)
        for leg in planned:
            runner, variants = ", ".join(leg.runs_on), ", ".join(leg.variants)
            part = f" part {leg.shard} of {leg.shards}" if leg.shards > 1 else ""
            click.echo(f"  run {leg.target}{part} on [{runner}]: {variants}")
    if json_path:
        plan = json_v1.render_plan(deployment.name, changes, planned)
        write_json(canonical_bytes(plan) + b"\n", json_path)
    return 0
