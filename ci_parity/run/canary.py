"""Two models of one shape on one runtime, so that a cache that takes one for the other shows.

An engine that was compiled for a model is kept by some runtimes under its name and shapes, and then
given to another model with other weights (microsoft/onnxruntime#6455): a candidate would be served
the baseline's. The two models here have the same names, shapes, file name and sizes; they run with
the options of a target, in its exchange folder, in one process and in the next. Nothing is judged.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.base.progress import Step
from ci_parity.records.canary import Canary, Freshness
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import ValueRecord, read_value, write_value
from ci_parity.run.bench import Bench
from ci_parity.run.execute import Job

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WEIGHTS = {"first": 1.0, "second": -2.0}
_SIZE = 8
_OPSET, _IR_VERSION = 13, 8
# Far above what bfloat16 or TF32 lose, far below what the weights differ by.
_TOLERANCE = 0.05


def told_apart(job: Job, folder: Path, step: Step) -> Canary:
    """Return whether a system gives each of two models of one shape its own answer.

    1. The first model, then the second, in one worker.
    2. The second, then the first, each in a worker of its own.

    Args:
        job: the system; its own model is not run.
        folder: is made, and is the exchange folder of the workers.
        step: is advanced for each run.
    """
    import numpy as np

    x = np.linspace(0.5, 1.5, _SIZE, dtype=np.float32).reshape(1, _SIZE)
    folder.mkdir(parents=True, exist_ok=True)
    models = {name: _saved(folder / name, weight) for name, weight in _WEIGHTS.items()}
    given = write_value("x", x, folder, "canary_i")
    try:
        with Bench(job, folder, step) as bench:
            for number, (name, alone) in enumerate(_ORDER):
                if alone:
                    bench.end()
                run = bench.run(models[name], (given,), ("y",), f"canary{number}")
                found = _answered(run, name, x, folder)
                if found is not None:
                    return found
    except InfrastructureError as error:
        return _unknown(error.what)
    return Canary(
        freshness=Freshness.APART, words="two models of one shape each gave their own answer"
    )


_ORDER: Sequence[tuple[str, bool]] = (
    ("first", False), ("second", False), ("second", True), ("first", True),
)  # fmt: skip


def _answered(run: CaseRun, name: str, x: "npt.NDArray[np.float32]", folder: Path) -> Canary | None:
    """Return what is wrong with the answer of one model, None where it is its own."""
    import numpy as np

    if run.status is not RunStatus.OK:
        return _unknown(run.message)
    try:
        value = read_value(_only(run.outputs), folder)
    except EvidenceError as error:
        return _unknown(error.what)
    if not isinstance(value, np.ndarray) or value.shape != x.shape:
        return _unknown("an answer of another shape")
    fits = {
        other: bool(
            np.allclose(value.astype(np.float64), weight * x.sum(), rtol=_TOLERANCE, atol=0)
        )
        for other, weight in _WEIGHTS.items()
    }
    if fits[name]:
        return None
    if any(fits.values()):
        words = f"the {name} of two models of one shape was given the other's answer"
        return Canary(freshness=Freshness.STALE, words=words)
    return _unknown("an answer that is neither model's")


def _only(outputs: Sequence[ValueRecord]) -> ValueRecord:
    if len(outputs) != 1:
        raise EvidenceError(f"{len(outputs)} outputs of a model that has one")
    return outputs[0]


def _unknown(why: str) -> Canary:
    return Canary(freshness=Freshness.UNKNOWN, words=why[:1000])


def _saved(folder: Path, weight: float) -> Path:
    """Save y = x W over float32[1, 8], with every element of W the same."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, _SIZE]) for name in ("x", "y")
    ]
    weights = numpy_helper.from_array(np.full((_SIZE, _SIZE), weight, np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="canary")
    graph = helper.make_graph([node], "canary", ports[:1], ports[1:], [weights])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path
