"""A Docker daemon for the tests: the one that answers, else one started for as long as needed.

A daemon that was found running is never stopped or reconfigured. One started here gets a fresh
run-time folder, so that what a killed daemon left behind cannot stop it, and the default data
folder, so that images and build layers outlive it.
"""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import docker

from tests.integration.support.cache import cache_dir, exclusive
from tests.integration.support.debian import HostLacksError, require_program

SOCKET = "unix:///var/run/docker.sock"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
PING_TIMEOUT_S = 5
CLIENT_TIMEOUT_S = 900


@contextlib.contextmanager
def docker_daemon() -> Iterator[docker.DockerClient]:
    """Yield a client of a daemon that answers; stop the daemon at the end if we started it.

    Raises ``HostLacksError`` where none answers and none can be started.
    """
    with contextlib.ExitStack() as stack:
        with exclusive("dockerd"):
            if not answers():
                stack.enter_context(_own_daemon())
        client = docker.DockerClient(base_url=SOCKET, timeout=CLIENT_TIMEOUT_S)
        stack.callback(client.close)
        yield client


def answers() -> bool:
    """Tell whether a daemon serves the standard socket.

    Asked without docker-py, whose client leaks its sockets where nobody answers.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PING_TIMEOUT_S)
        try:
            connection.connect(SOCKET.removeprefix("unix://"))
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            status = connection.recv(64)
        except OSError:
            return False
    return status.startswith(b"HTTP/1.0 200")


@contextlib.contextmanager
def _own_daemon() -> Iterator[None]:
    if os.geteuid() != 0:
        raise HostLacksError(f"no Docker daemon answers on {SOCKET}: start one, or run as root")
    require_program("dockerd", "docker.io")
    with contextlib.ExitStack() as stack:
        # Installing the package starts the service on some machines.
        if not answers():
            run_time = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dockerd-")))
            stack.callback(_unmount, run_time)
            process = _launch(run_time, cache_dir() / "dockerd.log")
            stack.callback(_stop, process)
            _await_answer(process, cache_dir() / "dockerd.log")
        yield


def _launch(run_time: Path, log: Path) -> subprocess.Popen[bytes]:
    # A session of its own: an interrupt at the terminal must not end it before the tests clean up.
    command = ["dockerd", f"--host={SOCKET}"]
    command += [f"--exec-root={run_time}/exec", f"--pidfile={run_time}/docker.pid"]
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def _await_answer(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            last_words = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise HostLacksError(f"dockerd does not come up; its last words:\n{last_words}")
        time.sleep(0.2)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _unmount(run_time: Path) -> None:
    """Undo the mounts that a stopped daemon leaves in its run-time folder."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    for mount in reversed([mount for mount in mounts if Path(mount).is_relative_to(run_time)]):
        subprocess.run(["umount", mount], check=True)
