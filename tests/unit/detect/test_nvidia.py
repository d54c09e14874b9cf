"""NVIDIA's driver and GPUs, from the kernel's files, a stand-in for NVML, and its real door."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ci_parity.detect.host import host_facts
from ci_parity.detect.host_words import explain_host
from ci_parity.detect.nvml import LibraryNvml, NvmlError, NvmlMissingError
from ci_parity.records.facts import ABSENT, Facts
from tests.fakes.host_tree import GPU_INFORMATION, NVRM_OPEN, HostTree
from tests.fakes.nvml import FakeGpu, FakeNvml, failing_nvml, missing_nvml

H100 = FakeGpu(product="NVIDIA H100 80GB HBM3", card="GPU-h100", capability=(9, 0))
CARD = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """Return a server with one A100 and driver 550."""
    made = HostTree(tmp_path / "root")
    made.nvidia("550.54.15")
    return made


def nvidia(tree: HostTree, nvml: FakeNvml) -> Facts:
    """Return NVIDIA's facts alone, by their short names."""
    facts = host_facts(tree.sources(nvml))
    return {k.removeprefix("nvidia."): v for k, v in facts.items() if k.startswith("nvidia.")}


def said(tree: HostTree, before: Facts, nvml: FakeNvml) -> tuple[str, ...]:
    """Return how the host's difference from `before` is explained."""
    return explain_host(before, host_facts(tree.sources(nvml)))


def test_one_gpu_is_read_in_full(tree: HostTree) -> None:
    """Kernel driver, CUDA driver, the card and its modes, libcuda and the device nodes."""
    library = FakeNvml()
    facts = nvidia(tree, library)
    assert library.open_sessions == 0
    assert (facts["driver"], facts["module"], facts["nvml"]) == (
        "550.54.15",
        "proprietary",
        "550.54.15",
    )
    assert (facts["cuda_driver"], facts["gpus"]) == ("12.4", "1")
    assert facts["gpu.0.name"] == "NVIDIA A100-SXM4-80GB"
    assert (facts["gpu.0.uuid"], facts["gpu.0.vbios"]) == (CARD, "92.00.45.00.06")
    assert (facts["gpu.0.compute"], facts["gpu.0.memory"]) == ("8.0", "81920 MiB")
    assert (facts["gpu.0.mig"], facts["gpu.0.ecc"]) == ("disabled", "enabled")
    assert facts["libcuda"] == "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"
    assert len(facts["libcuda.sha256"]) == 64
    assert facts["devices"] == "nvidia0 nvidia-uvm nvidiactl"


def test_a_driver_upgrade_is_one_sentence(tree: HostTree) -> None:
    """The new libcuda and NVML are the upgrade, not changes beside it."""
    before = host_facts(tree.sources(FakeNvml()))
    tree.nvidia("580.65.06", form=NVRM_OPEN)
    assert said(tree, before, FakeNvml(driver="580.65.06", cuda=13000)) == (
        "NVIDIA driver 550.54.15 → 580.65.06 (CUDA driver 12.4 → 13.0)",
        "NVIDIA kernel module proprietary → open",
    )


def test_an_upgrade_without_a_reboot_is_named(tree: HostTree) -> None:
    """The old module still runs, the new library refuses to speak to it: NVML's code 18."""
    before = host_facts(tree.sources(FakeNvml()))
    tree.libcuda("580.65.06", b"new")
    facts = nvidia(tree, failing_nvml(18))
    assert facts["driver"] == "550.54.15"
    assert facts["nvml"].startswith("failed: driver and library versions differ")
    assert facts["gpu.0.name"] == "NVIDIA A100-SXM4-80GB"
    assert facts["gpu.0.compute"] == facts["nvml"]
    sentences = said(tree, before, failing_nvml(18))
    assert sentences[0] == "libcuda.so.1 changed (same driver version)"
    assert sentences[1].startswith("NVML 550.54.15 → failed: driver and library versions differ")
    assert len(sentences) == 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "driver is not loaded (9)"),
        (12, "not found (12)"),
        (18, "without a reboot (18)"),
        (
            999,
            "unknown error; a container loses its devices when the host reloads its daemons (999)",
        ),
        (77, "NVML error (77)"),
    ],
)
def test_each_return_code_has_words(tree: HostTree, code: int, words: str) -> None:
    """A failing library is a fact with its code, never an error."""
    assert nvidia(tree, failing_nvml(code))["nvml"].endswith(words)


def test_a_container_without_a_gpu_still_sees_the_kernel_driver(tree: HostTree) -> None:
    """Without NVML the kernel's own files name driver and cards; what they lack is absent."""
    facts = nvidia(tree, missing_nvml())
    assert (facts["driver"], facts["gpus"]) == ("550.54.15", "1")
    assert facts["gpu.0.uuid"] == CARD
    assert facts["nvml"] == facts["cuda_driver"] == facts["gpu.0.compute"] == ABSENT


def test_nvml_coming_and_going_is_said_once(tree: HostTree) -> None:
    """Details that only one side could measure are no changes of the card."""
    before = host_facts(tree.sources(missing_nvml()))
    assert said(tree, before, FakeNvml()) == ("NVML absent → 550.54.15",)


def test_a_card_the_driver_has_not_initialised_is_not_guessed(tree: HostTree) -> None:
    """Question marks are no firmware version."""
    text = GPU_INFORMATION.format(name="NVIDIA A100").replace("92.00.45.00.06", "??.??.??.??.??")
    tree.write("proc/driver/nvidia/gpus/0000:07:00.0/information", text)
    facts = nvidia(tree, missing_nvml())
    assert (facts["gpu.0.name"], facts["gpu.0.vbios"]) == ("NVIDIA A100", ABSENT)


def test_windows_and_wsl_have_the_driver_from_nvml(tmp_path: Path) -> None:
    """Where the kernel shows no file the library's answer is the driver's version."""
    facts = nvidia(HostTree(tmp_path), FakeNvml(driver="551.86"))
    assert (facts["driver"], facts["module"]) == ("551.86", ABSENT)


def test_a_version_file_of_another_form_fails_visibly(tree: HostTree) -> None:
    """A driver that is there and cannot be read is not absent."""
    tree.write("proc/driver/nvidia/version", "something new")
    assert nvidia(tree, FakeNvml())["driver"].startswith("failed: no version")


def test_a_question_without_an_answer_spoils_no_other(tree: HostTree) -> None:
    """A consumer card has no MIG; a lost card fails alone."""
    consumer = FakeGpu(mig=NvmlError(3), ecc=NvmlError(4))
    facts = nvidia(tree, FakeNvml(gpus=[consumer, NvmlError(15)], cuda=NvmlError(13)))
    assert (facts["gpu.0.mig"], facts["gpu.0.ecc"]) == (
        "not supported",
        "failed: no permission (4)",
    )
    assert facts["gpu.0.name"] == "NVIDIA A100-SXM4-80GB"
    assert facts["gpu.1.name"] == "failed: the GPU has fallen off the bus (15)"
    assert facts["cuda_driver"].startswith("failed: the library lacks this function")


@pytest.mark.parametrize(
    ("gpus", "sentence"),
    [
        ([H100], "GPU 0: NVIDIA A100-SXM4-80GB → NVIDIA H100 80GB HBM3"),
        ([FakeGpu(mig=(1, 1))], "GPU 0: MIG disabled → enabled"),
        ([FakeGpu(ecc=(1, 0))], "GPU 0: ECC enabled → enabled (disabled after a reset)"),
        ([FakeGpu(firmware="92.00.99")], "GPU 0: vbios 92.00.45.00.06 → 92.00.99"),
        ([FakeGpu(card="GPU-other")], "GPU 0: another card of the same model"),
        ([FakeGpu(), H100], "GPU 1: added, NVIDIA H100 80GB HBM3"),
        (
            [FakeGpu(firmware=NvmlError(4))],
            "GPU 0: vbios 92.00.45.00.06 → failed: no permission (4)",
        ),
        ([], "GPU 0: removed, NVIDIA A100-SXM4-80GB"),
    ],
)
def test_each_change_of_a_gpu_is_one_sentence(
    tree: HostTree, gpus: list[FakeGpu], sentence: str
) -> None:
    """A card's change says what became of the card."""
    before = host_facts(tree.sources(FakeNvml()))
    assert said(tree, before, FakeNvml(gpus=gpus)) == (sentence,)


def test_a_fleet_of_equal_gpus_changes_in_one_sentence(tree: HostTree) -> None:
    """Eight cards with the same new mode are not eight sentences."""
    before = host_facts(tree.sources(FakeNvml(gpus=[FakeGpu()] * 3)))
    now = FakeNvml(gpus=[FakeGpu(mig=(1, 1))] * 3)
    assert said(tree, before, now) == ("GPU 0, 1, 2: MIG disabled → enabled",)


def test_a_swapped_libcuda_is_seen_under_the_same_driver(tree: HostTree) -> None:
    """A compatibility library in front of the driver's own changes bytes, not the version."""
    before = host_facts(tree.sources(FakeNvml()))
    tree.libcuda("550.54.15", b"patched")
    assert said(tree, before, FakeNvml()) == ("libcuda.so.1 changed (same driver version)",)
    (tree.root / "usr/lib/x86_64-linux-gnu/libcuda.so.1").unlink()
    assert said(tree, before, FakeNvml()) == ("libcuda.so.1 is gone (same driver version)",)


def test_libcuda_is_the_one_the_loader_would_take(tree: HostTree) -> None:
    """The loader's cache leads to the 64-bit library; a 32-bit one before it is passed over."""
    tree.write("usr/lib/i386-linux-gnu/libcuda.so.1", b"\x7fELF\x01 for 32 bits")
    tree.write("opt/driver/libcuda.so.1", b"\x7fELF\x02 cached")
    tree.write(
        "etc/ld.so.cache",
        b"glibc-ld.so.cache1.1\0libcuda.so.1\0/usr/lib/i386-linux-gnu/libcuda.so.1\0"
        b"/opt/driver/libcuda.so.1\0",
    )
    assert nvidia(tree, FakeNvml())["libcuda"] == "/opt/driver/libcuda.so.1"


@pytest.mark.parametrize(
    ("status", "version"),
    [
        ("install ok installed", "1.15.0-1"),
        ("deinstall ok config-files", "present, version unknown"),
    ],
)
def test_the_container_toolkit_has_its_package_version(
    tree: HostTree, status: str, version: str
) -> None:
    """The package database knows it; a removed package does not count."""
    text = (
        "Package: libc6\nStatus: install ok installed\nVersion: 2.35\n\n"
        f"Package: nvidia-container-toolkit\nStatus: {status}\nVersion: 1.15.0-1\n"
    )
    tree.write("var/lib/dpkg/status", text)
    tree.write("usr/bin/nvidia-ctk", "")
    assert nvidia(tree, FakeNvml())["toolkit"] == version


def test_the_real_door_says_absent_where_there_is_no_library() -> None:
    """A machine without the library is no failure."""
    with pytest.raises(NvmlMissingError), LibraryNvml("libnvidia-ml-of-nobody.so.1").session():
        raise AssertionError("there is no such library")


def test_the_real_door_says_failed_where_the_library_is_broken(tmp_path: Path) -> None:
    """A file of that name that is no library is not absent."""
    broken = tmp_path / "libnvidia-ml.so.1"
    broken.write_text("no library")
    with pytest.raises(NvmlError, match="cannot be loaded"), LibraryNvml(str(broken)).session():
        raise AssertionError("this is no library")


LIBRARY = r"""
#include <string.h>
typedef void *Device;
static int initialised;
int nvmlInit_v2(void) { initialised = 1; return INIT; }
int nvmlShutdown(void) { initialised = 0; return 0; }
int nvmlSystemGetDriverVersion(char *to, unsigned n) { strncpy(to, "580.65.06", n); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { *to = initialised ? 13000 : 0; return 0; }
int nvmlDeviceGetCount_v2(unsigned *to) { *to = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *to) {
    *to = (void *)(0x123456789abcdef0ULL + index); return index ? 15 : 0;
}
static int known(Device d) { return d == (void *)0x123456789abcdef0ULL ? 0 : 2; }
int nvmlDeviceGetName(Device d, char *to, unsigned n) { strncpy(to, "H200", n); return known(d); }
int nvmlDeviceGetUUID(Device d, char *to, unsigned n) { strncpy(to, "GPU-1", n); return known(d); }
int nvmlDeviceGetCudaComputeCapability(Device d, int *a, int *b) {
    *a = 9; *b = 0; return known(d);
}
int nvmlDeviceGetMemoryInfo(Device d, unsigned long long *to) {
    to[0] = 150754820096ULL; to[1] = 1; to[2] = 2; return known(d);
}
int nvmlDeviceGetMigMode(Device d, unsigned *now, unsigned *later) {
    *now = 0; *later = 1; return known(d);
}
int nvmlDeviceGetEccMode(Device d, unsigned *now, unsigned *later) { return 3; }
"""


def compiled(folder: Path, *, init: int) -> LibraryNvml:
    """Return the door to a library with NVML's signatures; it has no nvmlDeviceGetVbiosVersion."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler; install one (the package gcc) to test the real door")
    source = folder / "nvml.c"
    source.write_text(LIBRARY)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-DINIT={init}", "-o", library, source], check=True
    )
    return LibraryNvml(str(library))


def test_the_real_door_speaks_to_a_library(tmp_path: Path) -> None:
    """Handles of 64 bits, texts, pairs, structures, a missing function and codes come across."""
    door = compiled(tmp_path, init=0)
    facts = host_facts(HostTree(tmp_path / "root").sources(door))
    assert (facts["nvidia.nvml"], facts["nvidia.cuda_driver"]) == ("580.65.06", "13.0")
    assert (facts["nvidia.gpus"], facts["nvidia.gpu.0.name"]) == ("2", "H200")
    assert (facts["nvidia.gpu.0.uuid"], facts["nvidia.gpu.0.compute"]) == ("GPU-1", "9.0")
    assert facts["nvidia.gpu.0.vbios"].startswith("failed: the library lacks this function")
    assert facts["nvidia.gpu.0.memory"] == "143771 MiB"
    assert facts["nvidia.gpu.0.mig"] == "disabled (enabled after a reset)"
    assert facts["nvidia.gpu.0.ecc"] == "not supported"
    assert facts["nvidia.gpu.1.name"] == "failed: the GPU has fallen off the bus (15)"


def test_the_real_door_brings_the_code_of_a_failed_start(tmp_path: Path) -> None:
    """A library that does not initialise says why."""
    with pytest.raises(NvmlError) as caught, compiled(tmp_path, init=18).session():
        raise AssertionError("the session must not open")
    assert caught.value.code == 18
