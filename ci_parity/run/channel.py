"""How the near end of the worker protocol reaches a worker: three streams, an end, names of files.

`protocol` speaks through a `Channel` and knows nothing else of a worker. Here is the one to a
process of this machine; the one to a container lies in `run.container`.
"""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from ci_parity.base import process
from ci_parity.run.limits import Limits


class Channel(Protocol):
    """A worker that has been started.

    Reading `stdout` and `stderr` may block until `kill`, which ends both; so may writing `stdin`.
    """

    @property
    def stdin(self) -> IO[bytes]:
        """Where requests go."""
        ...

    @property
    def stdout(self) -> IO[bytes]:
        """Where answers come from."""
        ...

    @property
    def stderr(self) -> IO[bytes]:
        """Where everything else that it prints comes from."""
        ...

    @property
    def pid(self) -> int | None:
        """The process of this machine that it is, None where it is none."""
        ...

    def named(self, path: Path, *, written: bool) -> str:
        """Return what the worker calls a file or folder of ours, which it may be going to write.

        Raises:
            InfrastructureError: it cannot be brought to where the worker is.
        """
        ...

    def settle(self) -> None:
        """Bring what the last request wrote to where we named it.

        Raises:
            InfrastructureError: it cannot be brought.
        """
        ...

    def ending(self, timeout_s: float) -> str | None:
        """Return how the worker ended, in words, None when it does not end in `timeout_s`."""
        ...

    def kill(self) -> None:
        """End the worker and all it started; called once."""
        ...


class LocalProcess:
    """A worker that is a process of this machine.

    Raises:
        InfrastructureError: when it cannot be started.
    """

    def __init__(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path,
        memory_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self._process = process.spawn(argv, env=env, cwd=cwd)
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._limits = Limits(self._process.pid, cwd, memory_bytes)

    @property
    def pid(self) -> int | None:
        """The process, which leads a group of its own where there are such."""
        return self._process.pid

    def named(self, path: Path, *, written: bool) -> str:  # noqa: ARG002 - one file system for both
        """Return the path."""
        return str(path)

    def settle(self) -> None:
        """Do nothing: what was written is here."""

    def ending(self, timeout_s: float) -> str | None:
        """Return the exit status or the signal, None while it runs."""
        code = process.wait(self._process, timeout_s=timeout_s)
        if code is None:
            return None
        self._limits.lift()
        return self._limits.words or ending_words(code)

    def kill(self) -> None:
        """End the process group."""
        self._limits.lift()
        process.kill_tree(self._process)


def ending_words(code: int) -> str:
    """Return an exit status in words; a negative one is a signal, as `subprocess` has it."""
    return f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with status {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
