"""`ci-parity plan`: the matrix of a workflow that fans out over targets and parts of the cases."""

from pathlib import Path

import click

from ci_parity.cli import options
from ci_parity.cli.output import write_json

_EXAMPLES = """\b
Examples:
  ci-parity plan
  ci-parity plan --shards 4 --json plan.json
  echo "plan=$(ci-parity plan --json -)" >> "$GITHUB_OUTPUT"
"""


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@options.base
@options.log
@click.option("--force", is_flag=True, help="Plan every target even when nothing changed.")
@click.option(
    "--drift", is_flag=True,
    help="Plan every target, and leave it to each machine to run what differs there: drivers.",
)  # fmt: skip
@click.option(
    "--shards",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Parts into which each target's cases are dealt.",
)
@click.option(
    "--json", "json_path", default="",
    help="Write the plan as one line of JSON to a file, or - for standard output.",
)  # fmt: skip
def command(
    root: Path, config: str, base: str, log: str, force: bool, drift: bool, shards: int,
    json_path: str,
) -> int:  # fmt: skip
    """Say which targets must run, on which runners, and why the others need not.

    Each item of the plan's `include` is a leg for `ci-parity run`; `ci-parity gate` judges what
    they bring.
    """
    from ci_parity.base.canonical import canonical_bytes
    from ci_parity.fanout import PlanOptions, plan
    from ci_parity.pipeline import CheckOptions
    from ci_parity.report import text
    from ci_parity.report.plan_v1 import render_plan

    wanted = CheckOptions(root=root, config=config, base=base, log=log, force=force)
    planned, changes = plan(wanted, PlanOptions(shards=shards, drift=drift))
    if json_path != "-":
        click.echo(text.render_changes(changes), nl=False)
        for leg in planned.legs:
            runner, variants = ", ".join(leg.runs_on), ", ".join(leg.variants)
            part = f" part {leg.shard} of {leg.shards}" if leg.shards > 1 else ""
            click.echo(f"  run {leg.target}{part} on [{runner}]: {variants}")
    if json_path:
        write_json(canonical_bytes(render_plan(planned, changes)) + b"\n", json_path)
    return 0
