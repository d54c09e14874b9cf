"""`ci-parity calibrate`: what growth of latency this machine can show, and what would help."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_parity.cli.output import show_progress, write_json

if TYPE_CHECKING:
    from ci_parity.config.model import LatencyPolicy
    from ci_parity.records.latency import Calibration

_EXAMPLES = """\b
Examples:
  ci-parity calibrate
  ci-parity calibrate --pin 2-3 --trials 10
  ci-parity calibrate model.onnx --option intra_op_num_threads=2 --max-latency-regression 10%
"""


@click.command(epilog=_EXAMPLES)
@click.argument("model", required=False, type=click.Path(path_type=Path))
@click.option("--runtime", default="current", show_default=True, help="Runtime of both sides.")
@click.option(
    "--provider",
    default="CPUExecutionProvider",
    show_default=True,
    help="Execution provider of both sides.",
)
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="Session option of both sides."
)
@click.option("--pin", default="", metavar="CPUS", help="CPUs of both sides, such as 2-3.")
@click.option(
    "--trials",
    type=click.IntRange(2, 1000),
    default=5,
    show_default=True,
    help="How many complete decisions are made.",
)
@click.option(
    "--max-latency-regression",
    default="5%",
    show_default=True,
    metavar="PERCENT%",
    help="The growth that is to be enforced.",
)
@click.option(
    "--timeout",
    type=float,
    default=300,
    show_default=True,
    help="Seconds for loading, and for each run.",
)
@click.option(
    "--json", "json_path", default="", help="Write the figures to a file, or - for standard output."
)
def command(**given: Any) -> int:  # noqa: ANN401 - click hands options over by name
    """Time MODEL (a small one of ours by default) against itself, by the complete rule.

    The spread of sessions and the false alarms are kept in the cache; check and diff read them, and
    say where this machine cannot enforce what is asked. It is advice: the exit code is 0 unless
    something failed though nothing changed (1).
    """
    from ci_parity.cli.diff import session_options
    from ci_parity.config import load
    from ci_parity.records.codec import to_bytes
    from ci_parity.stages.calibrating import CalibrateOptions, calibrate

    speed = {"max_regression": given["max_latency_regression"], "pin": given["pin"], "cases": 1}
    policy = load.policy({"timeout_s": given["timeout"], "latency": speed})
    target = load.target(
        "both",
        {
            "runtime": given["runtime"],
            "provider": given["provider"],
            "session_options": session_options(given["options"]),
        },
    )
    asked = CalibrateOptions(
        target=target, policy=policy, trials=given["trials"], model=given["model"]
    )
    found, place = calibrate(asked, show_progress())
    if given["json_path"] != "-":
        for line in lines(found, policy.latency, place):
            click.echo(line)
    if given["json_path"]:
        write_json(to_bytes(found) + b"\n", given["json_path"])
    return 1 if found.false_alarms else 0


def lines(found: "Calibration", policy: "LatencyPolicy", place: Path) -> list[str]:
    """Return what is told of a calibration."""
    from ci_parity.compare.latency.runner import advice, can_enforce, shown_by

    asked, shown = 100 * policy.max_regression, 100 * shown_by(found, policy)
    enforces = can_enforce(found, policy)
    ends = f"{found.false_alarms} failed, {found.unsettled} settled nothing"
    spread = (
        f"sessions spread by {100 * found.session_sd:.2g} %; "
        f"+{shown:.2g} % is the smallest growth that shows in four of five runs"
    )
    told = [
        f"{found.host}: {found.median_ms:.3g} ms an inference"
        + (f", on CPUs {','.join(map(str, found.pinned))}" if found.pinned else ""),
        f"  {found.trials} decisions on identical code, {found.sessions} sessions: {ends}",
        f"  {spread}",
        f"  {'can' if enforces else 'cannot'} enforce {asked:g} %",
    ]
    told += [f"  seen: {condition}" for condition in found.conditions]
    told += [f"  try: {help_text}" for help_text in advice(found, policy) if not enforces]
    return [*told, f"  kept in {place}"]
