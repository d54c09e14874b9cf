"""Telling a person how far long work has come: a bar on a terminal, plain lines in CI."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

_PLAIN_INTERVAL_S = 10.0


class Step(Protocol):
    """One piece of long work under way."""

    def advance(self, note: str = "") -> None:
        """Say that one more unit is done."""


class Progress(Protocol):
    """Where long work is announced."""

    def step(self, title: str, total: int) -> AbstractContextManager[Step]:
        """Announce `total` units of work called `title`."""


class PlainProgress:
    """Lines on standard error, at most one every ten seconds a step, as CI logs want them."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """Announce a step, its occasional progress, and how long it took."""
        start = time.perf_counter()
        _say(f"{title} …")
        yield _PlainStep(title, total)
        _say(f"{title}: done in {time.perf_counter() - start:.1f} s")


class _PlainStep:
    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._done = 0
        self._last = time.perf_counter()

    def advance(self, note: str = "") -> None:
        self._done += 1
        now = time.perf_counter()
        if now - self._last >= _PLAIN_INTERVAL_S:
            self._last = now
            _say(f"{self._title}: {self._done} of {self._total} {note}".rstrip())


def _say(line: str) -> None:
    sys.stderr.write(f"ci-parity: {line}\n")
    sys.stderr.flush()


class RichProgress:
    """A live bar for each step, on a terminal."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """Show a bar until the step is over."""
        from rich.console import Console
        from rich.progress import Progress as Bars

        with Bars(console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(title, total=total)

            class Bar:
                def advance(self, note: str = "") -> None:
                    bars.update(task, advance=1, description=f"{title} {note}".rstrip())

            yield Bar()


class SilentProgress:
    """No output at all."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:  # noqa: ARG002 - silence needs none
        """Do nothing, visibly."""
        yield _SilentStep()


class _SilentStep:
    def advance(self, note: str = "") -> None:
        pass


def for_stream(*, interactive: bool) -> Progress:
    """Return the bars for a terminal, the lines for anything else."""
    return RichProgress() if interactive else PlainProgress()
