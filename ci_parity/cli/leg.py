"""`ci-parity run`: one leg of a plan on the machine it is for; the gate judges what it brings."""

from pathlib import Path

import click

from ci_parity.cli import options
from ci_parity.cli.output import show_progress

_EXAMPLES = """\b
Examples:
  ci-parity plan --json plan.json
  ci-parity run --plan plan.json --leg cpu --out artifacts/cpu
  ci-parity run --plan plan.json --leg gpu@2 --out artifacts/gpu@2 --run-id "$CI_PIPELINE_ID"
"""


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@options.base
@options.log
@options.plan_file
@options.run_id
@click.option("--leg", required=True, help="Name of the leg in the plan.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True,
    help="Folder for what was observed: bring it to the gate as it is.",
)  # fmt: skip
def command(
    root: Path, config: str, base: str, log: str, plan_path: Path, run_id: str, leg: str, out: Path
) -> int:
    """Run one leg of a plan, and keep what it observed.

    The exit status says whether it could be observed; what it means, `ci-parity gate` decides.
    """
    from ci_parity.base.errors import ConfigError
    from ci_parity.cli.terminal import show
    from ci_parity.fanout import run_leg
    from ci_parity.pipeline import CheckOptions
    from ci_parity.records.leg_report import Origin

    plan = options.read_plan_file(plan_path)
    found = [known for known in plan.legs if known.name == leg]
    if not found:
        raise ConfigError(
            f"the plan has no leg {leg!r}",
            where="--leg",
            remedy=f"name one of {', '.join(known.name for known in plan.legs) or '(none)'}",
        )
    wanted = CheckOptions(root=root, config=config, base=base, log=log)
    origin = Origin(run=run_id, commit=plan.commit)
    verdict = run_leg(wanted, plan, found[0], out, origin, show_progress())
    show(verdict)
    click.echo(f"  observations: {out}; the gate decides")
    return 0
