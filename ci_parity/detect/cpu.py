"""The host's processor: what selects a kernel, how many threads there are and who limits them.

Part of the driver-and-host axis. Clock frequencies are never read: they change by themselves.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from ci_parity.detect.host_files import HostFiles, count_of
from ci_parity.records.facts import ABSENT, Facts, fact, reading

# The instruction sets that onnxruntime, NumPy and BLAS libraries pick kernels by: the field of
# /proc/cpuinfo that lists them on x86 and on Arm, whole names, and the beginnings of families.
_FEATURES: Mapping[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "flags": (frozenset({"f16c", "fma", "sse4_1"}), ("avx", "amx")),
    "Features": (frozenset({"bf16", "fcma", "fphp", "i8mm"}), ("asimd", "sve", "sme")),
}
NO_FEATURES = "none"
_MAX_FEATURE_CHARS = 1000
_NO_QUOTA = ("max", "-1")
_GROUPS = "sys/fs/cgroup"


def cpu_facts(files: HostFiles, machine: str, cores: int | None) -> Facts:
    """Return the processor's facts; `machine` and `cores` are what the platform itself says."""
    try:
        fields = _fields(files.read("proc/cpuinfo"))
        unread = ABSENT
    except OSError:
        fields, unread = {}, files.fact("proc/cpuinfo")
    return {
        "cpu.architecture": fact(machine),
        "cpu.model": _model(fields) or unread,
        "cpu.vendor": _joined(fields, "vendor_id", "CPU implementer") or unread,
        "cpu.family": _family(fields) or unread,
        "cpu.microcode": _joined(fields, "microcode") or unread,
        "cpu.features": _features(fields) or unread,
        "cpu.cores": _cores(files, cores),
        "cpu.affinity": reading(lambda: _affinity(files)),
        "cpu.governor": _governor(files),
        "cpu.quota": reading(lambda: _quota(files)),
    }


def _fields(text: str) -> dict[str, list[str]]:
    """Return the distinct values of each field over all processors, in order."""
    fields: dict[str, dict[str, None]] = {}
    for line in dict.fromkeys(text.splitlines()):
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), {})[value.strip()] = None
    return {name: list(values) for name, values in fields.items()}


def _joined(fields: dict[str, list[str]], *names: str) -> str:
    for name in names:
        if name in fields:
            return fact(", ".join(fields[name]))
    return ""


def _model(fields: dict[str, list[str]]) -> str:
    named = _joined(fields, "model name", "cpu")
    part = _joined(fields, "CPU part")
    return named or (f"Arm part {part}" if part else "")


def _family(fields: dict[str, list[str]]) -> str:
    names = {
        "family": "cpu family", "model": "model", "stepping": "stepping",
        "variant": "CPU variant", "revision": "CPU revision",
    }  # fmt: skip
    words = [f"{word} {_joined(fields, name)}" for word, name in names.items() if name in fields]
    return " ".join(words)


def _features(fields: dict[str, list[str]]) -> str:
    """Return the features every processor has; threads may land on the least of them."""
    for field, (names, families) in _FEATURES.items():
        if field in fields:
            common = set.intersection(*(set(value.split()) for value in fields[field]))
            kept = sorted(f for f in common if f in names or f.startswith(families))
            return fact(" ".join(kept) or NO_FEATURES, max_chars=_MAX_FEATURE_CHARS)
    return ""


def _cores(files: HostFiles, cores: int | None) -> str:
    online = reading(lambda: str(count_of(files.read("sys/devices/system/cpu/online"))))
    if online == ABSENT and cores is not None:
        return str(cores)
    return online


def _affinity(files: HostFiles) -> str:
    for line in files.read("proc/self/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return str(count_of(line.partition(":")[2]))
    raise ValueError("no Cpus_allowed_list in /proc/self/status")


def _governor(files: HostFiles) -> str:
    found = files.find("sys/devices/system/cpu/cpufreq/policy*/scaling_governor")
    return ", ".join(sorted({files.fact(path) for path in found})) or ABSENT


def _quota(files: HostFiles) -> str:
    """Return the tightest quota of this process' control groups (version 2, then 1), in CPUs."""
    limits: list[float] = []
    for line in files.read("proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            limits += _limits(files, _GROUPS, path, ("cpu.max",))
        elif "cpu" in controllers.split(","):
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            limits += _limits(files, f"{_GROUPS}/cpu", path, names)
    return f"{min(limits):.2f} CPUs" if limits else "unlimited"


def _limits(files: HostFiles, mount: str, path: str, names: tuple[str, ...]) -> list[float]:
    """Return the limits of a group and of all above it that are visible here."""
    limits = []
    for group in (PurePosixPath(path), *PurePosixPath(path).parents):
        folder = f"{mount}/{group.as_posix().strip('/')}"
        try:
            quota, period = " ".join(files.read(f"{folder}/{name}") for name in names).split()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if quota not in _NO_QUOTA:
            limits.append(int(quota) / int(period))
    return limits
