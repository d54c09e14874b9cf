"""The driver-and-host axis: what a run happens on, read from files and NVML, nothing executed.

The facts are those whose change can move a number: drivers, GPUs, the processor's kernels, limits,
kernel and C library. Whatever changes by itself (clocks, temperatures, loads, free memory, uptime)
is left out, so that two readings of one host are equal. `explain_host` says a difference in a few
sentences; `relevant` drops what a target cannot feel.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ci_parity.detect.amd import amd_facts
from ci_parity.detect.cpu import cpu_facts
from ci_parity.detect.host_files import HostFiles
from ci_parity.detect.nvidia import nvidia_facts
from ci_parity.detect.nvml import LibraryNvml, Nvml
from ci_parity.records.facts import ABSENT, Facts, fact, reading

_KIB_PER_GIB = 1024 * 1024
_NVIDIA, _AMD = "nvidia.", "amd."
# Which vendors' facts a provider cannot feel; a provider that is not here is held to feel all.
_UNFELT: Mapping[str, tuple[str, ...]] = {
    "CPUExecutionProvider": (_NVIDIA, _AMD),
    "XnnpackExecutionProvider": (_NVIDIA, _AMD),
    "DnnlExecutionProvider": (_NVIDIA, _AMD),
    "CUDAExecutionProvider": (_AMD,),
    "TensorrtExecutionProvider": (_AMD,),
    "NvTensorRTRTXExecutionProvider": (_AMD,),
    "ROCMExecutionProvider": (_NVIDIA,),
    "MIGraphXExecutionProvider": (_NVIDIA,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSources:
    """Where the facts come from: the file system, NVML, and what the platform says of itself."""

    root: Path
    nvml: Nvml
    machine: str
    system: str
    libc: str
    cores: int | None
    environment: Mapping[str, str]

    @classmethod
    def here(cls) -> Self:
        """Return the sources of this machine."""
        system, release, machine = _platform()
        return cls(
            root=Path(os.sep),
            nvml=LibraryNvml(),
            machine=machine,
            system=f"{system} {release}",
            libc=_libc(),
            cores=os.cpu_count(),
            environment=os.environ,
        )


def host_facts(sources: HostSources, *, accelerators: bool = True) -> Facts:
    """Return the facts of a host, in a fixed order of groups.

    Args:
        sources: where to read.
        accelerators: without it NVML is not started and no GPU or driver fact is recorded.
    """
    files = HostFiles(root=sources.root)
    facts = {
        "os.name": reading(lambda: _os_name(files)),
        "os.kernel": _kernel(files, sources.system),
        "os.libc": fact(sources.libc) if sources.libc else ABSENT,
        "host.memory": reading(lambda: _memory(files)),
        "host.virtualisation": _virtualisation(files),
        **cpu_facts(files, sources.machine, sources.cores),
    }
    if accelerators:
        facts |= nvidia_facts(files, sources.nvml, sources.environment)
        facts |= amd_facts(files)
    return facts


def relevant(facts: Facts, provider: str) -> Facts:
    """Return the facts that a target on this execution provider can feel.

    A new GPU driver cannot change a CPU target; a new processor can change any.
    """
    unfelt = _UNFELT.get(provider, ())
    return {key: value for key, value in facts.items() if not key.startswith(unfelt)}


def _platform() -> tuple[str, str, str]:
    """Return system, release and machine."""
    if sys.platform != "win32":
        name = os.uname()
        return name.sysname, name.release, name.machine
    import platform

    return platform.system(), platform.release(), platform.machine()


def _libc() -> str:
    if sys.platform != "linux":
        return ""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return "not glibc"


def _os_name(files: HostFiles) -> str:
    for line in files.read("etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip("\"'")
    raise ValueError("no PRETTY_NAME in /etc/os-release")


def _kernel(files: HostFiles, system: str) -> str:
    release = files.fact("proc/sys/kernel/osrelease")
    return fact(system) if release == ABSENT and system else release


def _memory(files: HostFiles) -> str:
    """Return the memory in whole GiB: the kernel's own share of it changes with its version."""
    for line in files.read("proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return f"{round(int(line.split()[1]) / _KIB_PER_GIB)} GiB"
    raise ValueError("no MemTotal in /proc/meminfo")


def _virtualisation(files: HostFiles) -> str:
    """Return a hint: a hypervisor's name or flag, and the product it shows the guest."""
    named = files.fact("sys/hypervisor/type")
    try:
        flagged = " hypervisor" in files.read("proc/cpuinfo")
    except OSError:
        flagged = False
    if named == ABSENT and not flagged:
        return ABSENT
    product = files.fact("sys/class/dmi/id/product_name")
    hypervisor = "hypervisor" if named == ABSENT else named
    return hypervisor if product == ABSENT else fact(f"{hypervisor}, {product}")
