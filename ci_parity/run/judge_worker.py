"""The judge worker: one file that loads a function of the repository and asks it, case by case.

It is started as a process of its own and speaks the worker protocol's lines: one JSON object a line
in, one out, with the verbs load and judge. Whatever the function prints becomes standard error. It
imports the standard library alone, decides nothing and checks nothing: that is done at the near
end, by `run.custom_judge`.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

Verb = Callable[[dict[str, Any]], dict[str, Any]]


def claim_channels() -> tuple[IO[str], IO[str]]:
    """Keep the real standard streams for the protocol.

    The function reads an empty standard input, and what it prints becomes standard error.
    """
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


class Worker:
    """The loaded function."""

    def __init__(self) -> None:
        self.function: Callable[[dict[str, Any]], object] | None = None

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Import the script, with its folder importable as for a script that is run."""
        script = Path(request["script"])
        sys.path.insert(0, str(script.parent))
        spec = importlib.util.spec_from_file_location(script.stem, script)
        if spec is None or spec.loader is None:
            raise ImportError(f"{script.name} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[script.stem] = module
        spec.loader.exec_module(module)
        self.function = getattr(module, request["function"])
        return {}

    def judge(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the function with the case; its answer is passed on as it is."""
        if self.function is None:
            raise RuntimeError("no script is loaded")
        return {"answer": self.function(request["case"])}


def plain(value: object) -> object:
    """Return the Python number of a NumPy scalar, which JSON does not know."""
    item = getattr(value, "item", None)
    if not callable(item):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    number: object = item()
    return number


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until the end of input."""
    worker = Worker()
    verbs: dict[str, Verb] = {"load": worker.load, "judge": worker.judge}
    for line in requests:
        request = json.loads(line)
        try:
            answer = {"ok": True, **verbs[request["verb"]](request)}
            text = json.dumps({**answer, "id": request["id"]}, default=plain, allow_nan=False)
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is its answer
            said = f"{type(error).__name__}: {error}"
            text = json.dumps({"ok": False, "error": said, "id": request["id"]})
        answers.write(f"{text}\n")
        answers.flush()


if __name__ == "__main__":
    serve(*claim_channels())
