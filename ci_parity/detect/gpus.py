"""What the GPUs did while something was timed: slowdowns, clocks, other processes, memory held.

Read through NVML, as far as it answers; what it does not tell is no evidence and no number. An idle
clock is none either: a clock is compared with the fastest that this measurement has seen.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from ci_parity.detect.nvml import Nvml, NvmlError, NvmlMissingError, NvmlSensors

# nvmlClocksEventReason: slowed down by hardware, by heat (told by software or hardware), by a power
# brake. A power limit that is always there slows both sides down alike, and voids nothing.
_SLOWDOWNS = {
    0x08: "slowed down by its hardware",
    0x20: "slowed down by heat",
    0x40: "slowed down by heat",
    0x80: "slowed down by a power brake",
}
_CLOCK = 0.75


class Gpus:
    """The GPUs of this machine; none where there is no library."""

    def __init__(self, sensors: Sequence[NvmlSensors]) -> None:
        self._sensors = tuple(sensors)

    def bytes_of(self, pids: Collection[int]) -> int | None:
        """Return what some processes hold on all GPUs; `None` where that is not told."""
        held = [size for _, found in self._found() for pid, size in found.items() if pid in pids]
        known = [size for size in held if size is not None]
        return sum(known) if known and len(known) == len(held) else None

    def watch(self, own: Callable[[], Collection[int]]) -> "GpuWatch":
        """Watch the GPUs on which some processes of ours compute."""
        return GpuWatch(self, own)

    def used_by(self, pids: Collection[int]) -> list[tuple[NvmlSensors, Collection[int]]]:
        """Return the GPUs on which one of these processes computes, and all that do there."""
        return [(gpu, found) for gpu, found in self._found() if set(pids) & set(found)]

    def _found(self) -> Iterator[tuple[NvmlSensors, dict[int, int | None]]]:
        for gpu in self._sensors:
            with suppress(NvmlError):
                yield gpu, dict(gpu.processes())


class GpuWatch:
    """The GPUs in use while a pair of blocks is timed; a `Watch` of `run.latency`."""

    def __init__(self, gpus: Gpus, own: Callable[[], Collection[int]]) -> None:
        self._gpus = gpus
        self._own = own
        self._fastest: dict[int, int] = {}

    def begin(self) -> None:
        """Do nothing: all of it is read when the blocks are over and the clocks still up."""

    def disturbance(self) -> str:
        """Return a slowdown, a foreign process, or a clock that fell."""
        own = self._own()
        for number, (gpu, pids) in enumerate(self._gpus.used_by(own)):
            said = _slowed(gpu) or _shared(pids, own) or self._fell(number, gpu)
            if said:
                return said
        return ""

    def _fell(self, number: int, gpu: NvmlSensors) -> str:
        with suppress(NvmlError):
            clock = gpu.clock_mhz()
            fastest = max(clock, self._fastest.get(number, 0))
            self._fastest[number] = fastest
            if clock < _CLOCK * fastest:
                return f"the GPU's clock fell to {100 * clock / fastest:.0f} %"
        return ""


def _slowed(gpu: NvmlSensors) -> str:
    with suppress(NvmlError):
        bits = gpu.slowdowns()
        return next((f"a GPU was {why}" for bit, why in _SLOWDOWNS.items() if bits & bit), "")
    return ""


def _shared(pids: Collection[int], own: Collection[int]) -> str:
    others = len(set(pids) - set(own))
    return f"{others} other process{'es' * (others > 1)} computed on the GPU" if others else ""


@contextmanager
def open_gpus(nvml: Nvml) -> Iterator[Gpus]:
    """Keep the library open meanwhile; without one, or with one that fails, there are no GPUs."""
    with ExitStack() as stack:
        sensors: list[NvmlSensors] = []
        with suppress(NvmlMissingError, NvmlError):
            session = stack.enter_context(nvml.session())
            sensors += [session.sensors(index) for index in range(session.device_count())]
        yield Gpus(sensors)
