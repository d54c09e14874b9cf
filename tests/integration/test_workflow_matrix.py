"""`pull-request-matrix.yml` as users copy it: plan, a leg per target, one gate, one comment."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.act_runner import ActRun
from tests.integration.support.product_repo import (
    BASELINE_RUNTIME,
    Checkout,
    make_checkout,
)
from tests.integration.support.workflow_runs import Runner
from tests.support.github_server import GitHubServer

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.usefixtures("base_image")]

ONE_TARGET = f"  cpu: {{runtime: {BASELINE_RUNTIME}}}\n"
TWO_TARGETS = (
    f"  cpu: {{runtime: {BASELINE_RUNTIME}, runs_on: [self-hosted, cpu]}}\n"
    f"  gpu: {{runtime: {BASELINE_RUNTIME}, runs_on: [self-hosted, gpu]}}\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a deployment with two targets on runners of their own, on a branch."""
    made = make_checkout(tmp_path)
    made.edit("ci-parity.yml", ONE_TARGET, TWO_TARGETS)
    made.commit("two targets")
    made.branch("change")
    return made


@pytest.fixture
def matrix(checkout: Checkout, github: GitHubServer, tmp_path: Path) -> Runner:
    """Return what runs the workflow."""
    return Runner(checkout=checkout, github=github, artifacts=tmp_path / "artifacts")


def pull_request(runner: Runner, base: str, run_id: int = 1) -> ActRun:
    """Run the workflow for the checked-out branch."""
    event: dict[str, Any] = runner.checkout.pull_request_event(base)
    return runner.run("pull-request-matrix.yml", "pull_request", event, run_id=run_id)


def verdict(done: ActRun) -> str:
    """Return what the gate put out."""
    gate = [step for step in done.steps if step.job.endswith("/gate")]
    (found,) = [step.outputs["verdict"] for step in gate if step.outputs.get("verdict")]
    return found


def title(body: str) -> str:
    """Return the first line of a comment that a reader sees."""
    return body.splitlines()[1]


def test_each_target_runs_on_its_runner_and_the_gate_comments(
    matrix: Runner, github: GitHubServer
) -> None:
    """Two legs leave two artifacts; the gate judges both and writes the only comment."""
    base = matrix.checkout.head
    matrix.checkout.bump_runtime()
    matrix.checkout.commit("bump onnxruntime")
    done = pull_request(matrix, base)
    assert (done.returncode, verdict(done)) == (0, "pass"), done.log
    assert matrix.names() == ["ci-parity-cpu", "ci-parity-gpu", "parity-report-0"]
    (body,) = github.bodies()
    assert "PARITY PASS" in title(body)
    assert "`cpu`" in body
    assert "`gpu`" in body


def test_planted_fault_fails_the_gate(matrix: Runner, github: GitHubServer) -> None:
    """A model that no longer means the same is told once, and the gate's job fails."""
    base = matrix.checkout.head
    matrix.checkout.plant_fault()
    matrix.checkout.commit("retrain")
    done = pull_request(matrix, base)
    assert (done.returncode, verdict(done)) == (1, "fail"), done.log
    (body,) = github.bodies()
    assert "PARITY FAIL" in title(body)


def test_leg_that_ends_without_an_artifact_is_no_pass(matrix: Runner, github: GitHubServer) -> None:
    """A runtime that cannot be had leaves its leg without observations: the gate says so."""
    base = matrix.checkout.head
    matrix.checkout.edit(
        "ci-parity.yml", f"gpu: {{runtime: {BASELINE_RUNTIME}", "gpu: {runtime: onnxruntime==0.0.1"
    )
    matrix.checkout.commit("a version that never was")
    done = pull_request(matrix, base)
    assert done.returncode == 1
    assert verdict(done) != "pass"
    (body,) = github.bodies()
    assert "PARITY PASS" not in title(body)


def test_nothing_to_run_needs_no_runner(matrix: Runner, github: GitHubServer) -> None:
    """A README's edit has no legs: the gate passes on the baseline's evidence, and says nothing."""
    base = matrix.checkout.head
    matrix.checkout.edit("README.md", "digits", "handwritten digits")
    matrix.checkout.commit("say which digits")
    done = pull_request(matrix, base)
    assert (done.returncode, verdict(done)) == (0, "pass"), done.log
    assert matrix.artifacts.is_dir()
    assert matrix.names() == ["parity-report-0"]
    assert "PARITY UNCHANGED" in done.summary
    assert github.bodies() == []
