"""The action in its parts: plan, run and gate by hand-overs of a workflow; comment for forks."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.in_process import Runner
from tests.support.github_repository import Head
from tests.support.github_server import GitHubServer
from tests.support.models import scale_initializer
from tests.support.user_repository import UserRepository, linear_repository

FINISHED = {"plan": {"result": "success", "outputs": {}}, "run": {"result": "success"}}


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a deployment on main, and a branch on which everything must run."""
    made = linear_repository(tmp_path / "user")
    made.write(".gitignore", "ci-parity-*/\nrelease-log.jsonl*\nartifacts/\n")
    made.commit("ignore")
    made.git("checkout", "--quiet", "-b", "change")
    made.replace("ci-parity.yml", "measure: false", "measure: false, sessions: 3")
    made.commit("change")
    return made


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    """Return a GitHub with pull request 7 of acme/models."""
    with GitHubServer() as github:
        yield github
        assert github.violations() == []


@pytest.fixture
def runner(repository: UserRepository, server: GitHubServer, tmp_path: Path) -> Runner:
    """Return a runner on the branch."""
    return Runner(repository, server, tmp_path)


def legs_run(runner: Runner) -> str:
    """Plan a run and run its legs as jobs of it; return the plan."""
    runner.next_run()
    assert runner.pull_request(mode="plan", shards="2") == 0
    outputs = runner.outputs()
    assert outputs["run"] == "true"
    for leg in json.loads(outputs["matrix"])["include"]:
        folder = f"artifacts/ci-parity-{leg['name']}"
        given = {"plan": outputs["plan"], "leg": json.dumps(leg), "report_dir": folder}
        assert runner.pull_request(mode="run", **given) == 0
        assert runner.outputs()["artifact"] == folder
    return outputs["plan"]


def gated(runner: Runner, plan: str, needs: Mapping[str, Any] = FINISHED) -> int:
    """Run the gate of this run."""
    return runner.pull_request(
        mode="gate", plan=plan, needs=json.dumps(needs), artifacts="artifacts"
    )  # fmt: skip


def test_parts_make_one_verdict_and_one_comment(runner: Runner, server: GitHubServer) -> None:
    """Only the gate speaks: a comment, a summary, a verdict."""
    plan = legs_run(runner)
    assert server.bodies() == []
    assert runner.outputs().get("verdict") == "inconclusive"
    assert gated(runner, plan) == 0
    assert runner.outputs()["verdict"] == "pass"
    (body,) = server.bodies()
    assert "PARITY PASS" in body
    assert "PARITY PASS" in runner.summary.read_text()


def test_a_model_that_computes_something_else_fails_at_the_gate(
    runner: Runner, repository: UserRepository, server: GitHubServer
) -> None:
    """The legs are green, because they could observe it."""
    path = repository.root / "model.onnx"
    scale_initializer(path, path, 1.5)
    repository.commit("scaled")
    assert gated(runner, legs_run(runner)) == 1
    assert "PARITY FAIL" in server.bodies()[0]
    assert "mul_y" in server.bodies()[0]


@pytest.mark.parametrize("result", ["cancelled", "failure", "skipped"])
def test_a_leg_that_did_not_succeed_blocks(runner: Runner, result: str) -> None:
    """Whatever is in the folder with the artifacts."""
    plan = legs_run(runner)
    assert gated(runner, plan, {**FINISHED, "run": {"result": result}}) == 3


def test_artifacts_of_an_older_run_block(runner: Runner, server: GitHubServer) -> None:
    """The plan is the same, the run is not."""
    plan = legs_run(runner)
    runner.next_run()
    assert gated(runner, plan) == 3
    assert "not of acme/models/" in server.bodies()[0]


def test_a_gate_without_a_plan_says_which_job_failed(runner: Runner, server: GitHubServer) -> None:
    """There is a comment all the same, and it is not green."""
    needs = {"plan": {"result": "failure"}, "run": {"result": "skipped"}}
    assert gated(runner, "", needs) == 2
    assert "plan: failure" in server.bodies()[0]
    assert runner.outputs()["verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"mode": "gate"}, "there is no plan"),
        ({"mode": "gate", "plan": "{}", "needs": ""}, "how the jobs before it ended"),
        ({"mode": "gate", "plan": "{}", "needs": "[]"}, "how the jobs before it ended"),
        ({"mode": "gate", "plan": "{}", "needs": '{"run": {"result": "success"}}'}, "not a plan"),
        ({"mode": "run", "plan": "", "leg": "{}"}, "there is no plan"),
        ({"mode": "anything"}, "is not one of check, plan, run, gate, comment"),
        ({"mode": "plan", "shards": "0"}, "not a number from 1 to 256"),
        ({"mode": "comment"}, "publishes the run that started this one"),
    ],
)
def test_wrong_inputs_are_refused(
    runner: Runner, inputs: Mapping[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a remedy, and no verdict but inconclusive."""
    needs = {} if "needs" in inputs else {"needs": json.dumps(FINISHED)}
    assert runner.pull_request(**{**needs, **inputs}) in {2, 4}
    said = capsys.readouterr().out
    assert words in said
    assert "remedy" in said
    assert runner.outputs()["verdict"] == "inconclusive"


@pytest.mark.parametrize("name", ["/etc", "..", "artifacts/../.."])
def test_artifacts_are_below_the_workspace(
    runner: Runner, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else is read."""
    plan = legs_run(runner)
    needs = json.dumps(FINISHED)
    assert runner.pull_request(mode="gate", plan=plan, needs=needs, artifacts=name) == 2
    assert "no folder below the workspace" in capsys.readouterr().out


class Fork:
    """The run of a fork's pull request, and the run that publishes what it found."""

    def __init__(self, runner: Runner, server: GitHubServer) -> None:
        self.runner = runner
        self.sha = runner.repository.git("rev-parse", "HEAD")
        self.head = Head(sha=self.sha, ref="change", repository="stranger/models")
        server.heads["acme/models", 7] = self.head

    def observed(self) -> None:
        """Check the pull request with a token that cannot write, and upload the report."""
        self.runner.pull_request(token="fork-token", report_dir="artifacts/ci-parity-report")

    def published(self, conclusion: str = "success", **head: str) -> int:
        """Publish, as the run that the end of the first one started."""
        owner = {"login": self.head.repository.partition("/")[0]}
        event = {
            "repository": {"full_name": "acme/models", "default_branch": "main"},
            "workflow_run": {
                "id": self.runner.run_id, "run_attempt": 1, "event": "pull_request",
                "conclusion": conclusion, "head_sha": self.sha, "head_branch": "change",
                "head_repository": {"full_name": self.head.repository, "owner": owner},
                "pull_requests": [], **head,
            },
        }  # fmt: skip
        inputs = {"mode": "comment", "artifacts": "artifacts"}
        return self.runner.start(
            "workflow_run", event, "write-token", inputs, ref="refs/heads/main"
        )


@pytest.fixture
def fork(runner: Runner, server: GitHubServer) -> Fork:
    """Return a fork's pull request."""
    return Fork(runner, server)


def test_a_forks_verdict_gets_its_comment(fork: Fork, server: GitHubServer) -> None:
    """From the second run, on the pull request that GitHub says has this head."""
    fork.observed()
    assert server.bodies() == []
    assert fork.published() == 0
    (body,) = server.bodies()
    assert "PARITY PASS" in body
    assert fork.runner.outputs()["comment_url"]


def test_a_head_that_has_moved_gets_none(fork: Fork, server: GitHubServer) -> None:
    """Nobody is told of a commit that is no longer asked for."""
    fork.observed()
    assert fork.published(head_sha="b" * 40) == 0
    assert server.bodies() == []


def test_a_pass_of_a_run_that_failed_is_not_believed(fork: Fork, server: GitHubServer) -> None:
    """The report of a stranger's run is one thing, how it ended is known."""
    fork.observed()
    assert fork.published(conclusion="failure") == 0
    assert "PARITY PASS" not in server.bodies()[0]
    assert "its run ended as" in server.bodies()[0]


def test_markup_of_the_artifact_is_not_published(fork: Fork, server: GitHubServer) -> None:
    """The comment is rendered here; what lies beside the record is not looked at."""
    fork.observed()
    report = fork.runner.repository.root / "artifacts" / "ci-parity-report"
    (report / "comment.md").write_text("# owned", encoding="utf-8")
    assert fork.published() == 0
    assert "owned" not in server.bodies()[0]


def test_a_report_that_was_tampered_with_is_no_verdict(fork: Fork, server: GitHubServer) -> None:
    """It is said that there is none."""
    fork.observed()
    report = fork.runner.repository.root / "artifacts" / "ci-parity-report"
    record = report / "verdict.record.json"
    record.write_bytes(record.read_bytes()[:-20])
    assert fork.published() == 0
    assert "no verdict" in server.bodies()[0]
    shutil.rmtree(report)
    assert fork.published() == 0
    assert "0 reports came with the run" in server.bodies()[0]
