"""The action's mode `comment`: what a fork's run found, published by a run that may write.

The first run has no token that can comment. It uploads its report folder; this one is started by
its end, reads the verdict in there as data, asks GitHub which pull request it is of, and writes the
comment itself. No text of the artifact is passed on as markup, and none of it is run.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError
from ci_parity.cli.action_fanout import artifacts_of
from ci_parity.github.actions import ActionInputs
from ci_parity.github.client import RestClient
from ci_parity.github.context import FinishedRun, GitHubContext
from ci_parity.github.pull_requests import open_pull_request
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.occasion import Occasion
from ci_parity.stages import deliver
from ci_parity.stages.deliver import Message
from ci_parity.stages.stored_report import RECORD, read_record


def publish_for(context: GitHubContext, inputs: ActionInputs, place: str) -> str:
    """Write the comment of the run that ended; return its address, empty where there is none.

    Raises:
        ConfigError: this is no run that another one's end started.
        EvidenceError: there is no pull request with that head any more.
        PublishError: GitHub refuses to say.
    """
    run = context.finished
    if run is None:
        raise ConfigError(
            "mode comment publishes the run that started this one",
            where="input mode",
            remedy="use it on: workflow_run, types: [completed]",
        )
    client = RestClient(context.api_url, context.token)
    number = open_pull_request(
        client, context.repository, run.head_owner, run.head_branch, run.head_sha
    )
    if number is None:
        click.echo(f"no open pull request has the head {run.head_sha[:12]}: nothing to comment on")
        return ""
    theirs = replace(
        context, run_id=run.id, run_attempt=run.attempt, run_page=run.id, head_sha=run.head_sha,
        pull_request=number,
    )  # fmt: skip
    return deliver.comment_on(_message(artifacts_of(inputs, context), run, theirs), place, theirs)


def _message(artifacts: Path, run: FinishedRun, context: GitHubContext) -> Message:
    """Return what the run has to say, or why nothing of it can be believed."""
    occasion = Occasion(commit=run.head_sha, run_url=context.run_url)
    try:
        return deliver.of_verdict(_verdict(artifacts, run), occasion)
    except CiParityError as error:
        return deliver.of_error(error, occasion)


def _verdict(artifacts: Path, run: FinishedRun) -> Verdict:
    folders = list(_folders(artifacts))
    if len(folders) != 1:
        raise EvidenceError(
            f"{len(folders)} reports came with the run, not one",
            where=artifacts.name,
            remedy="upload the report folder of the run as one artifact",
        )
    verdict = read_record(folders[0])
    if verdict.outcome is Outcome.PASS and run.conclusion != "success":
        raise EvidenceError(
            f"the report says pass, and its run ended as {run.conclusion!r}", where="workflow_run"
        )
    return verdict


def _folders(artifacts: Path) -> Iterator[Path]:
    """Yield the folders with a stored verdict, at the top or one below it."""
    if (artifacts / RECORD).is_file():
        yield artifacts
    if artifacts.is_dir():
        for folder in sorted(artifacts.iterdir()):
            if (folder / RECORD).is_file() and not folder.is_symlink():
                yield folder
