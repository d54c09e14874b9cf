"""The kernel keeps a worker, its threads and what it starts from the network, on Linux alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ci_parity.base.process import worker_environment
from ci_parity.run.protocol import WorkerProcess
from ci_parity.run.runtime import WORKERS, prepare

PROBE = """
import errno, json, socket, subprocess, sys, threading

def opened(family):
    try:
        socket.socket(family).close()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "open"

told, asked = {}, threading.Event()
def thread():
    asked.wait()
    told["a thread from before"] = opened(socket.AF_INET)
before = threading.Thread(target=thread)
before.start()

sys.path.insert(0, sys.argv[1])
import no_network
if len(sys.argv) > 2:
    no_network.os.uname = lambda: type("Uname", (), {"machine": sys.argv[2]})
told["holds"] = no_network.refuse_network()

asked.set()
before.join()
told["internet"] = opened(socket.AF_INET)
told["internet, version 6"] = opened(socket.AF_INET6)
told["the machine"] = opened(socket.AF_UNIX)
child = "import socket; socket.socket()"
ended = subprocess.run([sys.executable, "-c", child], stderr=subprocess.DEVNULL)
told["a child"] = ended.returncode
print(json.dumps(told))
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filters are Linux's")


def told(*words: str) -> dict[str, object]:
    """Return what a process could open once it had refused itself the network."""
    argv = [sys.executable, "-c", PROBE, str(WORKERS), *words]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@linux
def test_sockets_of_the_internet_are_refused() -> None:
    """Of every thread and of what it starts; those within the machine are not."""
    assert told() == {
        "holds": True, "internet": "EACCES", "internet, version 6": "EACCES", "the machine": "open",
        "a thread from before": "EACCES", "a child": 1,
    }  # fmt: skip


def test_elsewhere_it_says_that_it_does_not_hold() -> None:
    """A processor that it does not know keeps its network, and the worker runs."""
    found = told("riscv64")
    assert (found["holds"], found["internet"]) == (False, "open")


@linux
def test_a_worker_runs_without_a_network(tmp_path: Path) -> None:
    """From before it loads its runtime, without what slows down such processes on old kernels."""
    with WorkerProcess(
        prepare("current", cache=tmp_path).argv, env=worker_environment(), cwd=tmp_path
    ) as worker:
        worker.request("hello", timeout_s=60)
        fields = dict(
            line.partition(":\t")[::2]
            for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines()
        )
    assert (fields["Seccomp"], fields["NoNewPrivs"]) == ("2", "1")
    assert "mitigated" not in fields.get("Speculation_Store_Bypass", "")
