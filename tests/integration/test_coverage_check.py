"""Tests of single operators as part of a check: only where asked for, and never a silent gap."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.integration.test_check import check
from tests.support.models import save
from tests.support.user_repository import UserRepository, linear_repository

MEASURED = "{measure: true}"


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository with one deployment and a branch off main."""
    made = linear_repository(tmp_path / "user")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def config(repository: UserRepository, coverage: str) -> None:
    """Ask for coverage in the policy of the config."""
    policy = "policy: {latency: {measure: false}"
    repository.replace("ci-parity.yml", policy, f"{policy}, coverage: {coverage}")
    repository.commit("coverage")


def test_a_check_measures_nothing_unless_it_is_told_to(repository: UserRepository) -> None:
    """The default."""
    result = check(repository, "--force")
    assert result.code == 0
    assert not [f for f in result.report["findings"] if f["id"].startswith("coverage.")]


def test_a_check_that_is_told_to_says_what_is_tested(repository: UserRepository) -> None:
    """Every pair that runs has a finding; it passes where nothing is wrong."""
    config(repository, MEASURED)
    result = check(repository, "--force")
    assert result.code == 0
    found = [f for f in result.report["findings"] if f["id"] == "coverage.failing"]
    assert [f["outcome"] for f in found] == ["pass"]
    assert "signatures tested, none failing" in found[0]["evidence"]


def test_a_rule_that_is_looser_than_the_bases_does_not_count(repository: UserRepository) -> None:
    """The base commit asks for the tests; a branch that takes them out is measured all the same."""
    config(repository, MEASURED)
    repository.git("branch", "--force", "main", "HEAD")
    repository.replace("ci-parity.yml", MEASURED, "{measure: false}")
    repository.commit("not measured any more")
    result = check(repository)
    ids = {finding["id"] for finding in result.report["findings"]}
    assert {"coverage.failing", "policy.loosened"} <= ids


def test_an_operator_that_no_oracle_knows_is_a_warning(tmp_path: Path) -> None:
    """A check passes with it; it can be told not to say so."""
    made = linear_repository(tmp_path / "user")
    with_random(made.root / "model.onnx")
    config(made, MEASURED)
    result = check(made, "--force")
    warned = [f for f in result.report["findings"] if f["id"] == "coverage.untested"]
    assert [f["advisory"] for f in warned] == [True]
    assert "RandomUniformLike" in warned[0]["evidence"]
    made.replace("ci-parity.yml", MEASURED, "{measure: true, untested: ignore}")
    made.commit("ignored")
    quiet = check(made, "--force")
    assert not [f for f in quiet.report["findings"] if f["id"] == "coverage.untested"]


def with_random(path: Path) -> None:
    """Let a model add noise of no size: an operator whose outputs the standard leaves open."""
    model = onnx.load(path)
    graph = model.graph
    output = graph.output[0].name
    last = next(node for node in graph.node if output in node.output)
    last.output[list(last.output).index(output)] = "clean"
    low, zero = "noise", "zero"
    graph.node.append(helper.make_node("RandomUniformLike", ["clean"], [low], high=1.0, low=0.0))
    graph.node.append(helper.make_node("Mul", [low, zero], ["nothing"]))
    graph.node.append(helper.make_node("Add", ["clean", "nothing"], [output]))
    graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), zero))
    onnx.save(model, path)


def test_saving_a_model_is_what_the_others_rest_on(tmp_path: Path) -> None:
    """The noise has no size."""
    import onnxruntime as ort

    node = helper.make_node("Relu", ["x"], ["y"])
    path = save(
        tmp_path / "m.onnx", [node], {"x": (TensorProto.FLOAT, [2])},
        {"y": (TensorProto.FLOAT, [2])},
    )  # fmt: skip
    with_random(path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.array([1.0, -1.0], np.float32)})
    assert y.tolist() == [1.0, 0.0]
