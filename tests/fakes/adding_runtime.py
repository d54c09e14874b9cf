"""A runtime whose result is its input plus what each part of the system adds to it.

    python adding_runtime.py WORKERS OWN

WORKERS is the folder of `wire.py`. OWN is a JSON object, and so is the model's file: `adds` is what
it adds; `with` maps a word to what is added where another part has it among its `words`; `refuses`
are words of models that it does not load; `crashes` ends the process, `raises` the run; `drifts`
adds another number in every process. Session options are parts too: `execution_mode` is a word.
"""

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_parity.run.workers import wire
else:
    sys.path.insert(0, sys.argv[1])
    import wire


class Adding(wire.Runtime):
    """The runtime, which has words like a model."""

    name = "adding"

    def __init__(self, own: dict[str, Any]) -> None:
        self.own = own

    def hello(self) -> dict[str, Any]:
        """Say what it is."""
        return {"version": "1", "providers": ["CPUExecutionProvider", "Other"]}

    def open(self, request: dict[str, Any]) -> wire.Model:
        """Read the model, unless it has a word this runtime refuses."""
        with open(request["model"], encoding="utf-8") as stream:  # noqa: PTH123 - worker style
            model = json.load(stream)
        mode = request.get("session_options", {}).get("execution_mode", "sequential")
        words = {*self.own.get("words", ()), *model.get("words", ()), mode}
        refused = words & set(self.own.get("refuses", ()))
        if refused:
            raise RuntimeError(f"operator set {', '.join(sorted(refused))} is not supported")
        if "load" in model.get("raises", ()):
            raise RuntimeError("the graph has a cycle through its last node")
        return Sum([self.own, model], words, request["provider"])


class Sum(wire.Model):
    """y = x + everything that is added."""

    def __init__(self, parts: list[dict[str, Any]], words: set[str], provider: str) -> None:
        port = {"name": "x", "kind": "tensor", "dtype": "float32", "shape": [None]}
        self.inputs, self.outputs = [port], [dict(port, name="y")]
        self.providers = [provider]
        self.parts, self.words = parts, words

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Take the one input."""
        return feeds["x"]

    def infer(self, prepared: Any) -> Any:
        """Add, or end as a part says."""
        total = 0.0
        for part in self.parts:
            if self.words & set(part.get("crashes", ())):
                os._exit(9)
            if self.words & set(part.get("raises", ())):
                raise RuntimeError("division by zero in the only node")
            total += part.get("adds", 0.0)
            total += sum(more for word, more in part.get("with", {}).items() if word in self.words)
            if part.get("drifts"):
                total += time.monotonic_ns() % 1_000_003
        return prepared + prepared.dtype.type(total)

    def values(self, result: Any) -> list[Any]:
        """Return the one output."""
        return [result]


if __name__ == "__main__":
    wire.serve(Adding(json.loads(sys.argv[2])))
