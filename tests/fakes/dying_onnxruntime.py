"""onnxruntime that comes to grief on chosen models, told by the folders they lie in.

    python dying_onnxruntime.py FATE

FATE is a JSON object of folder names: `aborts` end the process by a signal, `hangs` never answer,
`tires` end it where another model was loaded before, `babbles` are answered with no JSON, `errs`
are computed, and one is added to the first output.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from ci_parity.run.workers.onnxruntime_worker import OnnxRuntime

if TYPE_CHECKING:
    from ci_parity.run.workers import wire
else:
    import wire


class Dying(OnnxRuntime):
    """The runtime and its fate."""

    def __init__(self, fate: dict[str, list[str]]) -> None:
        self.fate = fate
        self.loaded = 0

    def open(self, request: dict[str, Any]) -> wire.Model:
        """Load a model, or do not."""
        name = Path(request["model"]).parent.name
        self.loaded += 1
        if name in self.fate.get("aborts", ()) or (
            name in self.fate.get("tires", ()) and self.loaded > 1
        ):
            os.abort()
        if name in self.fate.get("hangs", ()):
            time.sleep(3600)
        if name in self.fate.get("babbles", ()):
            os.write(ANSWERS, b"good day\n")
        model = super().open(request)
        return Erring(model) if name in self.fate.get("errs", ()) else model


class Erring(wire.Model):
    """A model that is one off."""

    def __init__(self, model: wire.Model) -> None:
        self.model = model
        self.inputs, self.outputs, self.providers = model.inputs, model.outputs, model.providers

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Do what the model does."""
        return self.model.prepare(feeds)

    def infer(self, prepared: Any) -> Any:
        """Do what the model does."""
        return self.model.infer(prepared)

    def values(self, result: Any) -> list[Any]:
        """Return what the model computes, the first one off."""
        first, *rest = self.model.values(result)
        return [first + 1, *rest]


# Where answers go: `wire.serve` keeps its own copy and turns 1 into standard error.
ANSWERS = os.dup(1)


if __name__ == "__main__":
    wire.serve(Dying(json.loads(sys.argv[1])))
