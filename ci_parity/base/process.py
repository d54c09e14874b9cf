"""The one door to other programs: argument lists, chosen environments, time limits, no shell."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import InfrastructureError

# What a child needs to find its libraries, its trust store and its packages; secrets are not here.
_PASSED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USERPROFILE",
    "LOCALAPPDATA", "APPDATA", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
_PACKAGING = (
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "XDG_CACHE_HOME", "XDG_DATA_HOME", "NETRC",
)  # fmt: skip
_PACKAGING_PREFIXES = ("UV_", "PIP_")
_RUNTIME_PREFIXES = (
    "ORT_", "OMP_", "MKL_", "OPENBLAS_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "KMP_",
)  # fmt: skip
# Whatever starts like this stays here, listed or not: the first lets a model bring configuration
# behind the contract's back, the others are secrets that installing needs no more than running.
_NEVER = ("ORT_LOAD_CONFIG_FROM_MODEL", "UV_PUBLISH_")
# What an execution provider compiled in an earlier run, or for another model, and where it keeps
# that: each run compiles anew.
_KEPT_ENGINES = re.compile(r"ORT_\w*(CACHE|COMPILED|CONTEXT|DECRYPT)")
_NOT_INSIDE = ("_PATH", "_HOME", "_VISIBLE_DEVICES", "_DRIVER_CAPABILITIES")
# onnxruntime 1.29 and later report on the models they run unless told not to.
_QUIET = {"ORT_DISABLE_TELEMETRY": "1"}
_spawned: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a finished program left behind."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def last_words(self) -> str:
        """The last lines of standard error, else of standard output."""
        text = (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-5:])


def worker_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that runs a model: no secrets, no package settings."""
    return _chosen(_PASSED, _RUNTIME_PREFIXES) | _QUIET | dict(extra or {})


def container_environment() -> dict[str, str]:
    """Return the variables that a container gets: what steers a runtime, nothing else of ours.

    Paths are this machine's, and devices are the daemon's to give.
    """
    steering = _chosen((), _RUNTIME_PREFIXES)
    return {n: v for n, v in steering.items() if not n.endswith(_NOT_INSIDE)} | _QUIET


def packaging_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a program that installs packages or speaks to a git remote."""
    return _chosen(_PASSED + _PACKAGING, _PACKAGING_PREFIXES) | dict(extra or {})


def _chosen(names: Sequence[str], prefixes: Sequence[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if (name in names or name.startswith(tuple(prefixes)))
        and not (name.startswith(_NEVER) or _KEPT_ENGINES.match(name))
    }


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    cwd: Path | None = None,
    stdin: bytes = b"",
) -> Completed:
    """Run a program to its end and return what it printed, whatever its exit status.

    Raises:
        InfrastructureError: when it cannot be started or does not end in `timeout_s` seconds.
    """
    command = tuple(str(part) for part in argv)
    try:
        done = subprocess.run(
            command, input=stdin, env=dict(env), cwd=cwd, timeout=timeout_s, capture_output=True,
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise InfrastructureError(
            f"cannot start {command[0]}: {error.strerror or error}",
            where=" ".join(command),
            remedy="install the program or put it on PATH",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(
            f"{command[0]} did not end within {timeout_s:g} s", where=" ".join(command)
        ) from error
    return Completed(
        argv=command, returncode=done.returncode, stdout=done.stdout, stderr=done.stderr
    )


def spawn(
    argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    """Start a long-lived program in a process group of its own, with pipes to speak through.

    It is `kill_tree` that lets go of it; until then `kill_spawned` ends it.

    Raises:
        InfrastructureError: when it cannot be started.
    """
    command = tuple(str(part) for part in argv)
    try:
        with _interrupts_held():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                start_new_session=sys.platform != "win32",
            )
            _spawned.add(process)
    except OSError as error:
        raise InfrastructureError(
            f"cannot start {command[0]}: {error.strerror or error}", where=" ".join(command)
        ) from error
    return process


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Raise an interrupt that comes in the block at its end, when what was started is known."""
    if threading.current_thread() is not threading.main_thread():
        # They are raised in the main thread, wherever they arrive.
        yield
        return
    held: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: held.append(number)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if held:
            signal.raise_signal(held[0])


def wait(process: subprocess.Popen[bytes], *, timeout_s: float) -> int | None:
    """Return a spawned program's exit status, None when it does not end in `timeout_s` seconds."""
    try:
        return process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return None


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """End a spawned program and all it started, also where the program itself is gone already."""
    if sys.platform == "win32":
        process.kill()
    else:
        kill_tree_of(process.pid)
    process.wait()
    _spawned.discard(process)


def kill_spawned() -> None:
    """End all spawned programs that nobody has ended: an interrupt may come before any `with`."""
    for process in tuple(_spawned):
        kill_tree(process)


def kill_tree_of(pid: int) -> None:
    """End the process group that a spawned program leads; not on Windows, which has none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
