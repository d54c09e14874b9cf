"""Options that several commands share, each with one wording."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ci_parity.records.plan import Plan

root = click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="The repository, or the folder of one deployment in it.",
)
config = click.option(
    "--config", default="", help="Config file below the root; ci-parity.yml by default."
)
base = click.option(
    "--base",
    default="",
    metavar="REVISION",
    help="Commit to compare with when the release log has no validated line.",
)
base_branch = click.option(
    "--base",
    default="",
    metavar="REVISION",
    help="The base branch, whose required targets count too; the default branch by default.",
)
dims = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    help="Size of a symbolic dimension of generated inputs.",
)
log = click.option(
    "--log",
    default="",
    metavar="SPEC",
    help="Release log, branch:NAME, s3://BUCKET/PREFIX or file:PATH, "
    "instead of the configured one.",
)
record = click.option(
    "--record",
    type=click.Choice(["always", "never"]),
    default="never",
    show_default=True,
    help="Whether to append this verdict to the release log.",
)
report_dir = click.option(
    "--report-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default="ci-parity-report",
    show_default=True,
    help="Folder for verdict.json, report.html, comment.md, bundle.json and what `publish` reads.",
)
json_report = click.option(
    "--json",
    "json_path",
    default="",
    help="Also write the JSON report to a file, or - for standard output.",
)
plan_file = click.option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    help="The plan, as `ci-parity plan --json` wrote it.",
)
run_id = click.option(
    "--run-id",
    default="",
    help="What all jobs of this run share, and no other run: a pipeline's number.",
)

_FORMS = {
    "junit": "JUnit XML, for Jenkins, GitLab, Azure and Buildkite.",
    "sarif": "SARIF 2.1.0: findings at the files they are about.",
    "prometheus": "Prometheus text, for node_exporter's textfile collector.",
    "badge": "JSON of a shields.io endpoint badge.",
    "markdown": "The pull-request comment.",
    "html": "A page that is readable offline.",
}
_DIRECT = ("junit", "sarif", "prometheus", "badge", "html")
Command = TypeVar("Command", bound=Callable[..., Any])


def _form(name: str) -> Callable[[Command], Command]:
    return click.option(
        f"--{name}", type=click.Path(path_type=Path, dir_okay=False), help=_FORMS[name]
    )


def report_files(command: Command) -> Command:
    """Add the options of the forms that a command writes beside its own report."""
    return _with(command, _DIRECT)


def all_report_files(command: Command) -> Command:
    """Add the options of every form there is."""
    return _with(command, tuple(_FORMS))


def _with(command: Command, names: Sequence[str]) -> Command:
    for name in reversed(names):
        command = _form(name)(command)
    return command


def asked_files(given: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files that were asked for, by the name of their form."""
    return {name: given[name] for name in _FORMS if given.get(name) is not None}


def read_plan_file(path: Path) -> "Plan":
    """Read a plan; one that is none is refused with a remedy."""
    from ci_parity.base.errors import EvidenceError
    from ci_parity.report.plan_v1 import read_plan

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"the plan cannot be read: {error}", where=str(path)) from error
    return read_plan(text)
