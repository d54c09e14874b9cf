"""The script of a reproduction, run as a maintainer would: in an environment with its runtime."""

from collections.abc import Sequence
from pathlib import Path

from ci_parity.base.process import Completed, run, worker_environment
from ci_parity.run.environments import provide

LIMIT_S = 120.0


def run_script(folder: Path, requirement: str, cache: Path, *words: str) -> Completed:
    """Run the script of a reproduction in an environment of its own."""
    python = provide(requirement, cache=cache).python
    return run(
        [python, "reproduce.py", *words], env=worker_environment(), timeout_s=LIMIT_S, cwd=folder
    )


def lines(done: Completed) -> Sequence[str]:
    """Return what the script said."""
    return done.stdout.decode().splitlines()
