"""Says what a container image has for a runtime, by the code that reads environments elsewhere.

It runs inside, in a folder with a copy of that code: one request in the form of the worker
protocol, one answer with `python`, whether there is an `onnxruntime`, and `facts`. The code that
reads packages needs Python 3.10; an older interpreter, from 3.8 on, answers without facts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path


def answer() -> dict[str, object]:
    """Return everything there is to say."""
    said: dict[str, object] = {
        "python": sys.version.split()[0],
        "onnxruntime": importlib.util.find_spec("onnxruntime") is not None,
        "facts": {},
    }
    if sys.version_info >= (3, 10):  # noqa: UP036 - the image's Python, not ours
        from ci_parity.run.facts import runtime_facts

        said["facts"] = dict(runtime_facts(Path(sys.executable), "", measure=True))
    return said


if __name__ == "__main__":
    # What the image has itself comes first: it is what is asked about.
    sys.path.append(sys.path.pop(0))
    request = json.loads(sys.stdin.readline())
    os.write(1, json.dumps(dict(answer(), id=request["id"], ok=True)).encode() + b"\n")
