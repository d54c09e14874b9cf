"""Host file systems as tests want them: a Xeon server, with or without NVIDIA's or AMD's driver."""

from dataclasses import replace
from pathlib import Path

from ci_parity.detect.host import HostSources
from ci_parity.detect.nvml import Nvml
from tests.fakes.nvml import missing_nvml

FLAGS = "fpu sse4_1 sse4_2 avx avx2 fma f16c avx512f avx512_vnni smep sme hypervisor"
CPUINFO = """\
processor\t: {index}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 106
model name\t: Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz
stepping\t: 6
microcode\t: 0xd0003b9
cpu MHz\t\t: {mhz}
flags\t\t: {flags}
bogomips\t: 5200.00

"""
NVRM = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Mar  5 22:23:56 UTC 2024
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""
NVRM_OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (root@host)
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""
GPU_INFORMATION = """\
Model: \t\t {name}
IRQ:   \t\t 255
GPU UUID: \t GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77
Video BIOS: \t 92.00.45.00.06
Bus Type: \t PCIe
Bus Location: \t 0000:07:00.0
Device Minor: \t 0
GPU Excluded:\t No
"""
KFD_CPU = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\nvendor_id 0\n"
KFD_GPU = """\
cpu_cores_count 0
simd_count 416
gfx_target_version 90010
vendor_id 4098
device_id 29711
fw_version 78
unique_id 1318218389246435557
max_engine_clk_fcompute 1700
"""


class HostTree:
    """A file system under construction."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n')
        self.write("proc/sys/kernel/osrelease", "5.15.0-105-generic\n")
        self.write("proc/meminfo", "MemTotal:       527899332 kB\nMemFree:        1234 kB\n")
        self.write("proc/self/status", "Name:\tpython\nCpus_allowed_list:\t0-1,4\n")
        self.write("proc/self/cgroup", "0::/runner.slice/job.scope\n")
        self.write("sys/devices/system/cpu/online", "0-7\n")
        self.write("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n")
        self.write("sys/class/dmi/id/product_name", "n2-standard-8\n")
        self.processor()

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file and the folders above it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def processor(self, flags: str = FLAGS, mhz: str = "2600.000") -> None:
        """Write two equal processors that run at some clock."""
        blocks = [CPUINFO.format(index=i, mhz=f"{mhz}{i}", flags=flags) for i in range(2)]
        self.write("proc/cpuinfo", "".join(blocks))

    def nvidia(self, version: str, name: str = "NVIDIA A100-SXM4-80GB", form: str = NVRM) -> None:
        """Write what the kernel driver shows, its device nodes and its libcuda."""
        self.write("proc/driver/nvidia/version", form.format(version=version))
        text = GPU_INFORMATION.format(name=name)
        self.write("proc/driver/nvidia/gpus/0000:07:00.0/information", text)
        for node in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            self.write(f"dev/{node}", "")
        self.libcuda(version, version.encode())

    def libcuda(self, version: str, content: bytes) -> None:
        """Write a 64-bit libcuda of a version, found through the usual chain of links."""
        folder = self.root / "usr/lib/x86_64-linux-gnu"
        for stale in folder.glob("libcuda*"):
            stale.unlink()
        name = f"libcuda.so.{version}"
        self.write(f"usr/lib/x86_64-linux-gnu/{name}", b"\x7fELF\x02" + content)
        self.link("usr/lib/x86_64-linux-gnu/libcuda.so.1", name)

    def amd(self, gpu: str = KFD_GPU) -> None:
        """Write the kernel's files of one AMD GPU beside the processor's node."""
        nodes = "sys/class/kfd/kfd/topology/nodes"
        self.write("sys/module/amdgpu/version", "6.7.0\n")
        self.write("opt/rocm/.info/version", "6.1.0-82\n")
        self.write("dev/kfd", "")
        self.write(f"{nodes}/0/properties", KFD_CPU)
        self.write(f"{nodes}/1/properties", gpu)
        bank = "heap_type 1\nsize_in_bytes 68702699520\nflags 0\n"
        self.write(f"{nodes}/1/mem_banks/0/properties", bank)

    def sources(self, nvml: Nvml | None = None) -> HostSources:
        """Return the sources that read this tree."""
        return HostSources(
            root=self.root,
            nvml=nvml or missing_nvml(),
            machine="x86_64",
            system="Linux 5.15.0-105-generic",
            libc="glibc 2.35",
            cores=8,
            environment={},
        )


def elsewhere(root: Path, system: str, machine: str) -> HostSources:
    """Return the sources of a system that has none of Linux' files."""
    sources = HostSources(
        root=root, nvml=missing_nvml(), machine=machine, system=system, libc="", cores=10,
        environment={},
    )  # fmt: skip
    return replace(sources)
