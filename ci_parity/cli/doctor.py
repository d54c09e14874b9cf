"""`ci-parity doctor`: what this machine can do, and what is missing for this repository."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import CiParityError, ConfigError, InfrastructureError
from ci_parity.base.escape import visible
from ci_parity.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_parity.config.model import Deployment
    from ci_parity.stages.doctor.check import Check

_EXAMPLES = """\b
Examples:
  ci-parity doctor
  ci-parity doctor --no-run
"""
_MARKS = {"ok": "ok", "note": "note", "missing": "MISSING"}


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@click.option(
    "--run/--no-run",
    "run_targets",
    default=True,
    help="Provide the runtime of each target and run a small model on it.",
)
def command(root: Path, config: str, *, run_targets: bool) -> int:
    """Say what this machine can do, and what is missing for the targets of this repository.

    Exit codes: 0 nothing is missing; 5 something is. A target that runs elsewhere is missing here.
    """
    from ci_parity.stages.doctor.check import State

    found = []
    for check in _checks(root, config, run_targets=run_targets):
        found.append(check)
        click.echo(f"  {_MARKS[check.state.value]:<8} {check.name}: {visible(check.words, 400)}")
        if check.remedy:
            click.echo(f"           {visible(check.remedy, 400)}")
    lacking = [check.name for check in found if check.state is State.MISSING]
    click.echo(f"missing: {', '.join(lacking)}" if lacking else "nothing is missing")
    return InfrastructureError.exit_code if lacking else 0


def _checks(root: Path, config: str, *, run_targets: bool) -> "Iterator[Check]":
    from ci_parity.cli.output import show_progress
    from ci_parity.run.environments import cache_folder
    from ci_parity.stages.doctor.check import missing, note, ok
    from ci_parity.stages.doctor.machine import Needs, examine_machine, needs_of
    from ci_parity.stages.doctor.targets import examine_targets

    deployment: Deployment | None = None
    config_check: Check
    try:
        deployment = _deployment(root, config)
        config_check = ok("config", f"{deployment.origin}: deployment {deployment.name}")
    except ConfigError as error:
        # Without a config there is nothing to miss; one that cannot be read is.
        there = (root / (config or "ci-parity.yml")).exists()
        made = missing if there else note
        config_check = made("config", str(error).splitlines()[0], error.remedy)
    except CiParityError as error:
        config_check = missing("config", str(error).splitlines()[0], error.remedy)
    needs = needs_of(deployment.targets) if deployment else Needs()
    yield from examine_machine(root, cache_folder(), needs)
    yield config_check
    if deployment is not None and run_targets:
        yield from examine_targets(
            deployment.targets, deployment.root, cache_folder(), show_progress()
        )


def _deployment(root: Path, config: str) -> "Deployment":
    from ci_parity.config.discover import find_deployment

    return find_deployment(root, config)
