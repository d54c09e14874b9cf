"""What the action tells a pull request over several runs, and what it tells a commit; no Docker."""

from typing import Any

import pytest

from ci_parity.cli import guarded
from ci_parity.github.marker import Marker
from tests.integration.support.in_process import Runner
from tests.integration.test_action_in_process import repository, runner, server
from tests.support.github_server import GitHubServer
from tests.support.models import scale_initializer
from tests.support.user_repository import UserRepository

__all__ = ["repository", "runner", "server"]


def first_line(server: GitHubServer) -> str:
    """Return the line that a reader sees first."""
    (body,) = server.bodies()
    return body.splitlines()[1]


def untouched(runner: Runner) -> None:
    """Take back what the branch changed, so that it only adds a text."""
    runner.repository.replace("ci-parity.yml", "measure: false, sessions: 3", "measure: false")
    runner.repository.write("NOTES.md", "nothing to see\n")
    runner.repository.commit("only words")


def broken(runner: Runner) -> None:
    """Change a weight."""
    model = runner.repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    runner.repository.commit("fault")


def test_an_unchanged_pass_is_quiet(runner: Runner, server: GitHubServer) -> None:
    """There is no comment where nothing changed; the summary and the outputs have the verdict."""
    untouched(runner)
    assert runner.pull_request() == 0
    assert server.bodies() == []
    assert runner.outputs()["comment_url"] == ""
    assert runner.outputs()["verdict"] == "pass"
    summary = runner.summary.read_text()
    assert "PARITY PASS" in summary
    assert "**Nothing changed** since" in summary


def test_an_unchanged_pass_is_told_where_the_config_asks_for_it(
    runner: Runner, server: GitHubServer
) -> None:
    """`report: {comment: always}` begins a comment with every first run."""
    runner.repository.git("checkout", "--quiet", "main")
    config = runner.repository.root / "ci-parity.yml"
    runner.repository.write("ci-parity.yml", f"{config.read_text()}report: {{comment: always}}\n")
    runner.repository.commit("always")
    runner.repository.git("checkout", "--quiet", "-b", "words")
    runner.repository.write("NOTES.md", "nothing to see\n")
    runner.repository.commit("only words")
    assert runner.pull_request() == 0
    assert "PARITY PASS" in first_line(server)


def test_a_red_comment_does_not_stay_after_the_fix(runner: Runner, server: GitHubServer) -> None:
    """What is no news still replaces what is there, and remembers it."""
    broken(runner)
    assert runner.pull_request() == 1
    assert "PARITY FAIL" in first_line(server)
    red = runner.repository.git("rev-parse", "HEAD")
    runner.repository.git("checkout", "--quiet", "main", "--", "model.onnx")
    untouched(runner)
    assert runner.pull_request() == 0
    (body,) = server.bodies()
    assert "PARITY PASS" in first_line(server)
    assert "**Nothing changed** since" in body
    assert "PARITY FAIL" not in body
    page = f"{server.url}/acme/models/actions/runs/101/attempts/1"
    green = runner.repository.git("rev-parse", "HEAD")
    assert f"newest last: ❌ [`{red[:7]}`]({page}) · ✅ `{green[:7]}`" in body


def test_a_run_without_a_verdict_is_remembered_as_none(
    runner: Runner, server: GitHubServer
) -> None:
    """The comment says that nothing was judged, and the history keeps what was."""
    assert runner.pull_request() == 0
    runner.repository.replace("ci-parity.yml", "fixtures: fixtures", "fixtuers: fixtures")
    runner.repository.commit("typo")
    assert runner.pull_request() == 2
    assert first_line(server).startswith("### ⚠️ NO VERDICT · ")
    (body,) = server.bodies()
    marker = Marker.parse(body)
    assert marker is not None
    assert [one.outcome.value for one in marker.told] == ["pass", "inconclusive"]


def test_what_was_validated_last_stands_in_a_red_comment(
    runner: Runner, server: GitHubServer
) -> None:
    """With its digest and its commit, from the release log."""
    runner.repository.git("checkout", "--quiet", "main")
    runner.repository.write("NOTES.md", "released\n")
    runner.repository.commit("release")
    assert runner.push() == 0
    validated = runner.outputs()["bundle_digest"].removeprefix("sha256:")
    commit = runner.repository.git("rev-parse", "HEAD")
    runner.repository.git("checkout", "--quiet", "change")
    broken(runner)
    assert runner.pull_request() == 1
    (body,) = server.bodies()
    assert f"**Last validated: bundle `sha256:{validated[:16]}`, commit `{commit[:12]}`" in body
    assert f"deploy the files of commit `{commit[:12]}`" in body


def merge_group(runner: Runner, **inputs: str) -> int:
    """Run as a merge queue does."""
    event: dict[str, Any] = {
        "merge_group": {
            "base_sha": runner.repository.git("rev-parse", "main"),
            "head_sha": runner.repository.git("rev-parse", "HEAD"),
        },
        "repository": {"full_name": "acme/models", "default_branch": "main"},
    }
    ref = "refs/heads/gh-readonly-queue/main/pr-7"
    return runner.start("merge_group", event, "status-token", inputs, ref=ref)


def test_a_merge_group_gets_a_status_and_no_comment(runner: Runner, server: GitHubServer) -> None:
    """Its queue has nothing else to show."""
    assert merge_group(runner, commit_status="ci-parity") == 0
    assert server.bodies() == []
    head = runner.repository.git("rev-parse", "HEAD")
    assert [(s["state"], s["sha"]) for s in server.statuses] == [
        ("pending", head),
        ("success", head),
    ]
    broken(runner)
    assert merge_group(runner, commit_status="ci-parity") == 1
    assert [s["state"] for s in server.statuses][2:] == ["pending", "failure"]
    assert "PARITY FAIL" in server.statuses[-1]["description"]


def test_a_run_without_a_verdict_closes_its_status(runner: Runner, server: GitHubServer) -> None:
    """A wrong config leaves an error, not a pending status."""
    runner.repository.replace("ci-parity.yml", "fixtures: fixtures", "fixtuers: fixtures")
    runner.repository.commit("typo")
    assert merge_group(runner, commit_status="ci-parity") == 2
    assert [s["state"] for s in server.statuses] == ["pending", "error"]


def test_a_status_that_may_not_be_written_changes_no_verdict(
    runner: Runner, server: GitHubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The permission is named once; the comment and the exit code are as ever."""
    assert runner.pull_request(commit_status="ci-parity") == 0
    assert server.statuses == []
    assert caplog.text.count("statuses: write") == 1
    assert "PARITY PASS" in first_line(server)


def test_a_bug_of_ours_leaves_no_pass_behind(
    runner: Runner, server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comment from before is replaced, the status closed, the exit code 70."""
    assert runner.pull_request(token="status-token") == 0
    runner.output.chmod(0o400)
    report = runner.repository.root / "ci-parity-report"
    (report / "verdict.json").unlink()
    (report / "verdict.json").mkdir()
    code = guarded(lambda: runner.pull_request(token="status-token", commit_status="ci-parity"))
    assert code == 70
    assert "Traceback" in capsys.readouterr().err
    assert "PARITY PASS" not in server.bodies()[0]
    assert "a bug of ours" in first_line(server)
    assert [s["state"] for s in server.statuses] == ["pending", "error"]


def test_the_head_on_a_privileged_event_is_refused(
    runner: Runner, server: GitHubServer, repository: UserRepository
) -> None:
    """Nothing of it is read: a config that is no YAML at all is not even noticed."""
    runner.repository.write("ci-parity.yml", "{{{")
    runner.repository.commit("stranger")
    ours = {"full_name": "acme/models"}
    event = {
        "repository": {**ours, "default_branch": "main"},
        "pull_request": {
            "number": 7,
            "head": {"sha": repository.git("rev-parse", "HEAD"), "repo": {"full_name": "eve/m"}},
            "base": {"sha": repository.git("rev-parse", "main"), "repo": ours},
        },
    }
    assert runner.start("pull_request_target", event, "write-token", {}) == 2
    assert "is checked out on the event pull_request_target" in runner.summary.read_text()
    assert runner.outputs()["verdict"] == "inconclusive"
    assert "NO VERDICT" in first_line(server)
