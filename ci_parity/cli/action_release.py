"""The action's modes `release` and `rollback`: what the commands do, for one run of a workflow.

All attempts of a run are one act: a rerun finds its line. Neither runs for a pull request, whose
checkout may say anything.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from ci_parity.base.errors import ConfigError
from ci_parity.base.escape import code
from ci_parity.base.progress import PlainProgress
from ci_parity.cli.judging import judge_bundle
from ci_parity.detect.git import Repository
from ci_parity.detect.host import HostSources
from ci_parity.github import actions
from ci_parity.github.actions import ActionInputs, Mode
from ci_parity.github.client import RestClient
from ci_parity.github.context import GitHubContext
from ci_parity.records.outcome import Outcome
from ci_parity.release.signing import find_signing_key
from ci_parity.report.markup import linked
from ci_parity.stages.releasing.carriers import carriers_of
from ci_parity.stages.releasing.proposing import PullRequests
from ci_parity.stages.releasing.release import release
from ci_parity.stages.releasing.rollback import roll_back
from ci_parity.stages.releasing.stream import Asked, Done, Stream

MODES = frozenset({Mode.RELEASE, Mode.ROLLBACK})


def put_out(
    inputs: ActionInputs, context: GitHubContext, root: Path
) -> tuple[Done, Mapping[str, str]]:
    """Release or roll back as the inputs say; return how it ended, and the outputs.

    Raises:
        ConfigError: on a pull request's event.
        CiParityError: it could not be decided or carried out.
    """
    if context.pull_request is not None or context.event_name.startswith("pull_request"):
        raise ConfigError(
            f"mode {inputs.mode.value} does not run for a pull request",
            where="input mode",
            remedy="run it on pushes to the default branch, tags or workflow_dispatch",
        )
    asked = Asked(
        root=root, config=inputs.config, log=inputs.log, base=_base(context, root),
        dry_run=inputs.dry_run, run=f"{context.repository}/{context.run_id}",
        run_url=context.run_url, key=find_signing_key(None, os.environ),
    )  # fmt: skip
    if inputs.mode is Mode.RELEASE:
        bundle = _below(context, inputs.bundle) if inputs.bundle else None
        done = release(asked, bundle, inputs.digest, _say)
    else:
        done = roll_back(
            asked, inputs.to, inputs.reason, carriers=carriers_of(asked.key, None, _say),
            pulls=lambda stream: _pull_requests(stream, asked, context),
            judge=lambda folder, config: judge_bundle(folder, config, PlainProgress()),
            host=HostSources.here(), say=_say,
        )  # fmt: skip
    return done, _act_outputs(done)


def _act_outputs(done: Done) -> Mapping[str, str]:
    """Return the outputs; what is only proposed is not out, and not published by its digest."""
    out = done.bundle if not done.pull_request else ""
    return {
        "verdict": done.outcome.value,
        "bundle_digest": f"sha256:{out}" if out else "",
        "pull_request": done.pull_request,
    }


def _pull_requests(stream: Stream, asked: Asked, context: GitHubContext) -> PullRequests:
    client = RestClient(context.api_url, context.token)
    return PullRequests(
        client=client, repository=context.repository, stream=stream, asked=asked, say=_say
    )


def told(done: Done, mode: Mode) -> str:
    """Return how an act ended, as Markdown for the job's summary; what it quotes is code."""
    words = "Released" if mode is Mode.RELEASE else "Rolled back"
    if done.pull_request and done.line is not None:
        return (
            f"### 🔁 Proposed to go back to {code(f'sha256:{done.bundle}')}, by "
            f"{linked('a pull request', done.pull_request)}\n\n"
            f"What is out is barred by record {done.line.seq} of the release log, and stays out "
            "until the pull request is merged and this is run again, or something is released.\n"
        )
    if done.outcome is Outcome.PASS:
        line = f", record {done.line.seq} of the release log" if done.line else ", a dry run"
        return f"### ✅ {words}: {code(f'sha256:{done.bundle}')}{line}\n"
    reasons = "".join(f"- {code(reason, 400)}\n" for reason in done.reasons)
    mark = "❌" if done.outcome is Outcome.FAIL else "❔"
    return f"### {mark} Not {words.lower()}; what is out stays out\n\n{reasons}"


def _say(words: str) -> None:
    click.echo(actions.neutralise(words))


def _base(context: GitHubContext, root: Path) -> str:
    """Return the default branch as the checkout knows it; empty where it does not."""
    branch = f"origin/{context.default_branch}" if context.default_branch else ""
    return branch if branch and Repository(folder=root).resolve(branch) else ""


def _below(context: GitHubContext, name: str) -> Path:
    path = (context.workspace / name).resolve()
    if not path.is_relative_to(context.workspace):
        raise ConfigError(f"{path} is outside the workspace", where="input bundle")
    return path


def refusals(done: Done, mode: Mode) -> tuple[str, ...]:
    """Return the lines that show beside the run why nothing went out."""
    return tuple(
        actions.annotation("error", reason, title=f"CI Parity {mode.value}")
        for reason in done.reasons
    )
