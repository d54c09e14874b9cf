"""What the installed onnxruntime lists of itself, as its worker says."""

from collections.abc import Iterator
from dataclasses import replace

import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.base.process import worker_environment
from ci_parity.coverage.presence import presence_of
from ci_parity.records.coverage import Listing, Port, Presence, Signature
from ci_parity.run.kernels import listing_in
from ci_parity.run.protocol import WorkerError, WorkerProcess
from ci_parity.run.runtime import prepare
from tests.unit.run.workers.bench import FLOAT, PROVIDER, Bench, floats, identity, model, tensor

X = Port(kind="tensor", dtype="float32", shape=("n",))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Start one worker for all tests of this module."""
    folder = tmp_path_factory.mktemp("exchange")
    argv = prepare("current", cache=folder).argv
    with WorkerProcess(argv, env=worker_environment(), cwd=folder) as process:
        yield Bench(process, folder)


@pytest.fixture(scope="module")
def listing(bench: Bench) -> Listing:
    """Return what it lists."""
    return listing_in(bench.ask("kernels"))


def signature(op_type: str, version: int, *dtypes: str) -> Signature:
    """Return a signature of tensors that gives what its first input is."""
    ports = tuple(replace(X, dtype=dtype) for dtype in dtypes)
    return Signature(
        domain="", op_type=op_type, since_version=version, attributes=(), defaults=(),
        inputs=ports, outputs=ports[:1],
    )  # fmt: skip


def test_kernels_of_every_domain_are_listed(listing: Listing) -> None:
    """With what each port takes, for operators of the runtime's own too."""
    assert len(listing.kernels) > 1000
    assert {"", "ai.onnx.ml", "com.microsoft"} <= {kernel.domain for kernel in listing.kernels}
    fused = [k for k in listing.kernels if (k.domain, k.op_type) == ("com.microsoft", "FusedGemm")]
    assert [kernel.inputs for kernel in fused] == [(("tensor(float)",),) * 3]


def test_the_loaded_model_stays(bench: Bench) -> None:
    """Asking costs nothing of what is there."""
    bench.load(identity(FLOAT))
    bench.ask("kernels")
    assert list(bench.run({"x": floats(1)})) == ["y"]


@pytest.mark.parametrize(
    ("asked", "op_type", "dtype", "presence"),
    [
        (signature("Relu", 14, "float32"), "Relu", FLOAT, Presence.PRESENT),
        (signature("Relu", 14, "uint16"), "Relu", TensorProto.UINT16, Presence.ABSENT),
        (signature("Relu", 14, "float16"), "Relu", TensorProto.FLOAT16, Presence.PRESENT),
        (signature("Mish", 18, "float32"), "Mish", FLOAT, Presence.PRESENT),
        (signature("Erf", 13, "float64"), "Erf", TensorProto.DOUBLE, Presence.ABSENT),
        (signature("Sign", 13, "bfloat16"), "Sign", TensorProto.BFLOAT16, Presence.PRESENT),
    ],
)
def test_the_listing_agrees_with_what_loads(
    bench: Bench, listing: Listing, asked: Signature, op_type: str, dtype: int, presence: Presence
) -> None:
    """A kernel, a cast, a body of other operators, or none: held against a model of one node."""
    node = helper.make_node(op_type, ["x"], ["y"])
    graph = helper.make_graph([node], "g", [tensor("x", dtype, [2])], [tensor("y", dtype, [2])])
    opsets = [helper.make_opsetid("", 18)]
    one_node = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    assert presence_of(asked, listing, PROVIDER).presence is presence
    assert loads(bench, one_node) is (presence is Presence.PRESENT)


def loads(bench: Bench, one_node: onnx.ModelProto) -> bool:
    """Whether the runtime loads a model."""
    try:
        bench.load(one_node)
    except WorkerError as error:
        if "NOT_IMPLEMENTED" in error.message or "INVALID_GRAPH" in error.message:
            return False
        raise
    return True


def test_what_has_no_kernel_and_needs_none_loads(bench: Bench, listing: Listing) -> None:
    """Constants are resolved as the graph is loaded."""
    value = helper.make_tensor("v", FLOAT, [2], [1.0, 2.0])
    constant = helper.make_node("Constant", [], ["c"], value=value)
    bench.load(
        model([tensor("x", FLOAT, [2])], [tensor("y", FLOAT, [2])], constant,
              helper.make_node("Add", ["x", "c"], ["y"]))
    )  # fmt: skip
    assert not [kernel for kernel in listing.kernels if kernel.op_type == "Constant"]
    found = presence_of(signature("Constant", 13), listing, PROVIDER)
    assert found.presence is Presence.PRESENT
