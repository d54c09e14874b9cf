"""Small graphs with control flow, and the rounds that flatten them, on onnxruntime."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ci_parity.base.onnx_model import subgraphs
from ci_parity.localise.flatten import Flattened, answered, begin, probe, questions

Feeds = Mapping[str, Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Runner = Callable[..., Any]
MAX_ROUNDS = 40


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node; names are separated by blanks, `_` is the empty one."""
    taken, made = (
        ["" if name == "_" else name for name in side.split()] for side in (inputs, outputs)
    )
    return helper.make_node(op, taken, made, **attributes)


def tensor(name: str, values: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    """Return an initializer."""
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def port(name: str, kind: int = FLOAT, shape: Sequence[int | str | None] | None = None) -> Any:
    """Return the declaration of a tensor."""
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any],
    weights: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:  # fmt: skip
    """Return a graph; a port given by its name alone is a float tensor."""
    taken, made = (
        [port(p) if isinstance(p, str) else p for p in side] for side in (inputs, outputs)
    )
    return helper.make_graph(list(nodes), "g", taken, made, list(weights))


def body(
    nodes: Sequence[onnx.NodeProto], carried: Sequence[Any], outputs: Sequence[Any],
    weights: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:  # fmt: skip
    """Return the body of a Loop: turn `i`, condition `c`, which goes on as `more`."""
    inputs = [port("i", INT64, []), port("c", BOOL, []), *carried]
    return graph(
        [node("Identity", "c", "more"), *nodes], inputs, [port("more", BOOL, []), *outputs], weights
    )


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any],
    weights: Sequence[onnx.TensorProto] = (), *, opset: int = 17, ir: int = 8,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:  # fmt: skip
    """Return a model; functions are of the domain `own`."""
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid("own", 1)] if functions else []
    made = helper.make_model(
        graph(nodes, inputs, outputs, weights), opset_imports=opsets, functions=list(functions)
    )
    made.ir_version = ir
    return made


def run(made: onnx.ModelProto, feeds: Feeds, outputs: Sequence[str] | None = None) -> list[Any]:
    """Return outputs on onnxruntime, which optimises nothing."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(made.SerializeToString(), options)
    found: list[Any] = session.run(outputs, dict(feeds))
    return found


def on_reference(made: onnx.ModelProto, feeds: Feeds, outputs: Sequence[str] | None = None) -> Any:
    """Return outputs on ONNX's own evaluator."""
    return ReferenceEvaluator(made).run(outputs, dict(feeds))


def rounds(made: onnx.ModelProto, feeds: Feeds, runner: Runner = run) -> Flattened:
    """Ask and answer until nothing is left to ask."""
    flat = begin(made)
    for _ in range(MAX_ROUNDS):
        asked = [question.output for question in questions(flat)]
        if not asked:
            return flat
        flat = answered(flat, dict(zip(asked, runner(probe(flat), feeds, asked), strict=True)))
    raise AssertionError("the questions do not end")


def flattened(made: onnx.ModelProto, feeds: Feeds, runner: Runner = run) -> Flattened:
    """Flatten a model for a case; it must be flat, valid, and compute the same bits."""
    before = made.SerializeToString()
    flat = rounds(made, feeds, runner)
    assert made.SerializeToString() == before
    names = [one.name for one in flat.model.graph.node]
    assert len(set(names)) == len(names)
    assert set(flat.origin) == set(names)
    assert flat.left.keys() <= set(names)
    nested = {one.name for one in flat.model.graph.node if list(subgraphs(one))}
    assert nested <= flat.left.keys()
    if valid(made):
        onnx.checker.check_model(flat.model)
    same(runner(flat.model, feeds), runner(made, feeds))
    return flat


def valid(made: onnx.ModelProto) -> bool:
    """Whether ONNX's checker accepts a model; it wants the shape of every output."""
    try:
        onnx.checker.check_model(made)
    except onnx.checker.ValidationError:
        return False
    return True


def same(these: Sequence[Any], those: Sequence[Any]) -> None:
    """Compare outputs bit for bit: arrays, and sequences of arrays."""
    assert len(these) == len(those)
    for this, other in zip(these, those, strict=True):
        if isinstance(this, list):
            same(this, other)
        else:
            assert (this.dtype, this.shape) == (other.dtype, other.shape)
            # The bytes of an array of words are addresses.
            words = this.dtype == object
            assert this.tolist() == other.tolist() if words else this.tobytes() == other.tobytes()


def paths(flat: Flattened) -> list[str]:
    """Return where each node of the flat graph came from."""
    return [flat.origin[one.name] for one in flat.model.graph.node]


def numbers(*shape: int, seed: int = 3) -> Any:
    """Return normally distributed float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
