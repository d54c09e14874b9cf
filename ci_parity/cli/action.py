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
from ci_parity.github import actions
from ci_parity.github.actions import ActionInputs, RecordMode
from ci_parity.github.context import GitHubContext, from_environment
from ci_parity.pipeline import Checked, CheckOptions, check
from ci_parity.records.outcome import Outcome
from ci_parity.report import markdown, text
from ci_parity.stages import deliver
from ci_parity.stages.report_folder import Origin, write_report

_RELEASING_EVENTS = {"workflow_dispatch", "schedule", "release", "repository_dispatch"}
_NO_VERDICT = {"verdict": Outcome.INCONCLUSIVE.value}


def run_action(environ: Mapping[str, str] | None = None) -> int:
    """Run the action in the environment the runner gave it; return the exit code."""
    environ = os.environ if environ is None else environ
    with _warnings_annotated():
        try:
            _outputs(environ, _NO_VERDICT)
            return _prepare_and_run(environ)
        except CiParityError as error:
            click.echo(actions.annotation("error", str(error), title="CI Parity"))
            _summary(environ, (_no_verdict(error),))
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
    try:
        return _run(environ, context, inputs, root, report_dir)
    except CiParityError as error:
        _comment((_no_verdict(error),), context, inputs)
        raise
    finally:
        hand_over(ours, owner_of=context.workspace)


def _no_verdict(error: CiParityError) -> str:
    message = str(error).replace("`", "'")
    return f"### ❌ CI Parity reached no verdict\n\n```\n{message}\n```\n"


def _comment(bodies: Sequence[str], context: GitHubContext, inputs: ActionInputs) -> str:
    if not inputs.comment:
        return ""
    place = f"{inputs.working_directory}/{inputs.config}".rstrip("/")
    return deliver.comment_on(bodies, place, context)


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
    report_dir: Path,
) -> int:  # fmt: skip
    options = CheckOptions(
        root=root, config=inputs.config, base=context.base_sha or "", no_base=_no_base(context),
        log=inputs.log, force=inputs.force, reproductions=report_dir,
    )  # fmt: skip
    done = check(options, PlainProgress())
    origin = Origin(
        commit=context.head_sha or "",
        run_url=context.run_url,
        run=f"{context.repository}/{context.run_id}",
    )
    report = write_report(done.verdict, done.manifest, report_dir, origin)
    click.echo(actions.neutralise(text.render(done.verdict)), nl=False)
    for line in actions.annotations(done.verdict.findings):
        click.echo(line)
    about = markdown.comment(done.verdict, commit=origin.commit, run_url=origin.run_url)
    url = _comment(about, context, inputs)
    _summary(environ, about)
    _outputs(
        environ,
        {
            "verdict": done.verdict.outcome.value,
            "report": report.relative_to(context.workspace).as_posix(),
            "comment_url": url,
            "bundle_digest": f"sha256:{done.verdict.bundle_digest}",
        },
    )
    return _record(done, context, inputs, origin)


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
        line = deliver.record(done.verdict, done.deployment, done.log, origin, datetime.now(UTC))
    except PublishError as error:
        click.echo(actions.annotation("error", str(error), title="Release log"))
        return code or error.exit_code
    click.echo(f"recorded: {line.entry.kind.value} as line {line.seq} of {done.log.label}")
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


def _summary(environ: Mapping[str, str], texts: tuple[str, ...]) -> None:
    path = environ.get("GITHUB_STEP_SUMMARY")
    if path:
        actions.write_summary(Path(path), texts)


def _outputs(environ: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    path = environ.get("GITHUB_OUTPUT")
    if path:
        actions.write_outputs(Path(path), outputs)
