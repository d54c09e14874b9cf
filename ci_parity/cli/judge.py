"""`ci-parity judge`: kept observations under whatever policy, without running a model."""

import shlex
from pathlib import Path

import click

from ci_parity.cli import options
from ci_parity.cli.output import show_progress, write_json

_EXAMPLES = """\b
Examples:
  ci-parity check --keep-observations observed
  ci-parity judge observed
  ci-parity judge observed --config stricter.yml --json judged.json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@options.root
@options.config
@click.option(
    "--json", "json_path", default="",
    help="Write the report as JSON to a file, or - for standard output.",
)  # fmt: skip
@click.option(
    "--comment", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report as Markdown to a file.",
)  # fmt: skip
def command(folder: Path, root: Path, config: str, json_path: str, comment: Path | None) -> int:
    """Judge the observations kept in FOLDER by the policy of a config; nothing is run."""
    from ci_parity.base.files import write_atomic
    from ci_parity.cli.terminal import show
    from ci_parity.judging import JudgeOptions, judge_stored
    from ci_parity.report import json_v1, markdown
    from ci_parity.stages.report_folder import json_bytes

    words = ["ci-parity", "judge", str(folder)]
    words += ["--root", str(root)] if root != Path() else []
    words += ["--config", config] if config else []
    asked = JudgeOptions(folder=folder, root=root, config=config, reproduce=shlex.join(words))
    verdict = judge_stored(asked, show_progress())
    if json_path != "-":
        show(verdict)
    if json_path:
        write_json(json_bytes(json_v1.render_check(verdict)), json_path)
    if comment is not None:
        write_atomic(comment, markdown.comment(verdict)[0].encode())
    return verdict.outcome.exit_code
