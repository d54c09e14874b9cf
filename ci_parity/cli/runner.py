"""`ci-parity runner`: help for those who write a runner of their own."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.cli.output import show_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_parity.run.conformance import Check

_EXAMPLES = """\b
Examples:
  ci-parity runner check -- ./target/release/my-runner
  ci-parity runner check --provider CUDAExecutionProvider -- python3 tools/runner.py --fp16
"""
_DETAIL_CHARS = 300


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Work with programs that speak the runner protocol."""


@command.command("check", epilog=_EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND [ARGUMENT]...")
@click.option(
    "--provider",
    default="CPUExecutionProvider",
    show_default=True,
    help="Execution provider to ask for, as a target would.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=60, show_default=True,
    help="Seconds that one request may take.",
)  # fmt: skip
def check(words: tuple[str, ...], provider: str, timeout: float) -> int:
    """Check that COMMAND keeps docs/runner-protocol.md; exit status 1 where it does not."""
    import tempfile

    from ci_parity.run.command import argv_of
    from ci_parity.run.conformance import RULES, Mark, check_runner

    argv = argv_of(words, (Path(),))
    with (
        tempfile.TemporaryDirectory(prefix="ci-parity-") as folder,
        show_progress().step(f"checking {shlex.join(words)[:100]}", len(RULES)) as step,
    ):
        checks = check_runner(
            argv, Path(folder), provider=provider, timeout_s=timeout, step=step
        )  # fmt: skip
    click.echo(_table(checks), nl=False)
    return int(any(item.mark is Mark.FAILED for item in checks))


def _table(checks: "Sequence[Check]") -> str:
    """Return a line for each check, what was seen and the remedy below it, and the totals."""
    from ci_parity.run.conformance import Mark

    width = max(len(item.name) for item in checks)
    lines = []
    for item in checks:
        lines.append(f"{item.name:<{width}}  {item.mark.value}")
        lines += [f"    seen:   {_one_line(item.detail)}"] if item.detail else []
        lines += [f"    remedy: {item.remedy}"] if item.remedy else []
    counts = [sum(item.mark is mark for item in checks) for mark in Mark]
    totals = ", ".join(f"{n} {mark.value}" for n, mark in zip(counts, Mark, strict=True))
    return "\n".join((*lines, totals, ""))


def _one_line(text: str) -> str:
    """Return what a runner said as one printable line."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= _DETAIL_CHARS else f"{shown[:_DETAIL_CHARS]} …"
