"""Writing the standard's node tests, in a process of its own: `python -m ci_parity.coverage`.

The `onnx` package has its node tests as code: importing it makes every model, computes what each
must give, and leaves all of that in memory. That, and the random state that it sets, stays in this
process. Models are written as onnx makes them; values become value files.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.coverage.cases import write_case, write_index
from ci_parity.coverage.signatures import case_signatures
from ci_parity.coverage.undefined import why_undefined
from ci_parity.records.values import Value

if TYPE_CHECKING:
    from onnx import GraphProto

SOURCE = "onnx"


def main(arguments: Sequence[str]) -> None:
    """Write all cases and their index into the folder that is named."""
    folder = Path(arguments[0])
    # With Pillow at hand, onnx would draw and compress the images of ImageDecoder anew, and the
    # suite would depend on Pillow's version; without it, onnx takes those that it ships.
    sys.modules["PIL"] = None  # type: ignore[assignment]
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    oracle = f"the node tests of onnx {onnx.__version__}"
    cases = []
    for test in collect_testcases():
        assert test.model is not None
        assert test.data_sets is not None
        ((given, wanted),) = test.data_sets
        inputs = _values(test.model.graph, "input", given)
        outputs = _values(test.model.graph, "output", wanted)
        cases.append(
            write_case(
                f"{SOURCE}/{test.name}",
                test.model,
                inputs,
                outputs,
                folder / test.name,
                rtol=test.rtol,
                atol=test.atol,
                oracle=oracle,
                signatures=case_signatures(test.model, inputs, outputs),
                undefined=why_undefined(test.model, inputs),
            )
        )
    write_index(cases, folder)


def _values(graph: "GraphProto", ports: str, values: Sequence[Any]) -> dict[str, Value]:
    """Return values by the names of the ports they belong to, in the graph's order."""
    names = [port.name for port in getattr(graph, ports)]
    return {name: _value(value) for name, value in zip(names, values, strict=True)}


def _value(value: Any) -> Value:  # noqa: ANN401 - whatever a test of onnx holds
    import numpy as np
    import onnx

    if value is None:
        return None
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    return np.asarray(value)
