"""`ci-parity log trend`: what the log's timings say together, after a merge; advice alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import CiParityError, ConfigError
from ci_parity.base.words import percent
from ci_parity.cli import options
from ci_parity.cli.logs import open_configured
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    from ci_parity.records.release import LogLine
    from ci_parity.records.trend import CaseHistory, ChangePoint, Growth, TimedLine
    from ci_parity.release.store import ReleaseLog

_EXAMPLES = """\b
Examples:
  ci-parity log trend
  ci-parity log trend --log branch:ci-parity-log --deployment ocr-reader --margin 1
"""
_MARGIN = 2.0


@click.command(epilog=_EXAMPLES)
@options.root
@options.log
@click.option("--channel", default="", help="Only this channel.")
@click.option("--deployment", default="", help="Only this deployment.")
@click.option(
    "--margin",
    type=click.FloatRange(min=0, max=100),
    default=_MARGIN,
    show_default=True,
    metavar="PERCENT",
    help="What may add up without being told.",
)
def trend(root: Path, log: str, channel: str, deployment: str, margin: float) -> int:
    """Look for slow creep in the latencies that the log's validated lines recorded.

    Two questions to each case: do the ratios of neighbouring lines, none of which failed, add up;
    and does its time on one machine change at some line (at least ten timings; needs the extra
    `history`). It is advice: what is found changes no verdict and no exit code.

    Exit codes: 0 looked at, whatever was found; 3 there was nothing that could be looked at, or the
    extra is missing.
    """
    opened = open_configured(root, log)
    lines = opened.read()
    found = [
        one
        for one in _histories(lines)
        if channel in ("", one[0]) and deployment in ("", one[1])
    ]  # fmt: skip
    if not found:
        click.echo(f"{opened.label}: {len(lines)} records, and none that validated keeps a latency")
        return Outcome.INCONCLUSIVE.exit_code
    looked = False
    missing: ConfigError | None = None
    for channel_name, name, history in found:
        click.echo(f"{name} in {channel_name}: {_words(history)}")
        for line in creeping(history, margin / 100):
            click.echo(f"  {line}")
        looked |= len(history.chain) > 1
        try:
            for text, done in _points(history):
                looked |= done
                click.echo(f"  {text}")
        except ConfigError as error:
            missing = error
    if missing is not None:
        click.echo(f"no change points were looked for: {missing}", err=True)
    return (Outcome.PASS if looked and missing is None else Outcome.INCONCLUSIVE).exit_code


def creeping(history: "CaseHistory", margin: float) -> Iterator[str]:
    """Yield a sentence if a case grew slowly by more than a margin up to the newest line."""
    from ci_parity.stages.trend import crept

    growth = crept(history, margin)
    if growth is not None:
        yield _grown(growth)


def crept_up_to(newest: "LogLine", log: "ReleaseLog", margin: float) -> Iterator[str]:
    """Yield a sentence for each case that crept up to the line which was just written.

    A log that cannot be read again now costs nothing but this advice.
    """
    try:
        lines = log.read() if newest.entry.timings else ()
    except CiParityError as error:
        yield f"the log was not looked at for slow creep: {error}"
        return
    for channel, deployment, history in _histories(lines):
        entry = newest.entry
        ours = (channel, deployment) == (entry.channel, entry.deployment)
        if ours and history.lines[-1].seq == newest.seq:
            for sentence in creeping(history, margin):
                yield f"{_words(history)}: {sentence}"


def _histories(lines: "Sequence[LogLine]") -> "Iterator[tuple[str, str, CaseHistory]]":
    from ci_parity.stages.trend import histories

    for channel, name in dict.fromkeys((x.entry.channel, x.entry.deployment) for x in lines):
        for history in histories(lines, channel=channel, deployment=name):
            yield channel, name, history


def _words(history: "CaseHistory") -> str:
    count = len(history.lines)
    return (
        f"{history.variant} on {history.target}, case {history.case}: {count} "
        f"timing{'s' if count > 1 else ''}, the newest {len(history.chain)} against each other"
    )


def _grown(growth: "Growth") -> str:
    return (
        f"crept by {percent(growth.ratio)} [{percent(growth.low)}, {percent(growth.high)}] over "
        f"{growth.lines} records, from {_place(growth.first)} to {_place(growth.last)}"
    )


def _points(history: "CaseHistory") -> Iterator[tuple[str, bool]]:
    """Yield what to tell of each machine's timings, and whether they were looked at.

    Raises:
        ConfigError: the library is not installed.
    """
    from ci_parity.compare.latency.change_points import LEAST
    from ci_parity.stages.trend import by_machine, points

    machines = by_machine(history)
    enough = {name for name, lines in machines.items() if len(lines) >= LEAST}
    if not enough:
        most = max(map(len, machines.values()), default=0)
        yield f"change points: not asked, {most} timings on one machine; it takes {LEAST}", False
        return
    found = list(points(history))
    for point in found:
        yield _change(point), True
    if not found:
        yield "change points: none", True


def _change(point: "ChangePoint") -> str:
    beside = "not all of it was measured against each other"
    if point.ratio is not None:
        beside = f"measured against each other then: {percent(point.ratio)}"
    return (
        f"changed at {_place(point.line)} on {point.line.machine}: "
        f"{point.before_ms:.3g} ms before, {point.after_ms:.3g} ms since "
        f"({percent(point.after_ms / point.before_ms)}, p {point.p:.2g}); {beside}"
    )


def _place(line: "TimedLine") -> str:
    commit = f", commit {line.commit[:12]}" if line.commit else ""
    return f"record {line.seq} ({line.finished_at[:10]}{commit})"
