"""Transform one model with one conversion tool: TOOL SOURCE TARGET INPUTS OPTIONS.

Runs in the environment of the tool and imports nothing of ours. INPUTS are an .npz file, for the
tools that calibrate; OPTIONS are JSON, as the corpus has them.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import onnx


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Apply the default rules of onnxscript's rewriter."""
    from onnxscript import rewriter

    result: onnx.ModelProto = rewriter.rewrite(model)
    return result


def simplified(model: onnx.ModelProto) -> onnx.ModelProto:
    """Simplify with onnxsim, without its own check."""
    import onnxsim

    result: onnx.ModelProto = onnxsim.simplify(model, check_n=0)[0]
    return result


def optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    """Apply the default passes of onnxoptimizer."""
    import onnxoptimizer

    result: onnx.ModelProto = onnxoptimizer.optimize(model)
    return result


def of_version(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
    """Convert to another version of the operator set."""
    from onnx import version_converter

    return version_converter.convert_version(model, target)


def quantize(source: str, target: str, inputs: str, options: dict[str, Any]) -> None:
    """Quantize to int8, calibrated on one set of inputs."""
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter([dict(np.load(inputs))])

        def get_next(self) -> "Any":
            return next(self.left, None)

    quantize_static(source, target, Reader(), **options)


TOOLS: dict[str, Callable[..., onnx.ModelProto]] = {
    "onnxscript.rewrite": rewritten,
    "onnxsim": simplified,
    "onnxoptimizer": optimized,
    "onnx.version_converter": of_version,
}


def main(tool: str, source: str, target: str, inputs: str, options: str) -> None:
    """Write the transformed model."""
    chosen = json.loads(options)
    if tool == "ort.quantize_static":
        quantize(source, target, inputs, chosen)
    else:
        onnx.save(TOOLS[tool](onnx.load(source), **chosen), target)


if __name__ == "__main__":
    main(*sys.argv[1:])
