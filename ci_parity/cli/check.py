"""`ci-parity check`: the whole path, what the action runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.cli import options
from ci_parity.cli.output import write_json

if TYPE_CHECKING:
    from ci_parity.records.verdict import Verdict
    from ci_parity.stages.report_folder import Origin

_EXAMPLES = """\b
Examples:
  ci-parity check
  ci-parity check --base origin/main --report-dir out
  ci-parity check --record always --log file:release-log.jsonl
"""


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@options.base
@options.log
@click.option(
    "--record",
    type=click.Choice(["always", "never"]),
    default="never",
    show_default=True,
    help="Whether to append this verdict to the release log.",
)
@click.option("--force", is_flag=True, help="Run even when nothing changed.")
@click.option(
    "--report-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default="ci-parity-report",
    show_default=True,
    help="Folder for verdict.json, comment.md and bundle.json.",
)
@click.option(
    "--keep-observations",
    "keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for what was observed, so that `ci-parity judge` can judge it again.",
)
@click.option(
    "--json",
    "json_path",
    default="",
    help="Also write the JSON report to a file, or - for standard output.",
)
def command(
    root: Path, config: str, base: str, log: str, record: str, force: bool, report_dir: Path,
    keep: Path | None, json_path: str,
) -> int:  # fmt: skip
    """Find what changed, run the fixture set where it matters, judge, report."""
    from ci_parity.stages.shortcut import unchanged_by_git

    if not force and not log and keep is None:
        nothing = unchanged_by_git(root, config, base)
        if nothing is not None:
            _report(*nothing, root, report_dir, json_path)
            return nothing[0].outcome.exit_code
    return _check_all(root, config, base, log, record, force, report_dir, keep, json_path)


def _report(
    verdict: "Verdict", manifest: bytes, root: Path, report_dir: Path, json_path: str
) -> "Origin":
    from ci_parity.detect.git import Repository
    from ci_parity.report import json_v1, text
    from ci_parity.stages.report_folder import Origin, json_bytes, write_report

    origin = Origin(commit=Repository(folder=root).resolve("HEAD"))
    write_report(verdict, manifest, report_dir, origin)
    if json_path != "-":
        click.echo(text.render(verdict), nl=False)
        click.echo(f"  report: {report_dir}")
    if json_path:
        write_json(json_bytes(json_v1.render_check(verdict)), json_path)
    return origin


def _check_all(
    root: Path, config: str, base: str, log: str, record: str, force: bool, report_dir: Path,
    keep: Path | None, json_path: str,
) -> int:  # fmt: skip
    from ci_parity.base.errors import ConfigError, PublishError
    from ci_parity.cli.output import show_progress
    from ci_parity.pipeline import CheckOptions, check
    from ci_parity.stages import deliver

    wanted = CheckOptions(
        root=root, config=config, base=base, log=log, force=force, keep=keep,
        reproductions=report_dir,
    )  # fmt: skip
    done = check(wanted, show_progress())
    origin = _report(done.verdict, done.manifest, root, report_dir, json_path)
    if record == "always" and done.verdict.ran:
        if done.log is None:
            raise ConfigError(
                "there is no release log to record in",
                where="--record always",
                remedy="set release.log in the config, or pass --log file:PATH",
            )
        line = deliver.record(done.verdict, done.deployment, done.log, origin, datetime.now(UTC))
        click.echo(f"  recorded: {line.entry.kind.value} as line {line.seq} of {done.log.label}")
    if keep is not None and not done.verdict.ran:
        click.echo("  observations: none, because nothing ran")
    if done.not_kept:
        raise PublishError(f"the observations were not kept: {done.not_kept}", where=str(keep))
    return done.verdict.outcome.exit_code
