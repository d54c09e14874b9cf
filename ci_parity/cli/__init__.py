"""The command `ci-parity` and the action: words in, exit codes out.

0 pass, 1 fail, 3 inconclusive; 2 config, 4 evidence, 5 infrastructure, 6 publishing, 70 our bug.
Commands are imported when they are called: most of them need little of the rest.
"""

import importlib
import logging
import signal
import sys
import traceback
from collections.abc import Callable, Sequence

import click

from ci_parity import __version__
from ci_parity.base.errors import CiParityError
from ci_parity.base.process import kill_spawned

_COMMANDS = {
    "bundle": "ci_parity.cli.bundle",
    "cache": "ci_parity.cli.cache",
    "calibrate": "ci_parity.cli.calibrate",
    "check": "ci_parity.cli.check",
    "coverage": "ci_parity.cli.coverage",
    "detect": "ci_parity.cli.detect",
    "diff": "ci_parity.cli.diff",
    "doctor": "ci_parity.cli.doctor",
    "fixtures": "ci_parity.cli.fixtures",
    "gate": "ci_parity.cli.gate",
    "init": "ci_parity.cli.init",
    "judge": "ci_parity.cli.judge",
    "localise": "ci_parity.cli.localise",
    "log": "ci_parity.cli.log",
    "plan": "ci_parity.cli.plan",
    "publish": "ci_parity.cli.publish",
    "release": "ci_parity.cli.release",
    "rollback": "ci_parity.cli.rollback",
    "run": "ci_parity.cli.leg",
    "runner": "ci_parity.cli.runner",
    "store": "ci_parity.cli.store",
}
_INTERRUPTED = 130
_EXAMPLES = """\b
Examples:
  ci-parity init
  ci-parity check
  ci-parity diff model.onnx --candidate-runtime onnxruntime==1.32.0
"""


class _Commands(click.Group):
    """A group whose commands are modules, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name]).command
        return command


@click.group(
    cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="ci-parity")
def root() -> None:
    """Proof that a model still means the same thing after anything around it changed.

    Exit codes: 0 pass, 1 fail, 3 inconclusive; 2 config, 4 evidence, 5 infrastructure,
    6 publishing, 70 a bug of ours.
    """
    logging.basicConfig(level=logging.WARNING, format="ci-parity: %(message)s")


def main() -> None:
    """Run the command line; the console script."""
    # As an interrupt does, so that nothing we started outlives us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def action() -> int:
    """Run the container action; its inputs are in the environment."""
    from ci_parity.cli.action import run_kept_action

    return guarded(run_kept_action)


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code; every error is one message."""
    return guarded(lambda: _click(argv))


def _click(argv: Sequence[str]) -> int:
    try:
        code = root.main(args=list(argv), prog_name="ci-parity", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else 0


def guarded(work: Callable[[], int]) -> int:
    """Turn every way of ending into a message and an exit code."""
    try:
        return work()
    except CiParityError as error:
        click.echo(f"ci-parity: {error}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        kill_spawned()
        click.echo("ci-parity: interrupted", err=True)
        return _INTERRUPTED
    except Exception:  # noqa: BLE001 - the one place where a bug of ours ends
        click.echo(traceback.format_exc(), err=True)
        click.echo("ci-parity: this is a bug of ours; please report the lines above", err=True)
        return CiParityError.exit_code
