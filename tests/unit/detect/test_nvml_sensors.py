"""The real door to NVML's sensors, to a library with its signatures."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ci_parity.detect.gpus import open_gpus
from ci_parity.detect.nvml import LibraryNvml

MIB = 1024 * 1024
LIBRARY = r"""
typedef void *Device;
struct process { unsigned pid; unsigned long long used; unsigned gi; unsigned ci; };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *to) { *to = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *to) {
    *to = (void *)(0x123456789abcdef0ULL + index); return 0;
}
static int known(Device d) { return d == (void *)0x123456789abcdef0ULL ? 0 : 2; }
int nvmlDeviceGetClockInfo(Device d, unsigned kind, unsigned *to) {
    *to = kind == 1 ? 1980 : 0; return known(d);
}
int REASONS(Device d, unsigned long long *to) { *to = 0x44; return known(d); }
int nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *count, struct process *to) {
    if (*count < 2) return 7;
    to[0] = (struct process){10, 300ULL * 1048576, 0, 0};
    to[1] = (struct process){11, -1ULL, 0, 0};
    *count = 2; return known(d);
}
"""


@pytest.mark.parametrize(
    "reasons",
    ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"],
)
def test_sensors_come_across(tmp_path: Path, reasons: str) -> None:
    """Clock, reasons under their newer or older name, and processes in an array of structures."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler; install one (the package gcc) to test the real door")
    source, library = tmp_path / "nvml.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(LIBRARY)
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-DREASONS={reasons}", "-o", library, source], check=True
    )
    nvml = LibraryNvml(str(library))
    with nvml.session() as session:
        sensors = session.sensors(0)
        assert (sensors.clock_mhz(), sensors.slowdowns()) == (1980, 0x44)
        assert sensors.processes() == {10: 300 * MIB, 11: None}
    with open_gpus(nvml) as gpus:
        assert gpus.bytes_of((10,)) == 300 * MIB
        assert gpus.bytes_of((11,)) is None
        assert "heat" in gpus.watch(lambda: (10, 11)).disturbance()
