"""`ci-parity check`: the whole path, what the action runs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.cli import options
from ci_parity.cli.output import files_in_any_case, write_files, write_json

if TYPE_CHECKING:
    from ci_parity.pipeline import Checked
    from ci_parity.records.verdict import Verdict
    from ci_parity.stages.report_folder import Origin

_EXAMPLES = """\b
Examples:
  ci-parity check
  ci-parity check --base origin/main --report-dir out
  ci-parity check --record always --log file:release-log.jsonl
  ci-parity check --junit parity.xml --sarif parity.sarif
"""


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@options.base
@options.log
@options.record
@click.option("--force", is_flag=True, help="Run even when nothing changed.")
@options.report_dir
@click.option(
    "--keep-observations",
    "keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for what was observed, so that `ci-parity judge` can judge it again.",
)
@options.json_report
@options.report_files
def command(
    root: Path, config: str, base: str, log: str, record: str, force: bool, report_dir: Path,
    keep: Path | None, json_path: str, **forms: Path | None,
) -> int:  # fmt: skip
    """Find what changed, run the fixture set where it matters, judge, report."""
    from ci_parity.stages.shortcut import unchanged_by_git
    from ci_parity.stages.stored_report import drop_record

    drop_record(report_dir)
    files = options.asked_files(forms)
    if not force and not log and keep is None:
        nothing = unchanged_by_git(root, config, base)
        if nothing is not None:
            _report(*nothing, root, report_dir, json_path)
            return write_files(nothing[0], files)
    return _check_all(root, config, base, log, record, force, report_dir, keep, json_path, files)


def _report(
    verdict: "Verdict", manifest: bytes, root: Path, report_dir: Path, json_path: str
) -> "Origin":
    from ci_parity.cli.terminal import show
    from ci_parity.detect.git import Repository
    from ci_parity.report import json_v1
    from ci_parity.stages.report_folder import Origin, json_bytes, write_report

    origin = Origin(commit=Repository(folder=root).resolve("HEAD"))
    write_report(verdict, manifest, report_dir, origin)
    if json_path != "-":
        show(verdict)
        click.echo(f"  report: {report_dir}")
    if json_path:
        write_json(json_bytes(json_v1.render_check(verdict)), json_path)
    return origin


def _check_all(
    root: Path, config: str, base: str, log: str, record: str, force: bool, report_dir: Path,
    keep: Path | None, json_path: str, files: Mapping[str, Path],
) -> int:  # fmt: skip
    from ci_parity.base.errors import PublishError
    from ci_parity.cli.output import show_progress
    from ci_parity.pipeline import CheckOptions, check

    wanted = CheckOptions(
        root=root, config=config, base=base, log=log, force=force, keep=keep,
        reproductions=report_dir, records=record == "always",
    )  # fmt: skip
    with files_in_any_case(files):
        done = check(wanted, show_progress())
    code = deliver_verdict(done, root, report_dir, json_path, record, files)
    if keep is not None and not done.verdict.ran:
        click.echo("  observations: none, because nothing ran")
    if done.not_kept:
        raise PublishError(f"the observations were not kept: {done.not_kept}", where=str(keep))
    return code


def deliver_verdict(
    done: "Checked", root: Path, report_dir: Path, json_path: str, record: str,
    files: Mapping[str, Path],
) -> int:  # fmt: skip
    """Print and write a verdict, record it where that is asked for; return the exit code.

    Raises:
        ConfigError: there is no release log to record in.
        PublishError: the log did not take the line.
    """
    from ci_parity.base.errors import ConfigError
    from ci_parity.stages import deliver

    origin = _report(done.verdict, done.manifest, root, report_dir, json_path)
    code = write_files(done.verdict, files)
    if record == "always" and done.verdict.ran:
        if done.log is None:
            raise ConfigError(
                "there is no release log to record in",
                where="--record always",
                remedy="set release.log in the config, or pass --log, such as file:PATH",
            )
        line = deliver.record(
            done.verdict, done.deployment, done.log, origin, datetime.now(UTC), done.shared
        )
        click.echo(f"  recorded: {line.entry.kind.value} as record {line.seq} of {done.log.label}")
    return code
