"""Contracts on real graphs and real runs: what is kept passes, whatever is broken is named."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.records.outcome import Outcome
from tests.integration.test_self_checks import check, rows, stored
from tests.support import lone_models
from tests.support.alone import Alone, run_alone
from tests.support.models import save
from tests.support.user_repository import linear_repository

OFF = {"repeat": 1, "rows": False, "order": False, "padding": False}
X = {"dtype": "float32", "shape": ["batch", "width"], "range": [-1, 1]}
Y = {"dtype": "float32", "shape": ["batch", "width"], "range": [-1, 1]}
KEPT = {
    "opset": 17,
    "inputs": {"x": X},
    "outputs": {"y": Y},
    "sizes": {"batch": [1, 2, 8], "width": [5, 32]},
}


def judged(model: Path, folder: Path, stated: Any, **given: Any) -> Alone:
    """Judge a model by a contract over two plain cases."""
    cases = given.pop("cases", {"one": {"x": np.tanh(rows(1))}, "two": {"x": np.tanh(rows(2))}})
    return run_alone(model, cases, folder, stated=stated, checks=OFF, **given)


def test_a_kept_contract_passes(tmp_path: Path) -> None:
    """Every listed size runs, in the candidate's own session."""
    found = judged(lone_models.save_steady(tmp_path / "m.onnx"), tmp_path, KEPT)
    assert set(found.outcomes.values()) == {Outcome.PASS}
    assert set(found.outcomes) == {"contract.graph", "contract.shape", "contract.outputs"}
    assert "batch=8, width=5" in found.findings["contract.shape"].evidence
    assert "of 7 runs" in found.findings["contract.outputs"].evidence
    row = found.rows["contract"]
    assert (row.outcome, row.cases, row.cases_expected) == (Outcome.PASS, 7, 7)


def test_without_a_contract_nothing_is_judged(tmp_path: Path) -> None:
    """No rows, no findings, no runs."""
    found = judged(lone_models.save_steady(tmp_path / "m.onnx"), tmp_path, {})
    assert found.contract.rows == ()
    assert found.contract.findings == ()


def test_a_listed_size_that_is_refused_fails(tmp_path: Path) -> None:
    """The graph declares any batch, and a Reshape inside takes even numbers of elements only."""
    model = lone_models.save_rigid(tmp_path / "m.onnx", rows=4)
    cases = {"four": {"x": np.tanh(rows(4))}}
    stated = {"inputs": {"x": X}, "sizes": {"batch": [4, 1, 3, 8]}}
    found = judged(model, tmp_path, stated, cases=cases)
    finding = found.findings["contract.shape"]
    assert finding.outcome is Outcome.FAIL
    assert "refuses 2 of 4 inputs the contract lists" in finding.evidence
    assert "batch=1: " in finding.evidence
    assert "batch=3: " in finding.evidence
    assert "Reshape" in finding.evidence
    assert found.rows["contract"].outcome is Outcome.FAIL
    assert found.outcomes["contract.graph"] is Outcome.PASS


def test_a_frozen_dimension_fails(tmp_path: Path) -> None:
    """A graph exported from an example: it says so, and the runs show it."""
    model = lone_models.save_fixed(tmp_path / "m.onnx")
    cases = {"two": {"x": np.tanh(rows(2, 3))}}
    stated = {"inputs": {"x": {"shape": ["batch", 3], "range": [-1, 1]}}}
    listed = stated | {"sizes": {"batch": [2, 5]}}
    found = judged(model, tmp_path / "a", listed, cases=cases)
    assert found.outcomes["contract.dynamic"] is Outcome.FAIL
    assert "the contract lists 5" in found.findings["contract.dynamic"].evidence
    assert found.outcomes["contract.shape"] is Outcome.FAIL
    only = judged(model, tmp_path / "b", stated | {"sizes": {"batch": [2]}}, cases=cases)
    assert set(only.outcomes.values()) == {Outcome.PASS}


@pytest.mark.parametrize(
    ("edit", "kind", "said"),
    [
        ({"inputs": {"pixels": X}}, "contract.name", "its inputs are 'x'"),
        ({"inputs": {"x": X | {"dtype": "float16"}}}, "contract.dtype", "declares float32"),
        ({"inputs": {"x": X | {"shape": ["batch", 3, 4]}}}, "contract.shape", "[batch, 3, 4]"),
        ({"opset": 16}, "contract.opset", "version 17, the contract goes to 16"),
        ({"opset": {"ai.onnx.ml": 3}}, "contract.domain", "domain ai.onnx"),
        ({"outputs": {"z": Y}}, "contract.name", "its outputs are 'y'"),
    ],
)
def test_what_a_graph_declares_otherwise_fails(
    tmp_path: Path, edit: dict[str, Any], kind: str, said: str
) -> None:
    """Names, element types, ranks, operator sets."""
    model = lone_models.save_steady(tmp_path / "m.onnx")
    stated = {"opset": 17, "inputs": {"x": X}, "outputs": {"y": Y}} | edit
    found = [f for f in judged(model, tmp_path, stated).contract.findings if f.id == kind]
    assert found
    assert {finding.outcome for finding in found} == {Outcome.FAIL}
    assert any(said in finding.evidence for finding in found)


def test_outputs_beyond_their_range_fail(tmp_path: Path) -> None:
    """Where the inputs reach the ends of theirs, as those of the stored cases do not."""
    model = lone_models.save_steady(tmp_path / "m.onnx")
    stated = KEPT | {"outputs": {"y": Y | {"range": [-0.7, 0.7]}}}
    cases = {"calm": {"x": np.full((1, 5), 0.1, np.float32)}}
    found = judged(model, tmp_path, stated, cases=cases)
    finding = found.findings["contract.range"]
    assert finding.outcome is Outcome.FAIL
    assert finding.subject.output == "y"
    assert "-0.761594 to 0.761594" in finding.evidence
    assert "in 5 of 6 runs" in finding.evidence


def test_outputs_that_are_no_numbers_fail(tmp_path: Path) -> None:
    """A logarithm of what the contract allows."""
    nodes = [helper.make_node("Log", ["x"], ["y"])]
    model = save(tmp_path / "m.onnx", nodes, lone_models.X, lone_models.Y)
    stated = {"inputs": {"x": X}, "outputs": {"y": {"dtype": "float32"}}}
    cases = {"one": {"x": np.full((1, 5), 0.5, np.float32)}}
    found = judged(model, tmp_path, stated, cases=cases)
    assert "NaN" in found.findings["contract.finite"].evidence


def test_symbols_bind_inputs_to_outputs(tmp_path: Path) -> None:
    """An output of another batch than the input's is not the output that was promised."""
    nodes = [helper.make_node("Concat", ["x", "x"], ["y"], axis=0)]
    outputs: Any = {"y": (TensorProto.FLOAT, ["rows", "width"])}
    model = save(tmp_path / "m.onnx", nodes, lone_models.X, outputs)
    found = judged(model, tmp_path, KEPT)
    shapes = [f for f in found.contract.findings if f.id == "contract.shape"]
    assert {f.subject.output: f.outcome for f in shapes} == {
        "": Outcome.PASS, "y": Outcome.FAIL,
    }  # fmt: skip


def test_integers_and_masks_keep_their_values(tmp_path: Path) -> None:
    """Without a range the first case is cut or repeated: a lookup is never fed a foreign index."""
    table = onnx.numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "table")
    ids: Any = {"ids": (TensorProto.INT64, ["batch", "time"])}
    outputs: Any = {"y": (TensorProto.FLOAT, ["batch", "time", 3])}
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"], axis=0)]
    model = save(tmp_path / "m.onnx", nodes, ids, outputs, [table])
    stated = {
        "inputs": {"ids": {"dtype": "int64", "shape": ["batch", "time"]}},
        "outputs": {"y": {"shape": ["batch", "time", 3], "range": [0, 11]}},
        "sizes": {"batch": [0, 1, 3], "time": [7, 1]},
    }
    found = judged(model, tmp_path, stated, cases={"c": {"ids": np.array([[0, 3, 1]])}})
    assert set(found.outcomes.values()) == {Outcome.PASS}


def test_fixtures_outside_the_contract_are_a_warning(tmp_path: Path) -> None:
    """They are not what the product feeds, and nothing the candidate can help."""
    model = lone_models.save_steady(tmp_path / "m.onnx")
    found = judged(model, tmp_path, KEPT, cases={"wild": {"x": 9 * rows(1)}})
    finding = found.findings["contract.fixtures"]
    assert (finding.outcome, finding.advisory) == (Outcome.FAIL, True)
    assert "(wild)" in finding.evidence
    assert found.rows["contract"].outcome is Outcome.PASS


def test_sizes_that_cannot_be_fed_are_inconclusive(tmp_path: Path) -> None:
    """An empty case gives nothing to repeat, and no range is stated."""
    model = lone_models.save_steady(tmp_path / "m.onnx")
    stated = {"inputs": {"x": {"shape": ["batch", "width"]}}, "sizes": {"batch": [2]}}
    found = judged(model, tmp_path, stated, cases={"none": {"x": np.zeros((0, 5), np.float32)}})
    finding = found.findings["contract.not_run"]
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "nothing to repeat" in finding.evidence
    row = found.rows["contract"]
    assert (row.outcome, row.cases, row.cases_expected) == (Outcome.INCONCLUSIVE, 1, 2)


def test_a_check_holds_the_contract_and_a_looser_one_is_a_change_of_policy(
    tmp_path: Path,
) -> None:
    """The whole command: kept, broken by a candidate, and loosened."""
    repository = linear_repository(tmp_path / "user")
    config = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    contract = "contract: {inputs: {x: {shape: [batch, 3]}}, sizes: {batch: [1, 16]}}\n"
    repository.write("ci-parity.yml", config.partition("release:")[0] + contract)
    repository.commit("contract")
    repository.git("checkout", "--quiet", "-b", "change")
    code, report = check(repository)
    assert code == 0
    assert "contract" in {row["boundary"] for row in report["rows"]}
    model = onnx.load(repository.root / "model.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(model, repository.root / "model.onnx")
    code, report = check(repository)
    assert code == 1
    failed = {f["id"] for f in report["findings"] if f["outcome"] == "fail"}
    assert {"contract.dynamic", "contract.shape"} <= failed
    repository.git("checkout", "--quiet", "model.onnx")
    repository.replace("ci-parity.yml", "batch: [1, 16]", "batch: [1]")
    code, report = check(repository)
    assert code == 0
    (change,) = report["changes"]["changes"]
    assert change["axis"] == "policy"
    assert (change["before"], change["after"]) == (
        "contract.sizes.batch=[1, 16]", "contract.sizes.batch=[1]",
    )  # fmt: skip


def test_stored_cases_bind_their_own_sizes(tmp_path: Path) -> None:
    """Cases of several rows bind the batch anew, each for itself."""
    model = lone_models.save_steady(tmp_path / "m.onnx")
    stated = {"outputs": {"y": {"shape": ["batch", 5]}}, "inputs": {"x": {"shape": ["batch", 5]}}}
    found = judged(model, tmp_path, stated, cases=stored(1, 3, 2))
    assert set(found.outcomes.values()) == {Outcome.PASS}
    assert "of 3 runs" in found.findings["contract.outputs"].evidence
