"""A model with the types and shapes that ONNX can infer, made in a process of its own.

Inlining functions and inferring shapes are native code over an untrusted model: where they crash or
do not end, that process is lost, and the model stays as it declares itself. Weights' data is left
behind, external data is never read.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base import process
from ci_parity.base.errors import InfrastructureError
from ci_parity.base.onnx_light import without_weights
from ci_parity.base.onnx_model import load_graph

if TYPE_CHECKING:
    from onnx import ModelProto

_TIMEOUT_S = 300.0
_LONGEST_VECTOR = 2**20
_PACKAGE_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A model as its signatures are read from it.

    Args:
        model: without larger weights, its functions inlined and its types inferred as far as known.
        weights: the names of everything that the model fixes, the weights left behind among them.
        trouble: why nothing was inferred, empty where it was.
    """

    model: "ModelProto"
    weights: frozenset[str]
    trouble: str = ""


def read_whole(path: Path, timeout_s: float = _TIMEOUT_S) -> Whole:
    """Read a model from a file that need not be trusted.

    Raises:
        EvidenceError: it is no model.
    """
    model = load_graph(path)
    weights = _weights(model)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "inferred.onnx"
        paths = (str(path.resolve()), str(out))
        argv = [sys.executable, "-P", "-m", "ci_parity.coverage.inference", *paths]
        env = process.worker_environment({"PYTHONPATH": str(_PACKAGE_ROOT)})
        try:
            done = process.run(argv, env=env, timeout_s=timeout_s, cwd=Path(scratch))
            trouble = "" if done.returncode == 0 else done.last_words or f"{done.returncode}"
        except InfrastructureError as error:
            trouble = error.what
        if not trouble:
            return Whole(model=load_graph(out), weights=weights)
    return Whole(model=without_weights(model), weights=weights, trouble=trouble)


def whole_of(model: "ModelProto") -> Whole:
    """Return a model of our own making with what can be inferred, without a process."""
    return Whole(model=_inferred(without_weights(model)), weights=_weights(model))


def _weights(model: "ModelProto") -> frozenset[str]:
    graph = model.graph
    return frozenset(
        [tensor.name for tensor in graph.initializer]
        + [sparse.values.name for sparse in graph.sparse_initializer]
    )


def _inferred(light: "ModelProto") -> "ModelProto":
    """Inline functions and infer types; each of the two is left out where it fails."""
    import onnx
    from onnx import inliner

    refusals = (onnx.shape_inference.InferenceError, RuntimeError, ValueError)
    if light.functions:
        try:
            light = inliner.inline_local_functions(light)
        except refusals:
            return light
    for propagate in (True, False) if _can_propagate(light) else (False,):
        try:
            return onnx.shape_inference.infer_shapes(light, data_prop=propagate)
        except refusals:
            continue
    return light


def _can_propagate(light: "ModelProto") -> bool:
    """Whether values may be followed: ONNX keeps one for each element of a vector."""
    sizes = [
        port.type.tensor_type.shape.dim[0].dim_value
        for port in light.graph.input
        if len(port.type.tensor_type.shape.dim) == 1
    ]
    return max(sizes, default=0) <= _LONGEST_VECTOR


def main(argv: Sequence[str]) -> None:
    """Write the model at the first path to the second one, types inferred."""
    source, target = (Path(arg) for arg in argv)
    target.write_bytes(_inferred(without_weights(load_graph(source))).SerializeToString())


if __name__ == "__main__":
    main(sys.argv[1:])
