"""The action's entry with a runner's environment and a loopback GitHub, without Docker."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.release.store import open_log
from tests.integration.support.in_process import Runner
from tests.support.github_server import GitHubServer
from tests.support.models import scale_initializer
from tests.support.user_repository import UserRepository, linear_repository


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a deployment on main with a harmless option change on a branch."""
    made = linear_repository(tmp_path / "user")
    made.git("checkout", "--quiet", "-b", "change")
    made.replace("ci-parity.yml", "measure: false", "measure: false, sessions: 3")
    made.commit("change")
    return made


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    """Return a GitHub with pull request 7 of acme/models."""
    with GitHubServer() as github:
        yield github


@pytest.fixture
def runner(repository: UserRepository, server: GitHubServer, tmp_path: Path) -> Runner:
    """Return a runner on the branch."""
    return Runner(repository, server, tmp_path)


def test_a_good_pull_request_gets_one_comment_that_later_runs_update(
    runner: Runner, server: GitHubServer
) -> None:
    """Two runs leave one comment with the newer text, and outputs that point to it."""
    assert runner.pull_request() == 0
    first = runner.outputs()
    assert runner.pull_request(force="true") == 0
    (body,) = server.bodies()
    assert "PARITY PASS" in body.splitlines()[1]
    assert runner.outputs()["comment_url"] == first["comment_url"] != ""
    assert first["verdict"] == "pass"
    assert first["bundle_digest"].startswith("sha256:")
    assert (runner.repository.root / first["report"]).is_file()
    assert "PARITY PASS" in runner.summary.read_text()


def test_a_fault_turns_the_comment_and_the_exit_code(runner: Runner, server: GitHubServer) -> None:
    """A changed weight makes the same comment say FAIL, and the job fails."""
    assert runner.pull_request() == 0
    model = runner.repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    runner.repository.commit("fault")
    assert runner.pull_request() == 1
    (body,) = server.bodies()
    assert "PARITY FAIL" in body.splitlines()[1]
    assert "`batch`" in body
    assert runner.outputs()["verdict"] == "fail"


def test_a_read_only_token_costs_the_comment_not_the_verdict(
    runner: Runner, server: GitHubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A fork's token gets a warning with the missing permission; the summary has the verdict."""
    assert runner.pull_request(token="fork-token") == 0
    assert server.bodies() == []
    assert "pull-requests: write" in caplog.text
    assert "PARITY PASS" in runner.summary.read_text()
    assert runner.outputs()["comment_url"] == ""


def test_a_server_that_is_down_costs_the_comment_not_the_verdict(runner: Runner) -> None:
    """No API at all leaves the verdict and its exit code as they are."""
    runner.server.url = "http://127.0.0.1:9"
    assert runner.pull_request(comment="false") == 0


@pytest.mark.parametrize(
    ("ref", "inputs", "lines"),
    [
        ("refs/heads/main", {}, ["validated"]),
        ("refs/tags/v1", {}, ["validated"]),
        ("refs/heads/topic", {}, []),
        ("refs/heads/topic", {"record": "always"}, ["validated"]),
        ("refs/heads/main", {"record": "never"}, []),
    ],
)
def test_which_pushes_are_recorded(
    runner: Runner, ref: str, inputs: Mapping[str, str], lines: list[str]
) -> None:
    """The default branch and tags are recorded, topic branches only when told to."""
    assert runner.push(ref, **inputs) == 0
    log = open_log("file:release-log.jsonl", runner.repository.root)
    assert [line.entry.kind.value for line in log.read()] == lines


def test_pull_requests_are_not_recorded(runner: Runner) -> None:
    """A pull request that may never be merged writes no line."""
    assert runner.pull_request() == 0
    assert open_log("file:release-log.jsonl", runner.repository.root).read() == ()


def test_a_failed_push_is_recorded_as_blocked(runner: Runner) -> None:
    """A fault on the default branch adds a blocked line and no validated one."""
    model = runner.repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    runner.repository.commit("fault")
    assert runner.push() == 1
    (line,) = open_log("file:release-log.jsonl", runner.repository.root).read()
    assert line.entry.kind.value == "blocked"
    assert line.entry.commit == runner.repository.git("rev-parse", "HEAD")


def test_a_config_error_reaches_summary_and_outputs(runner: Runner) -> None:
    """A run without a verdict says why in the summary and is inconclusive in the outputs."""
    runner.repository.replace("ci-parity.yml", "fixtures: fixtures", "fixtuers: fixtures")
    runner.repository.commit("typo")
    assert runner.pull_request() == 2
    assert "did you mean 'fixtures'?" in runner.summary.read_text()
    assert runner.outputs()["verdict"] == "inconclusive"


@pytest.mark.parametrize("name", ["working_directory", "report_dir"])
def test_inputs_do_not_leave_the_workspace(runner: Runner, name: str) -> None:
    """A folder outside the workspace is refused."""
    assert runner.pull_request(**{name: "../elsewhere"}) == 2


def test_a_run_without_a_verdict_replaces_the_old_comment(
    runner: Runner, server: GitHubServer
) -> None:
    """A later push that breaks the config leaves no stale pass on the pull request."""
    assert runner.pull_request() == 0
    runner.repository.replace("ci-parity.yml", "fixtures: fixtures", "fixtuers: fixtures")
    runner.repository.commit("typo")
    assert runner.pull_request() == 2
    (body,) = server.bodies()
    assert "PARITY PASS" not in body
    assert "reached no verdict" in body
    assert "did you mean 'fixtures'?" in body


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch"])
def test_an_event_without_a_base_runs_everything(
    runner: Runner, repository: UserRepository, name: str
) -> None:
    """HEAD is not compared with itself: without a log the references decide."""
    event = {"repository": {"full_name": "acme/models", "default_branch": "main"}}
    repository.git("checkout", "--quiet", "main")
    assert runner.start(name, event, "write-token", {}, ref="refs/heads/main") == 0
    report = json.loads((repository.root / runner.outputs()["report"]).read_text())
    assert report["ran"] is True
    assert name in report["changes"]["source"]["reason"]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"before": "0" * 40}, "names no base commit"), ({"forced": True}, "force-pushed")],
    ids=["first push", "force-push"],
)
def test_a_push_without_a_usable_before_runs_everything(
    runner: Runner, repository: UserRepository, change: Mapping[str, Any], words: str
) -> None:
    """A first push and a force-push have no baseline; the report says which it was."""
    event = {
        "before": repository.git("rev-parse", "HEAD~1"),
        "ref": "refs/heads/topic",
        "repository": {"full_name": "acme/models", "default_branch": "main"},
        **change,
    }
    assert runner.start("push", event, "write-token", {}, ref="refs/heads/topic") == 0
    report = json.loads((repository.root / runner.outputs()["report"]).read_text())
    assert report["ran"] is True
    assert words in report["changes"]["source"]["reason"]
