"""NVIDIA's management library as a test wants it: present, missing, failing as a whole or in part.

Wherever a value stands, an `NvmlError` may stand in its place and is raised when it is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from ci_parity.detect.nvml import (
    NvmlDevice,
    NvmlError,
    NvmlMissingError,
    NvmlSensors,
    NvmlSession,
)

Answer = TypeVar("Answer")


def _give(answer: Answer | NvmlError) -> Answer:
    if isinstance(answer, NvmlError):
        raise answer
    return answer


@dataclass(frozen=True, kw_only=True)
class FakeGpu:
    """One GPU: an A100 that is not partitioned, unless told otherwise."""

    product: str = "NVIDIA A100-SXM4-80GB"
    card: str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"
    firmware: str | NvmlError = "92.00.45.00.06"
    capability: tuple[int, int] = (8, 0)
    memory_mib: int = 81920
    mig: tuple[int, int] | NvmlError = (0, 0)
    ecc: tuple[int, int] | NvmlError = (1, 1)
    clock: int | NvmlError = 1410
    slowed: int | NvmlError = 0
    computing: Mapping[int, int | None] | NvmlError = field(default_factory=dict)

    def name(self) -> str:
        """Return the product name."""
        return self.product

    def uuid(self) -> str:
        """Return the card's identity."""
        return self.card

    def vbios(self) -> str:
        """Return the firmware's version."""
        return _give(self.firmware)

    def compute_capability(self) -> tuple[int, int]:
        """Return (major, minor)."""
        return self.capability

    def memory_bytes(self) -> int:
        """Return the size of the memory."""
        return self.memory_mib * 1024 * 1024

    def mig_mode(self) -> tuple[int, int]:
        """Return (current, pending)."""
        return _give(self.mig)

    def ecc_mode(self) -> tuple[int, int]:
        """Return (current, pending)."""
        return _give(self.ecc)

    def clock_mhz(self) -> int:
        """Return the clock."""
        return _give(self.clock)

    def slowdowns(self) -> int:
        """Return the bits of reasons."""
        return _give(self.slowed)

    def processes(self) -> Mapping[int, int | None]:
        """Return what computes here."""
        return _give(self.computing)


@dataclass(kw_only=True)
class FakeNvml:
    """A library with a driver and GPUs; `refusal` is raised in place of a session."""

    driver: str = "550.54.15"
    cuda: int | NvmlError = 12040
    gpus: Sequence[FakeGpu | NvmlError] = (FakeGpu(),)
    refusal: NvmlError | NvmlMissingError | None = None
    open_sessions: int = field(default=0, init=False)

    @contextmanager
    def session(self) -> Iterator[NvmlSession]:
        """Open a session and count it while it is open."""
        if self.refusal:
            raise self.refusal
        self.open_sessions += 1
        try:
            yield self
        finally:
            self.open_sessions -= 1

    def driver_version(self) -> str:
        """Return the driver's version."""
        return self.driver

    def cuda_driver_version(self) -> int:
        """Return the CUDA version as NVML counts."""
        return _give(self.cuda)

    def device_count(self) -> int:
        """Return how many GPUs there are."""
        return len(self.gpus)

    def device(self, index: int) -> NvmlDevice:
        """Return one of them."""
        return _give(self.gpus[index])

    def sensors(self, index: int) -> NvmlSensors:
        """Return the sensors of one of them."""
        return _give(self.gpus[index])


def missing_nvml() -> FakeNvml:
    """Return a machine without the library."""
    return FakeNvml(refusal=NvmlMissingError("libnvidia-ml.so.1"))


def failing_nvml(code: int) -> FakeNvml:
    """Return a library that cannot be initialised."""
    return FakeNvml(refusal=NvmlError(code))
