"""The near end of the worker protocol: one request, one answer, under limits.

It turns everything a worker can do wrong (die, hang, talk garbage) into a `WorkerError` with the
worker's last words; whether that is a finding is decided later.
"""

import collections
import contextlib
import json
import queue
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ci_parity.base.canonical import parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.records.observation import RunStatus
from ci_parity.run.channel import Channel, LocalProcess

MAX_ANSWER_BYTES = 16 * 1024 * 1024
_KEPT_STDERR_BYTES = 64 * 1024
_LAST_WORDS_LINES = 6
_LAST_WORDS_WIDTH = 300
_MAX_MESSAGE = 4000
_GRACE_S = 5.0
_WRITTEN = "folder"


class WorkerError(Exception):
    """A request that brought no answer; `alive` says whether the worker can take another.

    `carried` is false where the worker says that it could not hand a value to its runtime or take
    one from it: then the failure is none of the runtime's.
    """

    def __init__(
        self, status: RunStatus, message: str, *, alive: bool, carried: bool = True
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.alive = alive
        self.carried = carried


class Worker:
    """A running worker. A context manager: leaving it ends the worker and all it started."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._answers: queue.Queue[bytes] = queue.Queue(maxsize=2)
        self._stderr: collections.deque[bytes] = collections.deque()
        pumps = (self._write_lines, self._read_answers, self._read_stderr)
        self._pumps = tuple(threading.Thread(target=pump, daemon=True) for pump in pumps)
        self._stopping = threading.Event()
        for pump in self._pumps:
            pump.start()
        self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.kill()

    def request(self, verb: str, *, timeout_s: float, **payload: object) -> dict[str, Any]:
        """Ask and wait; a path in the request becomes what the worker calls it.

        Raises:
            WorkerError: the worker answered with an error, died, hung or broke the protocol.
        """
        if self._stopping.is_set():
            raise WorkerError(RunStatus.CRASH, f"no worker is left for '{verb}'", alive=False)
        self._requests += 1
        request = {"verb": verb, "id": self._requests, **self._named(payload)}
        self._lines.put(json.dumps(request).encode() + b"\n")
        try:
            raw = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.kill()
            message = f"no answer to '{verb}' within {timeout_s:g} s{self._last_words()}"
            raise WorkerError(RunStatus.TIMEOUT, message, alive=False) from None
        if not raw:
            raise self._death(verb, timeout_s)
        answer = self._decode(raw, verb)
        self._channel.settle()
        return answer

    @property
    def pid(self) -> int | None:
        """The process of this machine that it is, None where it is none."""
        return self._channel.pid

    def warnings(self) -> tuple[str, ...]:
        """Return what the worker printed to standard error so far, the last 64 KiB of it."""
        text = b"".join(self._stderr).decode("utf-8", "replace")
        return tuple(line for line in text.splitlines() if line.strip())

    def kill(self) -> None:
        """End the worker now, whoever waits for it; safe to call twice, and from any thread."""
        if not self._stopping.is_set():
            self._stopping.set()
            try:
                self._channel.kill()
            finally:
                self._lines.put(None)
                # What ends a request of another thread; a full queue has ended it already.
                with contextlib.suppress(queue.Full):
                    self._answers.put_nowait(b"")
        for pump in self._pumps:
            pump.join(timeout=_GRACE_S)
        for stream in (self._channel.stdin, self._channel.stdout, self._channel.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _named(self, payload: Mapping[str, object]) -> dict[str, object]:
        """Return a request with the worker's names for our paths; it writes to `folder` alone."""
        return {
            key: self._channel.named(part, written=key == _WRITTEN)
            if isinstance(part, Path)
            else part
            for key, part in payload.items()
        }

    def _decode(self, raw: bytes, verb: str) -> dict[str, Any]:
        try:
            answer = parse_strict(raw, where=f"answer to '{verb}'")
        except EvidenceError:
            answer = None
        ours = isinstance(answer, dict) and type(answer.get("ok")) is bool
        if not isinstance(answer, dict) or not ours or answer.get("id") != self._requests:
            self.kill()
            shown = raw[:200].decode("utf-8", "replace").strip()
            message = f"the answer to '{verb}' is not the protocol's: {shown!r}"
            raise WorkerError(RunStatus.PROTOCOL, message, alive=False)
        if answer.get("ok") is not True:
            message = str(answer.get("error", "no reason given"))[:_MAX_MESSAGE]
            carried = answer.get("not_carried") is not True
            raise WorkerError(RunStatus.ERROR, message, alive=True, carried=carried)
        return answer

    def _death(self, verb: str, timeout_s: float) -> WorkerError:
        how = self._channel.ending(min(timeout_s, _GRACE_S))
        if how is None:
            self.kill()
            message = f"the worker closed its output during '{verb}'{self._last_words()}"
            return WorkerError(RunStatus.PROTOCOL, message, alive=False)
        self.kill()
        message = f"the worker {how} during '{verb}'{self._last_words()}"
        return WorkerError(RunStatus.CRASH, message, alive=False)

    def _last_words(self) -> str:
        words = [line[:_LAST_WORDS_WIDTH] for line in self.warnings()[-_LAST_WORDS_LINES:]]
        return "; last words: " + " | ".join(words) if words else ""

    def _write_lines(self) -> None:
        """Write in a thread of its own: a worker that reads nothing must not hold us up."""
        stream = self._channel.stdin
        while (line := self._lines.get()) is not None:
            try:
                stream.write(line)
                stream.flush()
            except (OSError, ValueError):
                return

    def _read_answers(self) -> None:
        stream = self._channel.stdout
        while not self._stopping.is_set():
            try:
                line = stream.readline(MAX_ANSWER_BYTES)
            except (OSError, ValueError):
                line = b""
            while not self._stopping.is_set():
                with contextlib.suppress(queue.Full):
                    self._answers.put(line, timeout=0.2)
                    break
            if not line:
                return

    def _read_stderr(self) -> None:
        stream = self._channel.stderr
        kept = 0
        while chunk := _read_some(stream):
            self._stderr.append(chunk)
            kept += len(chunk)
            while kept > _KEPT_STDERR_BYTES and len(self._stderr) > 1:
                kept -= len(self._stderr.popleft())


class WorkerProcess(Worker):
    """A worker that is a process of this machine.

    Raises:
        InfrastructureError: when it cannot be started.
    """

    def __init__(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path,
        memory_bytes: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(LocalProcess(argv, env=env, cwd=cwd, memory_bytes=memory_bytes))


def _read_some(stream: Any) -> bytes:  # noqa: ANN401 - a BufferedReader, typed as IO[bytes]
    try:
        chunk: bytes = stream.read1(8192)
    except (OSError, ValueError):
        return b""
    return chunk
