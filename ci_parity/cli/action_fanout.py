"""The action's modes for several machines: `plan` and `run` print and hand on, `gate` judges."""

from collections.abc import Mapping
from pathlib import Path

import click

from ci_parity.base.canonical import canonical_bytes, parse_strict
from ci_parity.base.errors import ConfigError
from ci_parity.base.progress import PlainProgress
from ci_parity.fanout import GateOptions, PlanOptions, gate, plan, run_leg
from ci_parity.github import actions
from ci_parity.github.actions import ActionInputs
from ci_parity.github.context import GitHubContext
from ci_parity.pipeline import Checked, CheckOptions
from ci_parity.records.leg_report import Origin
from ci_parity.report import text
from ci_parity.report.plan_v1 import read_leg, read_plan, render_plan

# Events that no commit caused: what differs then is on the machines.
_DRIFT_EVENTS = {"schedule", "workflow_dispatch", "repository_dispatch"}


def plan_outputs(
    options: CheckOptions, inputs: ActionInputs, context: GitHubContext
) -> Mapping[str, str]:
    """Plan a run, print it, and return the outputs that hand it on."""
    drift = context.event_name in _DRIFT_EVENTS
    planned, changes = plan(options, PlanOptions(shards=inputs.shards, drift=drift))
    click.echo(actions.neutralise(text.render_changes(changes)), nl=False)
    for leg in planned.legs:
        labels, variants = ", ".join(leg.runs_on), ", ".join(leg.variants)
        click.echo(actions.neutralise(f"  run {leg.name} on [{labels}]: {variants}"))
    rendered = render_plan(planned, changes)
    return {
        "plan": canonical_bytes(rendered).decode(),
        "matrix": canonical_bytes({"include": rendered["include"]}).decode(),
        "run": "true" if planned.legs else "false",
    }


def run_outputs(
    options: CheckOptions, inputs: ActionInputs, context: GitHubContext, folder: Path
) -> Mapping[str, str]:
    """Run the leg of this job, print how its part looks, and return where it is kept."""
    planned, leg = read_plan(inputs.plan), read_leg(inputs.leg)
    origin = origin_of(context, planned.commit)
    verdict = run_leg(options, planned, leg, folder, origin, PlainProgress())
    click.echo(actions.neutralise(text.render(verdict)), nl=False)
    click.echo("this is one part of the run: the gate decides")
    return {"artifact": folder.relative_to(context.workspace).as_posix()}


def gated(options: CheckOptions, inputs: ActionInputs, context: GitHubContext) -> Checked:
    """Judge what the legs brought."""
    results = job_results(inputs.needs)
    failed = ", ".join(f"{job}: {how}" for job, how in results.items() if how != "success")
    if not inputs.plan and failed:
        raise ConfigError(
            f"there is no plan, because of the jobs before ({failed})", where="input plan",
            remedy="look at those jobs, and run the workflow again",
        )  # fmt: skip
    planned = read_plan(inputs.plan)
    given = GateOptions(
        plan=planned, artifacts=artifacts_of(inputs, context),
        origin=origin_of(context, planned.commit), results=results,
    )  # fmt: skip
    return gate(options, given, PlainProgress())


def origin_of(context: GitHubContext, commit: str) -> Origin:
    """Return what legs and gate of one run have in common."""
    run = f"{context.repository}/{context.run_id}"
    return Origin(run=run, attempt=context.run_attempt, commit=commit)


def artifacts_of(inputs: ActionInputs, context: GitHubContext) -> Path:
    """Return the folder with the artifacts, which is below the workspace."""
    folder = (context.workspace / inputs.artifacts).resolve()
    if not inputs.artifacts or not folder.is_relative_to(context.workspace):
        raise ConfigError(
            f"{inputs.artifacts!r} is no folder below the workspace",
            where="input artifacts",
            remedy="name the path that the artifacts were downloaded to",
        )
    return folder


def job_results(needs: str) -> Mapping[str, str]:
    """Return how each job before ended, from `toJSON(needs)`.

    Raises:
        ConfigError: it is missing, or something else.
    """
    value = parse_strict(needs, where="input needs") if needs else None
    results = {}
    for job, said in value.items() if isinstance(value, Mapping) else ():
        result = said.get("result") if isinstance(said, Mapping) else None
        if not isinstance(result, str):
            break
        results[job] = result
    if not isinstance(value, Mapping) or len(results) < len(value) or not value:
        raise ConfigError(
            "the gate must know how the jobs before it ended",
            where="input needs",
            remedy="write needs: ${{ toJSON(needs) }}, and let the job need plan and run",
        )
    return results
