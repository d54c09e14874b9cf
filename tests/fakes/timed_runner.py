"""A runner that can be timed, with the faults that timing and watching memory must find.

    python timed_runner.py OWN

It speaks the worker protocol without NumPy. OWN is a JSON object: `sleeps_ms` is how long an
inference sleeps (3), `ballast_mib` what the loaded model holds, `leaks_mib` what each inference
keeps, `churns_mib` what each takes and gives back; with `child` its memory is that of a process it
starts; `says` is answered beside the samples.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

MIB = 1024 * 1024
_CHILD = "import sys; held = b'x' * int(sys.argv[1]); sys.stdin.read()"


class Timed:
    """The runner and what it holds."""

    def __init__(self, own: dict[str, Any]) -> None:
        self.own = own
        self.held: list[bytes] = []

    def hello(self, _: dict[str, Any]) -> dict[str, Any]:
        """Say what it is."""
        return {
            "protocol": 1, "runtime": "timed", "version": "1", "python": "3", "build": "",
            "providers": ["CPUExecutionProvider"], "verbs": ["hello", "load", "run", "time"],
        }  # fmt: skip

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Hold what a model holds."""
        size = int(self.own.get("ballast_mib", 0) * MIB)
        if self.own.get("child"):
            words = [sys.executable, "-I", "-S", "-c", _CHILD, str(size)]
            self.child = subprocess.Popen(words, stdin=subprocess.PIPE)
            time.sleep(0.5)
        else:
            self.held.append(b"x" * size)
        return {"load_ms": 1.0, "providers": [request["provider"]], "inputs": [], "outputs": []}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sleep, and take memory."""
        samples: list[int] = []
        end = time.perf_counter_ns() + int(request["min_ms"] * 1e6)
        while len(samples) < request["iterations"] or time.perf_counter_ns() < end:
            start = time.perf_counter_ns()
            time.sleep(self.own.get("sleeps_ms", 3) / 1000)
            self.held.append(b"x" * int(self.own.get("leaks_mib", 0) * MIB))
            b"x" * int(self.own.get("churns_mib", 0) * MIB)
            samples.append(time.perf_counter_ns() - start)
        return {"samples_ns": samples, **self.own.get("says", {})}


def main() -> None:
    """Answer until the input ends."""
    runner = Timed(json.loads(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(runner, request["verb"])(request)
        sys.stdout.write(json.dumps({"ok": True, "id": request["id"], **answer}) + "\n")
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
