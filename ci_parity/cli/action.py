"""The container action: inputs in, then `check`, report, comment, summary, outputs, log line.

The order matters: until there is a verdict the outputs say inconclusive, even if we are killed, and
the verdict is in the report folder before anything is published. A failed delivery is an
annotation, not a verdict.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from ci_parity.base.errors import CiParityError, ConfigError, PublishError
from ci_parity.base.files import hand_over
from ci_parity.base.progress import PlainProgress
from ci_parity.cli import action_comment, action_fanout, action_kept, action_release
from ci_parity.cli.log_trend import crept_up_to
from ci_parity.github import actions
from ci_parity.github.actions import ActionInputs, Mode, RecordMode
from ci_parity.github.annotations import annotations
from ci_parity.github.context import GitHubContext, from_environment
from ci_parity.pipeline import Checked, CheckOptions, check
from ci_parity.records.outcome import Outcome
from ci_parity.records.places import Places
from ci_parity.report import text
from ci_parity.report.occasion import Occasion
from ci_parity.report.words import failures, warnings
from ci_parity.stages import deliver
from ci_parity.stages.deliver import Announcement, Message
from ci_parity.stages.report_folder import Origin, write_report
from ci_parity.stages.stored_report import drop_record
from ci_parity.stages.strangers import refuse_strangers_code

_RELEASING_EVENTS = {"workflow_dispatch", "schedule", "release", "repository_dispatch"}
_NO_VERDICT = {"verdict": Outcome.INCONCLUSIVE.value}
# Modes that reach no verdict of their own: a gate does, or did before them.
_PARTS = {Mode.PLAN, Mode.RUN, Mode.COMMENT} | action_release.MODES


def run_kept_action(environ: Mapping[str, str] | None = None) -> int:
    """Run the action where its cache outlives the step, if that can be had; else as `run_action`.

    Where the runner's variables cannot be read, the plain run says so. What publishes for a fork
    runs no model and may write: it has no use for what a pull request has cached.
    """
    environ = os.environ if environ is None else environ
    try:
        inputs = actions.read_inputs(environ)
        records = _wanted(_context(environ), inputs.record)
    except CiParityError:
        return run_action(environ)
    if inputs.mode is Mode.COMMENT:
        return run_action(environ)
    with _warnings_annotated():
        code = action_kept.run_kept(environ, job=inputs.job_container, records=records)
    if code is not None:
        return code
    try:
        return run_action(environ)
    finally:
        with _warnings_annotated():
            action_kept.tidy_kept(environ)


def run_action(environ: Mapping[str, str] | None = None) -> int:
    """Run the action in the environment the runner gave it; return the exit code."""
    environ = os.environ if environ is None else environ
    with _warnings_annotated():
        try:
            _outputs(environ, _NO_VERDICT)
            return _prepare_and_run(environ)
        except CiParityError as error:
            click.echo(actions.annotation("error", str(error), title="CI Parity"))
            _summary(environ, deliver.of_error(error, Occasion()).summary)
            _outputs(environ, _NO_VERDICT)
            return error.exit_code


def _prepare_and_run(environ: Mapping[str, str]) -> int:
    context = _context(environ)
    inputs = actions.read_inputs(environ)
    context = replace(context, token=inputs.github_token, workspace=context.workspace.resolve())
    root = _root(context, inputs)
    report_dir = root / inputs.report_dir
    folders = (*reversed(report_dir.parents), report_dir)
    ours = next((folder for folder in folders if not folder.exists()), report_dir)
    drop_record(report_dir)
    try:
        name = "" if inputs.mode in _PARTS else inputs.commit_status
        with deliver.announced(name, context) as status:
            return _run(environ, context, inputs, root, report_dir, status)
    except CiParityError as error:
        _comment(deliver.of_error(error, _occasion(context)), context, inputs)
        raise
    except Exception as error:
        ours_to_mend = CiParityError(
            f"a bug of ours: {type(error).__name__}",
            remedy="report the last lines of the job's log",
        )
        _comment(deliver.of_error(ours_to_mend, _occasion(context)), context, inputs)
        raise
    finally:
        hand_over(ours, owner_of=context.workspace)


def _occasion(context: GitHubContext) -> Occasion:
    return Occasion(commit=context.head_sha or "", run_url=context.run_url)


def _comment(message: Message, context: GitHubContext, inputs: ActionInputs) -> str:
    if not inputs.comment or inputs.mode in _PARTS:
        return ""
    return deliver.comment_on(message, _place(inputs), context)


def _place(inputs: ActionInputs) -> str:
    """Return what tells the comments of two deployments apart."""
    return f"{inputs.working_directory}/{inputs.config}".rstrip("/")


@contextmanager
def _warnings_annotated() -> Iterator[None]:
    """Show what our modules warn of beside the run, in one piece and escaped."""
    logger, handler = logging.getLogger("ci_parity"), _Annotations(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Annotations(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(actions.annotation("warning", record.getMessage(), title="CI Parity"))


def _run(
    environ: Mapping[str, str], context: GitHubContext, inputs: ActionInputs, root: Path,
    report_dir: Path, status: Announcement,
) -> int:  # fmt: skip
    if inputs.mode is Mode.COMMENT:
        url = action_comment.publish_for(context, inputs, _place(inputs))
        _outputs(environ, {"comment_url": url})
        return 0
    refuse_strangers_code(context, root)
    options = CheckOptions(
        root=root, config=inputs.config, base=context.base_sha or "", no_base=_no_base(context),
        log=inputs.log, force=inputs.force, reproductions=report_dir,
        records=_wanted(context, inputs.record),
    )  # fmt: skip
    if inputs.mode in action_release.MODES:
        ended, outputs = action_release.put_out(inputs, context, root)
        for line in action_release.refusals(ended, inputs.mode):
            click.echo(line)
        _summary(environ, [action_release.told(ended, inputs.mode)])
        _outputs(environ, outputs)
        return ended.outcome.exit_code
    if inputs.mode is Mode.PLAN:
        _outputs(environ, action_fanout.plan_outputs(options, inputs, context))
        return 0
    if inputs.mode is Mode.RUN:
        _outputs(environ, action_fanout.run_outputs(options, inputs, context, report_dir))
        return 0
    if inputs.mode is Mode.GATE:
        done = action_fanout.gated(options, inputs, context)
    else:
        done = check(options, PlainProgress())
    return _deliver(environ, done, context, inputs, report_dir, status)


def _deliver(
    environ: Mapping[str, str], done: Checked, context: GitHubContext, inputs: ActionInputs,
    report_dir: Path, status: Announcement,
) -> int:  # fmt: skip
    origin = Origin(
        commit=context.head_sha or "",
        run_url=context.run_url,
        run=f"{context.repository}/{context.run_id}",
    )
    report = write_report(done.verdict, done.manifest, report_dir, origin)
    click.echo(actions.neutralise(text.render(done.verdict)), nl=False)
    found = (*failures(done.verdict), *warnings(done.verdict))
    for line in annotations(found, Places(done.verdict).of):
        click.echo(line)
    occasion = replace(_occasion(context), proof=done.proof, log=done.log.label if done.log else "")
    message = deliver.of_verdict(done.verdict, occasion, always=done.deployment.report.always)
    url = _comment(message, context, inputs)
    _summary(environ, message.summary)
    _outputs(
        environ,
        {
            "verdict": done.verdict.outcome.value,
            "report": report.relative_to(context.workspace).as_posix(),
            "comment_url": url,
            "bundle_digest": f"sha256:{done.verdict.bundle_digest}",
        },
    )
    code = _record(done, context, inputs, origin)
    status.conclude(done.verdict, code)
    return code


def _no_base(context: GitHubContext) -> str:
    """Say why this event has no base commit to compare with; empty where it has one."""
    if context.forced:
        return "the branch was force-pushed: what it replaced is no baseline"
    if context.base_sha is None:
        return f"the event {context.event_name} names no base commit"
    return ""


def _record(done: Checked, context: GitHubContext, inputs: ActionInputs, origin: Origin) -> int:
    """Append the log line where this event calls for one; a pass that is not recorded is exit 6."""
    code = done.verdict.outcome.exit_code
    if done.log is None or not done.verdict.ran or not _wanted(context, inputs.record):
        if inputs.record is RecordMode.ALWAYS and done.log is None:
            raise ConfigError(
                "record is 'always', but there is no release log",
                where="input record",
                remedy="set release.log in ci-parity.yml, or the input log",
            )
        return code
    try:
        line = deliver.record(
            done.verdict, done.deployment, done.log, origin, datetime.now(UTC), done.shared
        )
    except PublishError as error:
        click.echo(actions.annotation("error", str(error), title="Release log"))
        return code or error.exit_code
    click.echo(f"recorded: {line.entry.kind.value} as record {line.seq} of {done.log.label}")
    for sentence in crept_up_to(line, done.log, done.deployment.policy.latency.margin):
        click.echo(actions.annotation("warning", sentence, title="Slow creep"))
    return code


def _wanted(context: GitHubContext, mode: RecordMode) -> bool:
    """Whether this event writes to the log: never a pull request unless told to."""
    if mode is not RecordMode.AUTO:
        return mode is RecordMode.ALWAYS
    if context.event_name in _RELEASING_EVENTS:
        return True
    released = context.ref == f"refs/heads/{context.default_branch}"
    return context.event_name == "push" and (released or context.ref.startswith("refs/tags/"))


def _context(environ: Mapping[str, str]) -> GitHubContext:
    context = from_environment(environ)
    if context is None:
        raise ConfigError(
            "this is the entry of the GitHub Action, and GITHUB_ACTIONS is not set",
            where="environment",
            remedy="outside GitHub Actions run `ci-parity check`",
        )
    return context


def _root(context: GitHubContext, inputs: ActionInputs) -> Path:
    root = (context.workspace / inputs.working_directory).resolve()
    report = (root / inputs.report_dir).resolve()
    for name, path in (("working_directory", root), ("report_dir", report)):
        if not path.is_relative_to(context.workspace):
            raise ConfigError(f"{path} is outside the workspace", where=f"input {name}")
    if not root.is_dir():
        raise ConfigError(
            f"no such folder: {inputs.working_directory}",
            where="input working_directory",
            remedy="check out the repository first: uses: actions/checkout",
        )
    return root


def _summary(environ: Mapping[str, str], texts: Sequence[str]) -> None:
    path = environ.get("GITHUB_STEP_SUMMARY")
    if path:
        actions.write_summary(Path(path), texts)


def _outputs(environ: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    path = environ.get("GITHUB_OUTPUT")
    if path:
        actions.write_outputs(Path(path), outputs)
