"""A difference between two readings of a host, in the few sentences a reviewer reads.

One cause is one sentence: a new driver brings a new libcuda, a new processor new microcode, and a
fleet of equal GPUs changes as one. What no sentence covers is said fact by fact; nothing is lost.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from ci_parity.detect.cpu import NO_FEATURES
from ci_parity.records.facts import ABSENT, Facts, differences, measured

Changes = dict[str, tuple[str, str]]

_GPU_KEY = re.compile(r"(nvidia|amd)\.gpu\.(\d+)\.(\w+)")
_HEADS = {"nvidia": ("GPU", "name"), "amd": ("AMD GPU", "target")}
_WORDS = {
    "os.name": "operating system",
    "os.kernel": "kernel",
    "os.libc": "C library",
    "host.memory": "memory",
    "host.virtualisation": "virtualisation",
    "cpu.architecture": "CPU architecture",
    "cpu.vendor": "CPU vendor",
    "cpu.family": "CPU",
    "cpu.microcode": "CPU microcode",
    "cpu.features": "CPU features",
    "cpu.cores": "CPU cores",
    "cpu.affinity": "CPUs this process may use",
    "cpu.governor": "CPU frequency governor",
    "cpu.quota": "CPU quota",
    "nvidia.module": "NVIDIA kernel module",
    "nvidia.nvml": "NVML",
    "nvidia.gpus": "NVIDIA GPUs",
    "nvidia.toolkit": "NVIDIA container toolkit",
    "nvidia.devices": "NVIDIA device nodes",
    "nvidia.libcuda": "libcuda.so.1",
    "amd.driver": "AMD driver",
    "amd.rocm": "ROCm",
    "amd.gpus": "AMD GPUs",
    "amd.devices": "AMD device nodes",
}
_DETAILS = {
    "compute": "compute capability", "mig": "MIG", "ecc": "ECC", "simds": "SIMD units",
    "device": "device id",
}  # fmt: skip


def explain_host(before: Facts, after: Facts) -> tuple[str, ...]:
    """Return what differs between two hosts, or two states of one, most telling first."""
    changes = differences(before, after)
    old, new = changes.get("nvidia.nvml", ("", ""))
    # NVML's coming or going is said once, not again for everything it could or could not answer.
    nvml_moved = measured(old) != measured(new)
    return (
        *_driver_sentences(changes, nvml_moved=nvml_moved),
        *_gpu_sentences(changes, nvml_moved=nvml_moved),
        *_cpu_sentences(changes),
        *(f"{_WORDS.get(key, key)} {old} → {new}" for key, (old, new) in changes.items()),
    )


def _driver_sentences(changes: Changes, *, nvml_moved: bool) -> Iterator[str]:
    """Say what became of the driver; take what follows from it out of the changes."""
    driver = changes.pop("nvidia.driver", None)
    cuda = changes.pop("nvidia.cuda_driver", None)
    nvml = changes.get("nvidia.nvml", ("", ""))
    library = changes.pop("nvidia.libcuda.sha256", None)
    if driver:
        spoken = cuda and all(map(measured, cuda))
        also = f" (CUDA driver {cuda[0]} → {cuda[1]})" if cuda and spoken else ""
        yield f"NVIDIA driver {driver[0]} → {driver[1]}{also}"
        changes.pop("nvidia.libcuda", None)
    elif cuda and not nvml_moved:
        yield f"CUDA driver {cuda[0]} → {cuda[1]} (same NVIDIA driver)"
    if driver and all(map(measured, nvml)):
        changes.pop("nvidia.nvml", None)
    if library and not driver:
        changes.pop("nvidia.libcuda", None)
        yield _library_words(*library)


def _library_words(old: str, new: str) -> str:
    if old == ABSENT:
        return "libcuda.so.1 appeared (same driver version)"
    if new == ABSENT:
        return "libcuda.so.1 is gone (same driver version)"
    if not measured(new):
        return f"libcuda.so.1 {new}"
    return "libcuda.so.1 changed (same driver version)"


def _gpu_sentences(changes: Changes, *, nvml_moved: bool) -> Iterator[str]:
    """Say what became of each GPU; equal sentences of several GPUs are one."""
    gpus: dict[tuple[str, int], Changes] = defaultdict(dict)
    for key in [key for key in changes if _GPU_KEY.fullmatch(key)]:
        vendor, index, detail = _GPU_KEY.fullmatch(key).groups()  # type: ignore[union-attr]
        gpus[vendor, int(index)][detail] = changes.pop(key)
    together: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (vendor, index), details in gpus.items():
        every = vendor != "nvidia" or not nvml_moved
        told = {n: pair for n, pair in details.items() if every or all(map(measured, pair))}
        sentence = _gpu_words(told, _HEADS[vendor][1])
        if sentence:
            together[vendor, sentence].append(index)
    for (vendor, sentence), indices in together.items():
        changes.pop(f"{vendor}.gpus", None)
        yield f"{_HEADS[vendor][0]} {', '.join(map(str, indices))}: {sentence}"


def _gpu_words(details: Changes, head: str) -> str:
    if head in details:
        old, new = details[head]
        if old == ABSENT:
            return f"added, {new}"
        return f"removed, {old}" if new == ABSENT else f"{old} → {new}"
    uuid = details.pop("uuid", None)
    words = ["another card of the same model"] if uuid else []
    words += [f"{_DETAILS.get(n, n)} {old} → {new}" for n, (old, new) in details.items()]
    return ", ".join(words)


def _cpu_sentences(changes: Changes) -> Iterator[str]:
    """Say what became of the processor; a new model explains its family and microcode."""
    model = changes.pop("cpu.model", None)
    if model:
        yield f"CPU {model[0]} → {model[1]}"
        for key in ("cpu.vendor", "cpu.family", "cpu.microcode"):
            changes.pop(key, None)
    features = changes.get("cpu.features")
    if features and all(map(measured, features)):
        del changes["cpu.features"]
        yield _feature_words(*(set(side.split()) - {NO_FEATURES} for side in features))


def _feature_words(old: set[str], new: set[str]) -> str:
    lost, gained = sorted(old - new), sorted(new - old)
    words = [f"lost {', '.join(lost)}"] if lost else []
    words += [f"gained {', '.join(gained)}"] if gained else []
    return f"CPU {'; '.join(words)}"
