"""A runtime whose result is its input plus what each part of the system adds to it.

    python adding_runtime.py OWN

It speaks the worker protocol without NumPy, so that it starts in a moment. OWN is a JSON object,
and so is the model's file: `adds` is what it adds; `with` maps a word to what is added where a part
has it among its `words`; `refuses` are words of models that it does not load; `crashes` are words
at which the process ends, `raises` those at which a run fails, or `load`; `drifts` adds another
number in every run. The session options `execution_mode` and `graph_optimization_level` are words
too.
"""

import json
import os
import sys
import time
from array import array
from typing import Any


class Adding:
    """The runtime, with the words of everything that is loaded."""

    def __init__(self, own: dict[str, Any]) -> None:
        self.parts = [own]
        self.words: set[str] = set()
        self.provider = ""

    def hello(self, _: dict[str, Any]) -> dict[str, Any]:
        """Say what it is."""
        return {
            "protocol": 1, "runtime": "adding", "version": "1", "python": "3", "build": "",
            "providers": ["CPUExecutionProvider", "Other"], "verbs": ["hello", "load", "run"],
        }  # fmt: skip

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read the model, unless it has a word this runtime refuses."""
        own = self.parts[0]
        with open(request["model"], encoding="utf-8") as stream:  # noqa: PTH123 - starts sooner
            model = json.load(stream)
        options = request["session_options"]
        mode = options.get("execution_mode", "sequential")
        level = options.get("graph_optimization_level", "enable_all")
        self.words = {*own.get("words", ()), *model.get("words", ()), mode, level}
        refused = sorted(self.words & set(own.get("refuses", ())))
        if refused:
            raise ValueError(f"operator set {', '.join(refused)} is not supported")
        if "load" in model.get("raises", ()):
            raise ValueError("the graph has a cycle through its last node")
        self.parts, self.provider = [own, model], request["provider"]
        return {"providers": [self.provider]}

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return y = x + everything that is added, or end as a part says."""
        (x,) = request["inputs"]
        values = array("f")
        with open(os.path.join(request["input_folder"], x["file"]), "rb") as stream:  # noqa: PTH118, PTH123
            values.frombytes(stream.read())
        total = sum(map(self.added, self.parts))
        name = f"{request['stem']}.bin"
        with open(os.path.join(request["folder"], name), "wb") as stream:  # noqa: PTH118, PTH123
            stream.write(array("f", [value + total for value in values]).tobytes())
        y = {**x, "name": "y", "file": name}
        return {"outputs": [y], "repeats": [], "duration_ms": 1.0, "providers": [self.provider]}

    def added(self, part: dict[str, Any]) -> float:
        """Return what one part adds."""
        if self.words & set(part.get("crashes", ())):
            os._exit(9)
        if self.words & set(part.get("raises", ())):
            raise ValueError("division by zero in the only node")
        more = sum(more for word, more in part.get("with", {}).items() if word in self.words)
        drift = time.monotonic_ns() % 1_000_003 if part.get("drifts") else 0
        return float(part.get("adds", 0.0) + more + drift)


def serve(runtime: Adding) -> None:
    """Answer one line with one line."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, **getattr(runtime, request["verb"])(request)}
        except ValueError as error:
            answer = {"ok": False, "error": str(error)}
        sys.stdout.write(json.dumps({**answer, "id": request["id"]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(Adding(json.loads(sys.argv[1])))
