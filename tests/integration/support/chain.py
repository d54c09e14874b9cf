"""A user's repository with a whole chain: source → exported → simplified → int8, on two targets.

The source is a classifier in NumPy, in double precision. `exported` is what an exporter would write
of it, a no-op included; `simplified` is a fusion of that; `int8` is what onnxruntime quantizes from
`simplified`. The target `edge` is a program that speaks the runner protocol.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.models import save
from tests.support.user_repository import UserRepository, empty_repository

Floats = npt.NDArray[np.floating]
CASES = {"one": 1, "batch": 5}
CONFIG = """\
version: 1
deployment: chain
variants:
  int8: {path: int8.onnx, from: simplified}
  simplified: {path: simplified.onnx, from: exported}
  exported: {path: exported.onnx}
targets:
  cpu: {runtime: current, session_options: {intra_op_num_threads: 1}}
  edge: {runtime: {command: [./edge]}, session_options: {intra_op_num_threads: 1}}
fixtures: fixtures
policy:
  latency: {measure: false}
  self_checks: {repeat: 1, rows: false, order: false, padding: false, threads: false}
"""
EDGE = """\
#!{python} -B
from ci_parity.run.workers import onnxruntime_worker
import wire


class Session(onnxruntime_worker.Session):
    def values(self, result):
        return [value * type(value.flat[0])({gain}) for value in super().values(result)]


class Edge(onnxruntime_worker.OnnxRuntime):
    name = "edge"

    def open(self, request):
        opened = super().open(request)
        opened.__class__ = Session
        return opened


wire.serve(Edge())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """y = softmax(relu(x w1 + b1) w2 + b2), for x of shape [batch, 16] and y of [batch, 4]."""

    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats

    def __call__(self, x: Floats) -> Floats:
        """Return what the source computes, in double precision."""
        hidden = np.maximum(x.astype(np.float64) @ self.w1 + self.b1, 0)
        logits = hidden @ self.w2 + self.b2
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        computed: Floats = powers / powers.sum(axis=1, keepdims=True)
        return computed

    def initializers(self) -> list[onnx.TensorProto]:
        """Return the weights as an exporter writes them."""
        named = {"w1": self.w1, "b1": self.b1, "w2": self.w2, "b2": self.b2}
        return [numpy_helper.from_array(w.astype(np.float32), name) for name, w in named.items()]


def source() -> Source:
    """Return the source, whose logits are small enough not to saturate."""
    draw = np.random.default_rng(7).normal
    return Source(
        w1=draw(0, 0.25, (16, 32)), b1=draw(0, 0.1, 32), w2=draw(0, 0.15, (32, 4)),
        b2=draw(0, 0.1, 4),
    )  # fmt: skip


def chain_repository(root: Path) -> UserRepository:
    """Make a repository on main with the chain as it should be, and stored references."""
    repository = empty_repository(root)
    repository.write("ci-parity.yml", CONFIG)
    repository.write(".gitignore", "ci-parity-report/\n")
    write_edge(repository)
    export(root)
    simplify(root)
    quantize(root)
    _store_cases(root)
    repository.commit("the chain")
    repository.git("checkout", "--quiet", "-b", "change")
    return repository


def write_edge(repository: UserRepository, gain: float = 1.0) -> None:
    """Write the program of the target edge; another gain than 1 is a fault."""
    repository.write("edge", EDGE.format(python=sys.executable, gain=gain))
    (repository.root / "edge").chmod(0o755)


def export(root: Path, gain: float = 1.0) -> None:
    """Write exported.onnx; another gain of the last weights than 1 is a fault."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Add", ["a", "b1"], ["b"], name="first_bias"),
        helper.make_node("Identity", ["b"], ["c"], name="noop"),
        helper.make_node("Relu", ["c"], ["d"], name="relu"),
        helper.make_node("MatMul", ["d", "w2"], ["e"], name="last"),
        helper.make_node("Add", ["e", "b2"], ["f"], name="last_bias"),
        helper.make_node("Softmax", ["f"], ["y"], name="softmax", axis=-1),
    ]
    _save(root / "exported.onnx", nodes, source().initializers())
    _scale(root / "exported.onnx", "w2", gain)


def simplify(root: Path, gain: float = 1.0) -> None:
    """Write simplified.onnx from exported.onnx: no no-op, two Gemm; `gain` as for `export`."""
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["b"], name="first"),
        helper.make_node("Relu", ["b"], ["d"], name="relu"),
        helper.make_node("Gemm", ["d", "w2", "b2"], ["f"], name="last"),
        helper.make_node("Softmax", ["f"], ["y"], name="softmax", axis=-1),
    ]
    weights = list(onnx.load(root / "exported.onnx").graph.initializer)
    _save(root / "simplified.onnx", nodes, weights)
    _scale(root / "simplified.onnx", "w2", gain)


def quantize(root: Path, gain: float = 1.0) -> None:
    """Write int8.onnx from simplified.onnx; another gain of the last scale than 1 is a fault."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Inputs as the cases have them."""

        def __init__(self) -> None:
            self.rows = iter([{"x": _rows(64, seed)} for seed in range(4)])

        def get_next(self) -> dict[str, Floats] | None:
            return next(self.rows, None)

    quantize_static(
        str(root / "simplified.onnx"), str(root / "int8.onnx"), Reader(),
        quant_format=QuantFormat.QDQ,
    )  # fmt: skip
    _scale(root / "int8.onnx", "w2_scale", gain)


def drop_references(root: Path) -> None:
    """Delete the stored references: then only versions can be compared."""
    for file in root.glob("fixtures/*/output_*.pb"):
        file.unlink()


def _save(path: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> None:
    x, y = ((TensorProto.FLOAT, ["batch", size]) for size in (16, 4))
    save(path, nodes, {"x": x}, {"y": y}, weights)


def _scale(path: Path, name: str, gain: float) -> None:
    model = onnx.load(path)
    tensor = next(item for item in model.graph.initializer if item.name == name)
    values = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(values * values.dtype.type(gain), name))
    onnx.save(model, path)


def _rows(count: int, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=(count, 16)).astype(np.float32)


def _store_cases(root: Path) -> None:
    from ci_parity.fixtures.importer import import_arrays, parse_source
    from ci_parity.fixtures.signature import read_signature

    scratch = root / "arrays"
    scratch.mkdir()
    for number, (name, rows) in enumerate(CASES.items()):
        x = _rows(rows, 100 + number)
        np.savez(scratch / f"{name}.npz", x=x, y=source()(x).astype(np.float32))
    sources = [parse_source(str(path)) for path in sorted(scratch.glob("*.npz"))]
    import_arrays(sources, read_signature(root / "exported.onnx"), root / "fixtures")
    shutil.rmtree(scratch)
