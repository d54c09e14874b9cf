"""GPUs while something is timed, as a fake library tells of them."""

import pytest

from ci_parity.detect.gpus import Gpus, open_gpus
from ci_parity.detect.nvml import NvmlError
from tests.fakes.nvml import FakeGpu, FakeNvml, failing_nvml, missing_nvml

MIB = 1024 * 1024
OWN = (10, 11)
BOTH: dict[int, int | None] = {10: 300 * MIB, 11: 400 * MIB}


class ClockedGpu:
    """A GPU of ours with another clock each time it is asked."""

    def __init__(self, *clocks: int) -> None:
        self.clocks = iter(clocks)

    def clock_mhz(self) -> int:
        """Return the next one."""
        return next(self.clocks)

    def slowdowns(self) -> int:
        """Return no reason."""
        return 0

    def processes(self) -> dict[int, int | None]:
        """Return our own."""
        return BOTH


def said(*gpus: FakeGpu) -> str:
    """Return the disturbance of one pair of blocks."""
    watch = Gpus(gpus).watch(lambda: OWN)
    watch.begin()
    return watch.disturbance()


def test_a_gpu_of_our_own_disturbs_nothing() -> None:
    """A power limit and an idle clock are not told apart from rest."""
    for harmless in (0x0, 0x1, 0x2, 0x4, 0x10, 0x100):
        assert said(FakeGpu(computing=BOTH, slowed=harmless)) == ""


@pytest.mark.parametrize(
    ("bit", "why"),
    [(0x08, "hardware"), (0x20, "heat"), (0x40, "heat"), (0x80, "power brake")],
)
def test_a_slowdown_disturbs(bit: int, why: str) -> None:
    """Whatever else is told beside it."""
    assert why in said(FakeGpu(computing=BOTH, slowed=bit | 0x4))


def test_another_process_on_the_gpu_disturbs() -> None:
    """On one of ours; what happens on other GPUs is none of our business."""
    assert said(FakeGpu(computing={**BOTH, 99: None})) == "1 other process computed on the GPU"
    others = FakeGpu(computing={98: 1, 99: 1}, slowed=0x40)
    assert said(FakeGpu(computing=BOTH), others) == ""
    assert said(others) == ""


def test_a_clock_that_fell_disturbs() -> None:
    """Below three quarters of the fastest that this measurement saw; a low one is no fall."""
    gpu = ClockedGpu(600, 1400, 1100, 1000)
    watch = Gpus([gpu]).watch(lambda: OWN)
    shown = [watch.disturbance() for _ in range(4)]
    assert shown == ["", "", "", "the GPU's clock fell to 71 %"]


def test_what_is_not_told_is_no_evidence() -> None:
    """Sensors that a card lacks, and processes that it hides."""
    lacking = NvmlError(3)
    assert said(FakeGpu(computing=BOTH, clock=lacking, slowed=lacking)) == ""
    assert said(FakeGpu(computing=lacking, slowed=0x40)) == ""


def test_the_memory_of_processes_is_summed_over_gpus() -> None:
    """Of those asked for; not told by any, or hidden by one, is not known."""
    gpus = Gpus([FakeGpu(computing=BOTH), FakeGpu(computing={10: 50 * MIB})])
    assert gpus.bytes_of((10,)) == 350 * MIB
    assert gpus.bytes_of(OWN) == 750 * MIB
    assert gpus.bytes_of((7,)) is None
    assert Gpus([FakeGpu(computing={10: None})]).bytes_of((10,)) is None
    assert Gpus(()).bytes_of((10,)) is None


def test_the_library_is_open_meanwhile() -> None:
    """And closed after it, also when timing fails."""
    nvml = FakeNvml(gpus=(FakeGpu(computing=BOTH), FakeGpu()))
    with open_gpus(nvml) as gpus:
        assert nvml.open_sessions == 1
        assert gpus.bytes_of((10,)) == 300 * MIB
    assert nvml.open_sessions == 0
    with pytest.raises(RuntimeError, match="timing"), open_gpus(nvml):
        raise RuntimeError("timing")
    assert nvml.open_sessions == 0


@pytest.mark.parametrize("nvml", [missing_nvml(), failing_nvml(9)])
def test_no_library_is_no_gpu(nvml: FakeNvml) -> None:
    """Nothing is measured, and nothing disturbs."""
    with open_gpus(nvml) as gpus:
        assert gpus.bytes_of((10,)) is None
        assert gpus.watch(lambda: OWN).disturbance() == ""
