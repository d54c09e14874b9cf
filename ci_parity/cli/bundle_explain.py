"""`ci-parity bundle explain`: one case of a bundle, from raw input to verdict."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.cli import options

if TYPE_CHECKING:
    from ci_parity.records.explanation import Explanation

_EXAMPLES = """\b
Examples:
  ci-parity bundle explain release.tar typical
  ci-parity bundle explain release.tar typical --target edge --digest sha256:DIGEST
  ci-parity bundle explain release.tar typical --json -
"""


@click.command(epilog=_EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("case")
@click.option(
    "--target",
    default="",
    help="Target to run on; the one the others are compared with by default.",
)
@click.option(
    "--digest", default="", metavar="sha256:HEX",
    help="The digest that the bundle must have, from the release log or another trusted place.",
)  # fmt: skip
@options.json_report
def explain(path: Path, case: str, target: str, digest: str, json_path: str) -> int:
    """Walk through one case: raw input, preprocessing, runtime, outputs, limits, verdict.

    A verified private copy is what runs; the exit code is the verdict's.
    """
    from ci_parity.base.canonical import canonical_bytes
    from ci_parity.cli.output import show_progress, write_json
    from ci_parity.config.discover import find_deployment
    from ci_parity.release.bundle.extract import extract_bundle
    from ci_parity.report import explain_v1
    from ci_parity.stages.explaining import explain_case

    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        folder = Path(scratch) / "bundle"
        facts = extract_bundle(path, folder, digest).facts
        deployment = find_deployment(folder, facts.config)
        said = explain_case(deployment, case, target, Path(scratch), show_progress())
    if json_path != "-":
        _show(said)
    if json_path:
        write_json(canonical_bytes(explain_v1.render(said)) + b"\n", json_path)
    return said.outcome.exit_code


def _show(said: "Explanation") -> None:
    """Print an explanation, with headings in colour on a terminal."""
    import os

    from ci_parity.cli.terminal import columns_of
    from ci_parity.report.explained import render, sections

    size = shutil.get_terminal_size(fallback=(0, 0)).columns
    if not columns_of(os.environ, terminal=sys.stdout.isatty(), size=size):
        click.echo(render(said), nl=False)
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from ci_parity.cli.terminal import STYLES

    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=False)
    for section in sections(said):
        style = STYLES[section.outcome] if section.outcome is not None else "bold"
        console.print(Text(section.title, style=style))
        for line in section.lines:
            words = line.lstrip(" ")
            indent = 3 + len(line) - len(words)
            shown = Text(words, overflow="fold")
            console.print(Padding(shown, (0, 0, 0, indent), expand=False))
        console.print()
