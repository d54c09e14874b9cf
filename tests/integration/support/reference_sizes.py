"""What each node of a model takes and gives, as ONNX's reference evaluator runs it.

Branches are run as they are, so that this owes nothing to how the product looks inside a model.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import _op

Node = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Name, operator, inputs and outputs, each such as `float32[1,n]`."""


def told(value: Any) -> str:
    """Return a value's element type and its sizes in words."""
    if value is None:
        return "absent[]"
    array = np.asarray(value)
    words = (str(size) if size in {0, 1} else "n" for size in array.shape)
    return f"{array.dtype}[{','.join(words)}]"


def executed(model: Path, case: Mapping[str, Any]) -> frozenset[Node]:
    """Return every node that ran on a case, wherever it stands."""
    found: set[Node] = set()
    with _recording(found):
        ReferenceEvaluator(onnx.load(model)).run(None, dict(case))
    return frozenset(found)


@contextmanager
def _recording(found: set[Node]) -> Iterator[None]:
    """Note what runs: `run` of the evaluator's operators, and those that have one of their own."""
    kinds = [kind for kind in vars(_op).values() if isinstance(kind, type)]
    kinds = [kind for kind in {OpRun, *kinds} if "run" in vars(kind)]
    originals = {kind: vars(kind)["run"] for kind in kinds}
    for kind, original in originals.items():
        kind.run = _noted(original, found)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for kind, original in originals.items():
            kind.run = original  # type: ignore[attr-defined]


def _noted(original: Callable[..., Any], found: set[Node]) -> Callable[..., Any]:
    def run(self: Any, *given: Any, **more: Any) -> Any:
        results = original(self, *given, **more)
        node = self.onnx_node
        outputs = [
            told(value) if name else "absent[]"
            for name, value in zip(node.output, results, strict=False)
        ]
        inputs = [told(value) for value in given]
        for ports in (inputs, outputs):
            while ports and ports[-1] == "absent[]":
                ports.pop()
        found.add((node.name, node.op_type, tuple(inputs), tuple(outputs)))
        return results

    return run
