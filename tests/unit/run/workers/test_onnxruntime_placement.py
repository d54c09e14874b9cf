"""Where the installed onnxruntime ran each node, as its worker says."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ci_parity.base.process import worker_environment
from ci_parity.run.protocol import WorkerProcess
from ci_parity.run.runtime import prepare
from ci_parity.run.workers.onnxruntime_worker import kernels_of
from ci_parity.run.workers.wire import MAX_NAMES, counted
from tests.unit.run.workers.bench import FLOAT, PROVIDER, Bench, floats, identity, model, tensor


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Start one worker for all tests of this module; each loads its own model."""
    folder = tmp_path_factory.mktemp("exchange")
    argv = prepare("current", cache=folder).argv
    with WorkerProcess(argv, env=worker_environment(), cwd=folder) as process:
        yield Bench(process, folder)


def chosen() -> onnx.ModelProto:
    """Return a model with a node in each branch of an If, of which one runs."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [name], name=name)], name, [], [tensor(name, FLOAT, ["n"])]
        )
        for name, op in (("then", "Neg"), ("else", "Abs"))
    }  # fmt: skip
    return model(
        [tensor("x", FLOAT, ["n"]), tensor("flag", onnx.TensorProto.BOOL, [])],
        [tensor("y", FLOAT, ["n"])],
        helper.make_node("If", ["flag"], ["y"], name="if", **branches),
    )


def placement(bench: Bench, graph: onnx.ModelProto, values: Any, **payload: object) -> Any:
    """Load a model and ask where its nodes ran."""
    bench.load(graph)
    request = {"model": str(bench.folder / "model.onnx"), "provider": PROVIDER}
    return bench.ask("placement", **request, **bench.case(values), **payload)


def test_every_node_is_told_even_of_the_branch_that_was_not_taken(bench: Bench) -> None:
    """By onnxruntime's own record of what it assigned; nothing is left of the profile."""
    said = placement(bench, chosen(), {"x": floats(1), "flag": np.array(True)})
    counts = {(one["provider"], one["op_type"]): one["count"] for one in said["operators"]}
    assert counts == {(PROVIDER, op): 1 for op in ("If", "Neg", "Abs")}
    assert (said["method"], said["memcpy"], said["why_not"]) == ("assignment", 0, "")
    assert not list(bench.folder.glob("placement*"))


def test_what_ran_is_told_with_its_types(bench: Bench) -> None:
    """Of the branch that was taken, and a kernel without an input by what it gives."""
    said = placement(bench, chosen(), {"x": floats(1), "flag": np.array(True)})["executed"]
    assert said == {
        "operators": [
            {"op_type": op, "takes": takes, "gives": "float32", "count": 1}
            for op, takes in (("Neg", "float32"), ("If", "bool"))
        ],
        "own_names": False,
    }


def test_the_casts_a_runtime_puts_in_are_told(bench: Bench) -> None:
    """The CPU has no kernel for this one on float16: two casts stand around one for float32."""
    half = onnx.TensorProto.FLOAT16
    graph = model(
        [tensor("x", half, ["n"])],
        [tensor("y", half, ["n"])],
        helper.make_node("Elu", ["x"], ["y"]),
    )
    said = placement(bench, graph, {"x": np.ones(2, np.float16)})["executed"]
    found = {(one["op_type"], one["takes"], one["gives"]) for one in said["operators"]}
    assert found == {
        ("Cast", "float16", "float32"), ("Elu", "float32", "float32"),
        ("Cast", "float32", "float16"),
    }  # fmt: skip


def test_copies_are_not_counted_where_the_run_fails(bench: Bench) -> None:
    """The nodes are known without it."""
    said = placement(bench, chosen(), {"x": floats(1)})
    assert sum(one["count"] for one in said["operators"]) == 3
    assert said["memcpy"] is None
    assert "flag" in said["why_not"]
    assert not list(bench.folder.glob("placement*"))


def test_the_model_before_is_let_go(bench: Bench) -> None:
    """It is the last that is asked of it; a worker goes on with the next model."""
    placement(bench, identity(FLOAT), {"x": floats(1)})
    error = bench.refusal("run", **bench.case({"x": floats(1)}))
    assert "no model is loaded" in error.message
    bench.load(identity(FLOAT))
    assert list(bench.run({"x": floats(1)})) == ["y"]


def test_options_are_those_of_the_model(bench: Bench) -> None:
    """What would be refused there is refused here."""
    bench.load(identity(FLOAT))
    request = {"model": str(bench.folder / "model.onnx"), "provider": PROVIDER}
    options = {"no_such_option": 1}
    case = bench.case({"x": floats(1)})
    error = bench.refusal("placement", **request, **case, session_options=options)
    assert "no_such_option" in error.message


def event(
    name: str, op: str, provider: str | None, index: int = 0, cat: str = "Node", **types: Any
) -> Any:
    """Return an event of a profile."""
    args = {"op_name": op, "node_index": str(index)} | ({"provider": provider} if provider else {})
    return {"cat": cat, "name": name, "args": args | types}


def test_a_profile_has_a_kernel_once_however_often_it_ran() -> None:
    """Two nodes of one name are two; fences, and what is no node, are none."""
    events = [
        event("a_fence_before", "Relu", None),
        event("a_kernel_time", "Relu", "CPU"), event("a_kernel_time", "Relu", "CPU"),
        event("a_kernel_time", "Relu", "CPU", index=4, input_type_shape=[{"float": [1]}],
              output_type_shape=[{"float16": [1]}]),
        event("m_kernel_time", "MemcpyToHost", "GPU", index=9),
        event("session_kernel_time", "", "CPU", cat="Session"), {"cat": "Node"},
    ]  # fmt: skip
    assert kernels_of(events) == [
        ("CPU", "Relu", "a", "", ""), ("CPU", "Relu", "a", "float32", "float16"),
        ("GPU", "MemcpyToHost", "m", "", ""),
    ]  # fmt: skip


def test_names_are_kept_of_what_runs_elsewhere() -> None:
    """As many as are kept; each node counts."""
    nodes = [("GPU", "Conv", "c"), ("CPU", "Neg", ""), *[("CPU", "Neg", "n")] * (MAX_NAMES + 1)]
    assert counted(nodes, "GPU") == [
        {"provider": "GPU", "op_type": "Conv", "count": 1, "names": []},
        {"provider": "CPU", "op_type": "Neg", "count": MAX_NAMES + 2, "names": ["n"] * MAX_NAMES},
    ]
