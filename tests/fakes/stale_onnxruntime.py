"""onnxruntime with a cache of engines that goes by a model's file name, as some have gone by less.

    python stale_onnxruntime.py WHERE

WHERE is `memory` or `disk`, where the cache is; `nowhere` for none; `wrong` for none and answers
that are no model's. The provider in use is always the one that was asked for.
"""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from ci_parity.run.workers.onnxruntime_worker import OnnxRuntime, Session, created

if TYPE_CHECKING:
    from ci_parity.run.workers import wire
else:
    import wire

CPU = "CPUExecutionProvider"


class Renamed(Session):
    """A session on the CPU that says that it is on the provider that was asked for."""

    asked: str
    factor: int

    def values(self, result: Any) -> list[Any]:
        """Return the outputs, or what is none."""
        found = [value * self.factor for value in super().values(result)]
        self.providers = [self.asked, CPU]
        return found


class Stale(OnnxRuntime):
    """The runtime and its cache."""

    more_verbs: tuple[str, ...] = ()

    def __init__(self, where: str) -> None:
        self.where = where
        self.kept: dict[str, Renamed] = {}

    def open(self, request: dict[str, Any]) -> "wire.Model":
        """Load a model, or take for it what the cache has under its name."""
        path = Path(request["model"])
        if self.where == "disk":
            engine = Path("engines") / path.name
            if not engine.exists():
                engine.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, engine)
            path = engine
        if self.where == "memory" and path.name in self.kept:
            return self.kept[path.name]
        model = Renamed(created({**request, "model": str(path), "provider": CPU}))
        model.asked, model.factor = request["provider"], 3 if self.where == "wrong" else 1
        model.providers = [model.asked, CPU]
        self.kept[path.name] = model
        return model


if __name__ == "__main__":
    wire.serve(Stale(sys.argv[1]))
