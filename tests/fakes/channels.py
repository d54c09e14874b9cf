"""Channels to workers that a test wants to be seen otherwise than they are."""

from collections.abc import Sequence
from pathlib import Path

from ci_parity.base.process import worker_environment
from ci_parity.run.channel import LocalProcess


class OutOfSight(LocalProcess):
    """A process of this machine that has no number here, as one in a container."""

    def __init__(self, argv: Sequence[str], cwd: Path) -> None:
        super().__init__(argv, env=worker_environment(), cwd=cwd)

    @property
    def pid(self) -> int | None:
        """None."""
        return None
