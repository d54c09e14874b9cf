"""The action's modes `release` and `rollback`, run in this process as a runner would."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.support.in_process import Runner
from tests.support.github_server import GitHubServer
from tests.support.proposed import proposing
from tests.support.released import Releasing, releasing

DISPATCH = {"repository": {"full_name": "acme/models", "default_branch": "main"}, "inputs": {}}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releasing:
    """Return a deployment of two commits, the newer one validated."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    found = releasing(tmp_path / "user")
    found.validate()
    return found


@pytest.fixture
def runner(made: Releasing, tmp_path: Path) -> Iterator[Runner]:
    """Return a runner of that repository's workflows."""
    with GitHubServer(pulls=[("acme/models", 7)]) as server:
        yield Runner(made.repository, server, tmp_path)


def dispatched(runner: Runner, **inputs: str) -> int:
    """Run as the next run that somebody started."""
    runner.next_run()
    return runner.start("workflow_dispatch", DISPATCH, "write-token", inputs, ref="refs/heads/main")


def test_a_release_and_a_rollback_end_in_outputs_and_a_summary(
    made: Releasing, runner: Runner
) -> None:
    """The digest that is out, for the steps after it; the line, for the reader."""
    first = made.digest()
    assert dispatched(runner, mode="release", digest=f"sha256:{first}") == 0
    out = {"verdict": "pass", "bundle_digest": f"sha256:{first}", "pull_request": ""}
    assert runner.outputs() == out
    assert "### ✅ Released" in runner.summary.read_text()
    made.next_state()
    made.validate()
    assert dispatched(runner, mode="release") == 0
    assert dispatched(runner, mode="rollback", dry_run="true") == 0
    assert made.kinds().count("rolled_back") == 0
    assert dispatched(runner, mode="rollback", reason="::error::`|` labels") == 0
    assert runner.outputs() == out
    assert made.lines()[-1].entry.findings_failed == ("::error::`|` labels",)
    assert made.lines()[-1].entry.idempotency.startswith("acme/models/")
    assert "### ✅ Rolled back" in runner.summary.read_text()


def test_a_refusal_fails_the_job_and_says_why(
    made: Releasing, runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an annotation, in the summary, and as an output that no later step takes for a pass."""
    made.next_state()
    assert dispatched(runner, mode="release") == 1
    assert runner.outputs()["verdict"] == "fail"
    assert "no validated record" in runner.summary.read_text()
    assert "::error title=CI Parity release::no validated record" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["release", "rollback"])
def test_a_pull_request_puts_nothing_out(made: Releasing, runner: Runner, mode: str) -> None:
    """Its checkout may say anything; nothing is written, no comment either."""
    made.repository.git("checkout", "--quiet", "-b", "change")
    assert runner.pull_request(mode=mode) == 2
    assert runner.outputs()["verdict"] == "inconclusive"
    assert made.kinds() == ["validated"]
    assert runner.server.bodies() == []


def test_a_bundle_outside_of_the_workspace_is_refused(made: Releasing, runner: Runner) -> None:
    """The input names a place in it."""
    assert dispatched(runner, mode="release", bundle="../b.tar") == 2
    assert made.kinds() == ["validated"]


def test_a_rollback_by_pull_request_is_no_release_until_it_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is green, no digest is given to later steps, and the summary leads to it.

    All attempts of the run are one act: after something newer went out it is told so.
    """
    with GitHubServer(pulls=[("acme/models", 7)]) as server:
        at = proposing(tmp_path, server, monkeypatch)
        for name in ("GITHUB_REPOSITORY", "GITHUB_API_URL", "GITHUB_TOKEN"):
            monkeypatch.delenv(name)
        first, runner = (
            at.made.lines()[0].entry.bundle,
            Runner(at.made.repository, server, tmp_path),
        )
        inputs = {"mode": "rollback", "reason": "swapped"}
        assert dispatched(runner, **inputs, dry_run="true") == 0
        assert at.made.kinds().count("revoked") == 0
        assert dispatched(runner, **inputs) == 0
        url = f"{server.url}/acme/models/pull/8"
        assert runner.outputs() == {"verdict": "pass", "bundle_digest": "", "pull_request": url}
        assert f"({url})" in runner.summary.read_text()
        assert "barred by record 4" in runner.summary.read_text()
        assert f"/acme/models/actions/runs/{runner.run_id}/attempts/1" in at.body()

        at.made.next_state()
        at.put_out()
        again = ("workflow_dispatch", DISPATCH, "write-token", inputs, "refs/heads/main")
        assert runner.start(*again) == 1
        assert "came after" in runner.summary.read_text()
        assert at.made.kinds()[-1] == "released"
        assert dispatched(runner, **inputs, to=f"sha256:{first}") == 0
        assert len(at.titles()) == 2
