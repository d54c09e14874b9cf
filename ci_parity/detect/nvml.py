"""NVIDIA's management library: the seam, and its one real door.

The door calls `libnvidia-ml` through ctypes, for the dozen questions the driver axis asks and the
sensors that are read while something is timed; none of them changes anything. Signatures, buffer
sizes and return codes follow `nvml.h`. It refuses nothing: an answer that cannot be had is an
`NvmlError` with the code.
"""

import ctypes
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

NOT_SUPPORTED = 3
FUNCTION_NOT_FOUND = 13
_REASONS = {
    2: "invalid argument",
    NOT_SUPPORTED: "not supported",
    4: "no permission",
    6: "not found",
    9: "the NVIDIA driver is not loaded",
    12: "a library of the driver was not found",
    FUNCTION_NOT_FOUND: "the library lacks this function",
    15: "the GPU has fallen off the bus",
    17: "the operating system refused access to the device",
    18: "driver and library versions differ; the driver was upgraded without a reboot",
    999: "unknown error; a container loses its devices when the host reloads its daemons",
}
_LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
_TEXT_BYTES = 96
_SM_CLOCK = 1
_MAX_PROCESSES = 256
# What stands for a size that the driver does not tell, as under Windows.
_HIDDEN = 2**64 - 1
_MISSING = ("No such file", "not found", "Could not find module")


class NvmlMissingError(Exception):
    """There is no management library here."""


class NvmlError(Exception):
    """A question that brought no answer, and the library's return code for it."""

    def __init__(self, code: int, detail: str = "") -> None:
        self.code = code
        super().__init__(f"{detail or _REASONS.get(code, 'NVML error')} ({code})")


class NvmlDevice(Protocol):
    """One GPU. Modes are (current, pending), 0 or 1; every method may raise `NvmlError`."""

    def name(self) -> str:
        """Return the product name."""

    def uuid(self) -> str:
        """Return the identity of this very card."""

    def vbios(self) -> str:
        """Return the version of its firmware."""

    def compute_capability(self) -> tuple[int, int]:
        """Return (major, minor)."""

    def memory_bytes(self) -> int:
        """Return the size of its memory, free or not."""

    def mig_mode(self) -> tuple[int, int]:
        """Return whether it is partitioned."""

    def ecc_mode(self) -> tuple[int, int]:
        """Return whether its memory corrects errors."""


class NvmlSensors(Protocol):
    """What one GPU is doing now; every method may raise `NvmlError`."""

    def clock_mhz(self) -> int:
        """Return the clock of its multiprocessors."""

    def slowdowns(self) -> int:
        """Return why its clocks are not higher, as the library's bits."""

    def processes(self) -> Mapping[int, int | None]:
        """Return the bytes that each process computing on it holds, `None` where it hides them."""


class NvmlSession(Protocol):
    """The library between initialisation and shutdown; every method may raise `NvmlError`."""

    def driver_version(self) -> str:
        """Return the version of the kernel driver."""

    def cuda_driver_version(self) -> int:
        """Return 1000 * major + 10 * minor of the newest CUDA the driver speaks."""

    def device_count(self) -> int:
        """Return how many GPUs this process may see."""

    def device(self, index: int) -> NvmlDevice:
        """Return one of them."""

    def sensors(self, index: int) -> NvmlSensors:
        """Return the sensors of one of them."""


class Nvml(Protocol):
    """The management library, present or not."""

    def session(self) -> AbstractContextManager[NvmlSession]:
        """Initialise the library for a `with` block.

        Raises:
            NvmlMissingError: there is none.
            NvmlError: it cannot be initialised.
        """


class LibraryNvml:
    """The management library of this machine."""

    def __init__(self, library: str = _LIBRARY) -> None:
        self._library = library

    @contextmanager
    def session(self) -> Iterator[NvmlSession]:
        """Load, initialise and in the end shut the library down."""
        library = _load(self._library)
        _call(library, "nvmlInit_v2")
        try:
            yield _LibrarySession(library)
        finally:
            library.nvmlShutdown()


class _LibrarySession:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def driver_version(self) -> str:
        return _text(self._library, "nvmlSystemGetDriverVersion")

    def cuda_driver_version(self) -> int:
        value = ctypes.c_int()
        _call(self._library, "nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(value))
        return value.value

    def device_count(self) -> int:
        value = ctypes.c_uint()
        _call(self._library, "nvmlDeviceGetCount_v2", ctypes.byref(value))
        return value.value

    def device(self, index: int) -> NvmlDevice:
        return self._device(index)

    def sensors(self, index: int) -> NvmlSensors:
        return self._device(index)

    def _device(self, index: int) -> "_LibraryDevice":
        handle = ctypes.c_void_p()
        number = ctypes.c_uint(index)
        _call(self._library, "nvmlDeviceGetHandleByIndex_v2", number, ctypes.byref(handle))
        return _LibraryDevice(self._library, handle)


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _LibraryDevice:
    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle

    def name(self) -> str:
        return _text(self._library, "nvmlDeviceGetName", self._handle)

    def uuid(self) -> str:
        return _text(self._library, "nvmlDeviceGetUUID", self._handle)

    def vbios(self) -> str:
        return _text(self._library, "nvmlDeviceGetVbiosVersion", self._handle)

    def compute_capability(self) -> tuple[int, int]:
        return self._pair("nvmlDeviceGetCudaComputeCapability")

    def memory_bytes(self) -> int:
        memory = _Memory()
        _call(self._library, "nvmlDeviceGetMemoryInfo", self._handle, ctypes.byref(memory))
        return int(memory.total)

    def mig_mode(self) -> tuple[int, int]:
        return self._pair("nvmlDeviceGetMigMode")

    def ecc_mode(self) -> tuple[int, int]:
        return self._pair("nvmlDeviceGetEccMode")

    def clock_mhz(self) -> int:
        clock = ctypes.c_uint()
        kind = ctypes.c_uint(_SM_CLOCK)
        _call(self._library, "nvmlDeviceGetClockInfo", self._handle, kind, ctypes.byref(clock))
        return clock.value

    def slowdowns(self) -> int:
        reasons = ctypes.c_ulonglong()
        pointer = ctypes.byref(reasons)
        try:
            _call(
                self._library, "nvmlDeviceGetCurrentClocksEventReasons", self._handle, pointer
            )  # fmt: skip
        except NvmlError as error:
            if error.code != FUNCTION_NOT_FOUND:
                raise
            older = "nvmlDeviceGetCurrentClocksThrottleReasons"
            _call(self._library, older, self._handle, pointer)
        return int(reasons.value)

    def processes(self) -> Mapping[int, int | None]:
        count = ctypes.c_uint(_MAX_PROCESSES)
        found = (_Process * _MAX_PROCESSES)()
        _call(
            self._library, "nvmlDeviceGetComputeRunningProcesses_v3", self._handle,
            ctypes.byref(count), found,
        )  # fmt: skip
        return {
            one.pid: None if one.used_bytes == _HIDDEN else int(one.used_bytes)
            for one in found[: count.value]
        }

    def _pair(self, function: str) -> tuple[int, int]:
        first, second = ctypes.c_int(), ctypes.c_int()
        _call(
            self._library, function, self._handle, ctypes.byref(first), ctypes.byref(second)
        )  # fmt: skip
        return first.value, second.value


def _load(name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        reason = str(error)
        if any(words in reason for words in _MISSING):
            raise NvmlMissingError(name) from None
        raise NvmlError(12, f"{name} cannot be loaded: {reason}") from None


def _call(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise NvmlError(FUNCTION_NOT_FOUND) from None
    code = function(*arguments)
    if code:
        raise NvmlError(code)


def _text(library: ctypes.CDLL, name: str, *arguments: object) -> str:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    _call(library, name, *arguments, buffer, ctypes.c_uint(_TEXT_BYTES))
    return buffer.value.decode("utf-8", "replace")
