"""One system over many small models, each loaded, run once and let go, by several workers at once.

Every worker is a process of its own. One that dies, hangs or answers garbage costs its errand
alone: a fresh one takes the next. Where a worker died, the errand is put once more to a fresh one,
since what ran before may be to blame. Results are handed on one by one, so that neither memory nor
disk grows with their number; a worker that has grown is replaced. Nothing is judged here.
"""

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ci_parity.base.errors import CiParityError, InfrastructureError
from ci_parity.config.systems import PLAIN_CPU
from ci_parity.records.observation import CaseInputs, CaseRun, RunStatus
from ci_parity.records.values import ValueRecord, leaves
from ci_parity.run.execute import (
    Job,
    Ports,
    greet,
    load_model,
    providers_in,
    run_case,
    start,
)
from ci_parity.run.latency.outside import Outside
from ci_parity.run.limits import machine_bytes
from ci_parity.run.protocol import Worker, WorkerError

MAX_WORKERS = 8
# Workers that are lost one after another, with nothing answered in between, before all is given up;
# a hang has cost a whole time limit each time.
_PATIENCE = 20
_COST_OF_TIMEOUT = 7
# Runtimes keep something of every model they have seen.
_ROOM_BYTES = 2 * 1024**3
_LOOK_EVERY = 32
_LOSSES = frozenset({RunStatus.CRASH, RunStatus.PROTOCOL, RunStatus.TIMEOUT})
# Results that wait to be taken, for each worker.
_AHEAD = 4
_POLL_S = 0.5
# Importing a runtime is no part of any errand.
_START_S = 120.0
_STARTS = 3
_END_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One model and what it is given; `folder` holds the files of `inputs`.

    One that `only_loads` is not run, and brings no outputs.
    """

    name: str
    model: Path
    folder: Path
    inputs: tuple[ValueRecord, ...]
    outputs: tuple[str, ...]
    only_loads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of an errand: its run, whose files lie in `folder`, and the providers in use.

    `crashed` says what became of a worker that died on it, where a fresh one did not; `given_up`
    that it was not tried, because of what became of others.
    """

    errand: Errand
    run: CaseRun
    folder: Path
    providers: tuple[str, ...] = ()
    crashed: str = ""
    given_up: bool = False

    def discard(self) -> None:
        """Delete the files of its outputs."""
        for record in leaves(self.run.outputs):
            if record.file:
                (self.folder / record.file).unlink(missing_ok=True)


class Crew:
    """Workers that share errands out among themselves; leaving it ends all of them.

    Iterating gives the results as they come, in no order, and raises `InfrastructureError` where no
    worker starts at all.
    """

    def __init__(
        self, job: Job, errands: Sequence[Errand], folder: Path, *, size: int, shown: Path,
        memory_bytes: int | None = None,
    ) -> None:  # fmt: skip
        """Run errands as `job` runs its own model, which is not run.

        Args:
            job: the system; its time limit is that of an errand.
            errands: have distinct names.
            folder: where outputs go, a folder for each worker.
            size: how many workers there are at most.
            shown: the folder below which all errands' files lie.
            memory_bytes: what all workers together may take here, None for half of the machine; an
                image has its own.
        """
        self._limit_s = job.timeout_s
        self._waiting = deque(enumerate(errands))
        self._count = len(errands)
        self._size = max(1, min(size, self._count))
        self._done: queue.Queue[Done | CiParityError] = queue.Queue(self._size * _AHEAD)
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._spent = 0
        self._lost = 0
        each_bytes = (memory_bytes or machine_bytes() // 2) // self._size
        self._seats = [
            _Seat(job, folder / f"w{number}", shown, each_bytes, self._ended)
            for number in range(self._size)
        ]
        self._threads = [
            threading.Thread(target=self._serve, args=(seat,), daemon=True) for seat in self._seats
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._ended.set()
        for seat in self._seats:
            seat.interrupt()
        for thread in self._threads:
            thread.join(timeout=self._limit_s + _END_S)

    def __iter__(self) -> Iterator[Done]:
        for _ in range(self._count):
            done = self._next()
            if isinstance(done, CiParityError):
                raise done
            yield done

    def _next(self) -> Done | CiParityError:
        while True:
            alive = any(thread.is_alive() for thread in self._threads)
            try:
                return self._done.get(timeout=_POLL_S)
            except queue.Empty:
                if not alive:
                    raise CiParityError("a worker's thread has ended without a result") from None

    def _serve(self, seat: "_Seat") -> None:
        """Take errands until none waits; the work of one thread."""
        try:
            seat.folder.mkdir(parents=True, exist_ok=True)
            while not self._ended.is_set():
                try:
                    number, errand = self._waiting.popleft()
                except IndexError:
                    return
                self._hand_on(self._result(seat, number, errand))
        except CiParityError as error:
            self._hand_on(error)
        except OSError as error:
            words = f"a worker's folder fails: {error.strerror or error}"
            self._hand_on(InfrastructureError(words, where=str(seat.folder)))
        finally:
            seat.leave()

    def _result(self, seat: "_Seat", number: int, errand: Errand) -> Done:
        if self._spent >= _PATIENCE:
            words = f"given up after {self._lost} workers died or hung one after another"
            return replace(seat.told(errand, RunStatus.NOT_RUN, words), given_up=True)
        done, lost = seat.put(errand, f"c{number}")
        with self._lock:
            if lost:
                self._lost += lost
                self._spent += _COST_OF_TIMEOUT if done.run.status is RunStatus.TIMEOUT else lost
            else:
                self._spent = 0
        return done

    def _hand_on(self, result: Done | CiParityError) -> None:
        while not self._ended.is_set():
            try:
                self._done.put(result, timeout=_POLL_S)
            except queue.Full:
                continue
            return


class _Seat:
    """One worker at a time, replaced where it is lost or has grown."""

    def __init__(
        self, job: Job, folder: Path, shown: Path, memory_bytes: int, ended: threading.Event
    ) -> None:
        self._job = job
        self._ended = ended
        self._memory_bytes = memory_bytes
        self.folder = folder
        self._shown = shown
        self._worker: Worker | None = None
        self._ran = 0

    def put(self, errand: Errand, stem: str) -> tuple[Done, int]:
        """Run an errand; return what came of it, and how many workers that cost."""
        fresh = self._worker is None
        done = self._try(errand, stem)
        if done.run.status not in _LOSSES or self._worker is not None:
            return done, 0
        if fresh or done.run.status is RunStatus.TIMEOUT:
            return done, 1
        again = self._try(errand, stem)
        if again.run.status is RunStatus.OK:
            return replace(again, crashed=done.run.message), 1
        return again, 2

    def told(self, errand: Errand, status: RunStatus, message: str) -> Done:
        """Return an errand that brought no outputs."""
        run = CaseRun(case=errand.name, status=status, message=message)
        return Done(errand=errand, run=run, folder=self.folder)

    def leave(self) -> None:
        """End the worker; the next errand gets a fresh one."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def interrupt(self) -> None:
        """End the worker amid an errand, from another thread; `ended` is set by then."""
        worker = self._worker
        if worker is not None:
            worker.kill()

    def _try(self, errand: Errand, stem: str) -> Done:
        ports = Ports(inputs=tuple(r.name for r in errand.inputs), outputs=errand.outputs)
        job = replace(self._job, model=errand.model, ports=ports)
        case = CaseInputs(case=errand.name, inputs=errand.inputs)
        worker = self._started(job)
        start_s = time.monotonic()
        try:
            loaded = load_model(worker, job, release=True)
            left_s = max(job.timeout_s - (time.monotonic() - start_s), 1.0)
            job = replace(job, timeout_s=left_s)
            if errand.only_loads:
                run = CaseRun(case=errand.name, status=RunStatus.OK)
                providers = providers_in(loaded)
            else:
                run, providers = run_case(
                    worker, job, str(errand.folder), case, self.folder, stem, release=True
                )
        except WorkerError as error:
            if not error.alive:
                self.leave()
            status = error.status if error.carried else RunStatus.NOT_RUN
            return self.told(errand, status, error.message)
        self._look()
        return Done(errand=errand, run=run, folder=self.folder, providers=providers)

    def _started(self, job: Job) -> Worker:
        """Return the worker, greeted; one that does not answer is given another try or two.

        Raises:
            InfrastructureError: it does not start, speaks another protocol, or nobody waits.
        """
        words = ""
        for _ in range(_STARTS):
            if self._worker is not None:
                return self._worker
            self._worker = start(job, self.folder, self._shown, self._memory_bytes)
            self._ran = 0
            # Asked once `interrupt` can see the worker: one of the two always ends it.
            if self._ended.is_set():
                raise InfrastructureError("nobody waits for the results", where=job.launch.label)
            try:
                greet(self._worker, replace(job, timeout_s=max(job.timeout_s, _START_S)))
            except WorkerError as error:
                words = error.message
                self.leave()
        if self._worker is not None:
            return self._worker
        raise InfrastructureError(
            f"{job.launch.label} does not start: {words}",
            where=" ".join(job.launch.argv),
            remedy="the words are the runtime's own; see that it can be started here",
        )

    def _look(self) -> None:
        """Replace a worker that holds too much."""
        self._ran += 1
        pid = self._worker.pid if self._worker is not None else None
        if pid is None or self._ran % _LOOK_EVERY:
            return
        if (Outside(pid).resident_bytes() or 0) > _ROOM_BYTES:
            self.leave()


def crew_size(provider: str) -> int:
    """Return how many workers a provider is shared by: accelerators have one, a CPU its cores."""
    if provider not in PLAIN_CPU:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, MAX_WORKERS))
