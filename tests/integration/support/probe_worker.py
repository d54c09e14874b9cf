"""A worker that does with a case what the name of the case's input says; it runs in a container.

What it finds out travels as the text of an error, which an observation keeps.
"""

import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

CPU = ["CPUExecutionProvider"]


def fine(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Write one number."""
    file = f"{request['stem']}_o0.bin"
    with open(os.path.join(request["folder"], file), "wb") as stream:  # noqa: PTH118, PTH123
        stream.write(struct.pack("<f", 1.0))
    return [{"name": "y", "kind": "tensor", "dtype": "float32", "shape": [1], "file": file}]


def look(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Say what can be seen and done from inside."""
    with open("/proc/self/status", encoding="ascii") as stream:  # noqa: PTH123
        status = dict(line.rstrip("\n").split(":\t", 1) for line in stream if ":\t" in line)
    found = {
        "environment": dict(os.environ),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "capabilities": int(status["CapBnd"], 16),
        "no_new_privileges": status["NoNewPrivs"].strip(),
        "uid": os.getuid(),
        "model_folder": sorted(os.listdir(os.path.dirname(MODEL))),  # noqa: PTH120, PTH208
        "written": [path for path in ("/opt", request["input_folder"]) if writable(path)],
        "writable_mounts": writable_mounts(),
        "sockets": os.path.exists("/var/run/docker.sock"),  # noqa: PTH110
    }
    raise RuntimeError(json.dumps(found))


def writable_mounts() -> list[str]:
    """Return the root and what is mounted for us, as far as it is not read-only."""
    with open("/proc/self/mounts", encoding="utf-8") as stream:  # noqa: PTH123
        mounts = [line.split() for line in stream]
    return sorted(
        place
        for _, place, _, options, *_ in mounts
        if "rw" in options.split(",") and (place == "/" or place.startswith("/ci-parity"))
    )


def writable(folder: str) -> bool:
    """Whether a file can be made there."""
    try:
        with open(os.path.join(folder, "mine"), "w", encoding="ascii"):  # noqa: PTH118, PTH123
            return True
    except OSError:
        return False


def link(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer with an output that is a link to a file of the host."""
    records = fine(request)
    path = os.path.join(request["folder"], records[0]["file"])  # noqa: PTH118
    os.unlink(path)  # noqa: PTH108
    os.symlink("/etc/hostname", path)  # noqa: PTH211
    return records


def fill(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Write more than the disk holds, and leave it there."""
    with open(os.path.join(request["folder"], "fill"), "wb") as stream:  # noqa: PTH118, PTH123
        stream.write(bytes(2**20))
    return fine(request)


def memory(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Take more memory than there is."""
    return [{"name": str(len(bytearray(2**32))), "kind": "absent"} for _ in request]


def hang(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Never answer."""
    signal.pause()
    return fine(request)


def segv(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Crash, with last words."""
    sys.stderr.write("the floor is gone\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
    return fine(request)


def leave(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Exit in the midst of a case."""
    os._exit(len(request) and 3)


def flood(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Write without end and without a line's end."""
    while request:
        os.write(1, b"x" * 65536)
    return []


DEEDS: dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    deed.__name__: deed for deed in (fine, look, link, fill, memory, hang, segv, leave, flood)
}
MODEL = ""

for line in sys.stdin:
    request = json.loads(line)
    answer: dict[str, Any] = {"ok": True, "id": request["id"], "providers": CPU}
    if request["verb"] == "hello":
        answer.update(protocol=1, runtime="probe", version="1", python="", build="", verbs=[])
    elif request["verb"] == "load":
        MODEL = request["model"]
    else:
        try:
            answer.update(outputs=DEEDS[request["inputs"][0]["name"]](request), duration_ms=1)
        except Exception as error:  # noqa: BLE001 - it travels as the answer
            answer = {"ok": False, "id": request["id"], "error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
