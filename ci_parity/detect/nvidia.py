"""NVIDIA's part of the driver-and-host axis: kernel driver, CUDA driver, GPUs, libcuda, toolkit.

The kernel driver speaks through files that a container sees even without a GPU of its own; the rest
comes from NVML where it is there. A failing NVML is a fact, never an error: a driver upgraded
without a reboot is exactly what this axis is for.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from ci_parity.base.digest import sha256_file
from ci_parity.detect.host_files import HostFiles
from ci_parity.detect.nvml import NOT_SUPPORTED, Nvml, NvmlError, NvmlMissingError, NvmlSession
from ci_parity.records.facts import ABSENT, EMPTY, Facts, fact, failed, measured, reading

_VERSION_FILE = "proc/driver/nvidia/version"
_KERNEL_GPUS = "proc/driver/nvidia/gpus/*/information"
_KERNEL_MODULE = re.compile(r"(Open )?Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_CACHED_LIBCUDA = re.compile(rb"(/[^\0]*/libcuda\.so\.1)\0")
_USUAL_FOLDERS = (
    "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib/wsl/lib",
)  # fmt: skip
_ELF_64 = b"\x7fELF\x02"
_MIB = 1024 * 1024
_DETAILS = ("name", "uuid", "vbios", "compute", "memory", "mig", "ecc")


def nvidia_facts(files: HostFiles, nvml: Nvml, environment: Mapping[str, str]) -> Facts:
    """Return all facts of NVIDIA's driver and GPUs; `environment` may lead libcuda's search."""
    answers = _ask(files, nvml)
    driver = reading(lambda: _kernel_module(files)[1])
    return {
        # Windows and WSL have no such file; there the library's answer is all there is.
        "nvidia.driver": answers["nvidia.nvml"] if driver == ABSENT else driver,
        "nvidia.module": reading(lambda: _kernel_module(files)[0]),
        **answers,
        **_libcuda(files, environment.get("LD_LIBRARY_PATH", "")),
        "nvidia.toolkit": _toolkit(files),
        "nvidia.devices": files.names("dev/nvidia*"),
    }


def _kernel_module(files: HostFiles) -> tuple[str, str]:
    """Return the module's kind and version."""
    found = _KERNEL_MODULE.search(files.read(_VERSION_FILE))
    if not found:
        raise ValueError(f"no version in /{_VERSION_FILE}")
    return ("open" if found[1] else "proprietary"), found[2]


def _ask(files: HostFiles, nvml: Nvml) -> dict[str, str]:
    """Return what NVML says; without it, what the kernel driver says of its GPUs."""
    try:
        with nvml.session() as session:
            return _session_facts(session)
    except NvmlMissingError:
        reason = ABSENT
    except NvmlError as error:
        reason = failed(str(error))
    gpus = [_kernel_gpu(files, path, reason) for path in files.find(_KERNEL_GPUS)]
    numbered = {
        f"nvidia.gpu.{i}.{name}": value for i, gpu in enumerate(gpus) for name, value in gpu.items()
    }
    count = str(len(gpus)) if gpus else reason
    return {"nvidia.nvml": reason, "nvidia.cuda_driver": reason, "nvidia.gpus": count, **numbered}


def _session_facts(session: NvmlSession) -> dict[str, str]:
    facts = {
        "nvidia.nvml": _answer(session.driver_version),
        "nvidia.cuda_driver": _answer(lambda: _cuda_version(session.cuda_driver_version())),
        "nvidia.gpus": _answer(lambda: str(session.device_count())),
    }
    count = int(facts["nvidia.gpus"]) if measured(facts["nvidia.gpus"]) else 0
    for index in range(count):
        facts |= {f"nvidia.gpu.{index}.{n}": value for n, value in _gpu(session, index)}
    return facts


def _gpu(session: NvmlSession, index: int) -> Iterator[tuple[str, str]]:
    try:
        device = session.device(index)
    except NvmlError as error:
        yield from ((name, failed(str(error))) for name in _DETAILS)
        return
    questions = (
        device.name, device.uuid, device.vbios,
        lambda: ".".join(map(str, device.compute_capability())),
        lambda: f"{device.memory_bytes() // _MIB} MiB",
        lambda: _mode(*device.mig_mode()), lambda: _mode(*device.ecc_mode()),
    )  # fmt: skip
    yield from zip(_DETAILS, map(_answer, questions), strict=True)


def _answer(question: Callable[[], str]) -> str:
    try:
        return fact(question())
    except NvmlError as error:
        return "not supported" if error.code == NOT_SUPPORTED else failed(str(error))


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _mode(current: int, pending: int) -> str:
    words = ("disabled", "enabled")
    later = f" ({words[bool(pending)]} after a reset)" if current != pending else ""
    return words[bool(current)] + later


def _kernel_gpu(files: HostFiles, path: str, reason: str) -> dict[str, str]:
    """Return a GPU's facts from the kernel driver's file; the others fail as NVML did."""
    try:
        text = files.read(path)
    except OSError as error:
        return dict.fromkeys(_DETAILS, failed(error.strerror or "unreadable"))
    fields = {name.strip(): value.strip() for name, _, value in _split(text)}
    names = {"name": "Model", "uuid": "GPU UUID", "vbios": "Video BIOS"}
    found = {name: fields.get(field, "") for name, field in names.items()}
    # Question marks stand where the driver has not initialised the GPU yet.
    known = {n: fact(v) if v and "?" not in v else reason for n, v in found.items()}
    return dict.fromkeys(_DETAILS, reason) | known


def _split(text: str) -> Iterator[tuple[str, str, str]]:
    return (line.partition(":") for line in text.splitlines())


def _libcuda(files: HostFiles, search_path: str) -> dict[str, str]:
    """Return which libcuda a process here would load, and the digest of its bytes."""
    for candidate in _candidates(files, search_path):
        found = files.locate(candidate)
        if found is None:
            continue
        digest = reading(partial(_library_digest, found))
        if digest != EMPTY:
            name = "/" + found.relative_to(files.root).as_posix()
            return {"nvidia.libcuda": fact(name), "nvidia.libcuda.sha256": digest}
    return {"nvidia.libcuda": ABSENT, "nvidia.libcuda.sha256": ABSENT}


def _library_digest(path: Path) -> str:
    """Return a library's digest, nothing for one that a 64-bit loader passes over."""
    with path.open("rb") as stream:
        if stream.read(len(_ELF_64)) != _ELF_64:
            return ""
    return sha256_file(path)


def _candidates(files: HostFiles, search_path: str) -> Iterator[str]:
    """Yield where the loader looks, in its order: the variable, its cache, the usual folders."""
    yield from (f"{folder}/libcuda.so.1" for folder in search_path.split(":") if folder)
    try:
        cache = (files.root / "etc/ld.so.cache").read_bytes()
    except OSError:
        cache = b""
    cached = (path.decode("utf-8", "replace") for path in _CACHED_LIBCUDA.findall(cache))
    yield from dict.fromkeys(cached)
    yield from (f"{folder}/libcuda.so.1" for folder in _USUAL_FOLDERS)


def _toolkit(files: HostFiles) -> str:
    """Return the container toolkit's version from the package database, else its mere presence."""
    try:
        packages = files.read("var/lib/dpkg/status").split("\n\n")
    except OSError:
        packages = []
    for package in packages:
        if package.lstrip().startswith("Package: nvidia-container-toolkit\n"):
            fields = {name: value.strip() for name, _, value in _split(package)}
            if fields.get("Status", "").endswith(" installed"):
                return fact(fields.get("Version", ""))
    if files.locate("usr/bin/nvidia-ctk"):
        return "present, version unknown"
    return ABSENT
