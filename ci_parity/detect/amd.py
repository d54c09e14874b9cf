"""AMD's part of the driver-and-host axis: the amdgpu driver, its GPUs' targets, ROCm.

Everything comes from the kernel's files (`/sys/module/amdgpu`, the KFD topology) and ROCm's version
file, which a container sees as the host does. Clocks and counters of the topology are left out.
"""

from ci_parity.detect.host_files import HostFiles
from ci_parity.records.facts import ABSENT, Facts, fact, failed, reading

_NODES = "sys/class/kfd/kfd/topology/nodes/*/properties"
_GIB = 1024**3
# Heap types of KFD's memory banks: frame buffer, public and private (linux/kfd_sysfs.h).
_FRAME_BUFFER = ("1", "2")


def amd_facts(files: HostFiles) -> Facts:
    """Return all facts of AMD's driver and GPUs."""
    gpus: list[dict[str, str]] = []
    for path in files.find(_NODES):
        try:
            properties = _pairs(files.read(path))
        except OSError as error:
            gpus.append({"target": failed(error.strerror or "unreadable")})
            continue
        # A node without SIMD units is the processor's.
        if properties.get("simd_count", "0") != "0":
            gpus.append(_gpu(files, path.rpartition("/")[0], properties))
    numbered = {f"amd.gpu.{i}.{n}": value for i, gpu in enumerate(gpus) for n, value in gpu.items()}
    return {
        "amd.driver": _driver(files),
        "amd.rocm": files.fact("opt/rocm/.info/version"),
        "amd.gpus": str(len(gpus)) if gpus else ABSENT,
        "amd.devices": files.names("dev/kfd"),
        **numbered,
    }


def _driver(files: HostFiles) -> str:
    """Return the driver's version; one that comes with the kernel has none, but a source digest."""
    version = files.fact("sys/module/amdgpu/version")
    if version != ABSENT:
        return version
    source = files.fact("sys/module/amdgpu/srcversion")
    return source if source == ABSENT else fact(f"of the kernel, source {source}")


def _gpu(files: HostFiles, node: str, properties: dict[str, str]) -> dict[str, str]:
    banks = (_pairs(files.read(path)) for path in files.find(f"{node}/mem_banks/*/properties"))
    names = {
        "uuid": "unique_id", "device": "device_id", "simds": "simd_count", "firmware": "fw_version",
    }  # fmt: skip
    return {
        "target": reading(lambda: _target(int(properties["gfx_target_version"]))),
        **{name: fact(properties[p]) if p in properties else ABSENT for name, p in names.items()},
        "memory": reading(lambda: _memory(list(banks))),
    }


def _pairs(text: str) -> dict[str, str]:
    parts = (line.partition(" ") for line in text.splitlines())
    return {name: value.strip() for name, _, value in parts}


def _target(version: int) -> str:
    """Return the compiler's name for 10000 * major + 100 * minor + stepping, such as gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _memory(banks: list[dict[str, str]]) -> str:
    sizes = [int(bank["size_in_bytes"]) for bank in banks if bank.get("heap_type") in _FRAME_BUFFER]
    if not sizes:
        raise FileNotFoundError
    return f"{sum(sizes) // _GIB} GiB"
