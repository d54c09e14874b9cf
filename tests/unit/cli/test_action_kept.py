"""When the action runs once more with what is kept, and what that is."""

import sys
from collections.abc import Mapping

import pytest

from ci_parity.cli import action_kept
from ci_parity.cli.action import run_kept_action
from ci_parity.cli.action_kept import run_kept
from ci_parity.run.container.again import Wanted

JOB = "0123456789ab" * 5
HERE = {"CI_PARITY_CACHE": "/cache", "CI_PARITY_CACHE_VOLUME": "kept"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    """Return what was asked of the daemon, which runs all of it to the status 3."""
    found: list[Wanted] = []

    def run_again(wanted: Wanted, variables: Mapping[str, str]) -> int:
        assert variables["CI_PARITY_CACHE_VOLUME"] == variables["INPUT_JOB_CONTAINER"] == ""
        found.append(wanted)
        return 3

    monkeypatch.setattr(action_kept, "run_again", run_again)
    return found


def test_runs_that_record_share_no_cache_with_others(asked: list[Wanted]) -> None:
    """What a pull request has cached, a release does not believe."""
    assert run_kept(HERE, job="", records=False) == run_kept(HERE, job="", records=True) == 3
    assert [wanted.volume for wanted in asked] == ["kept", "kept-recording"]
    assert {str(wanted.cache) for wanted in asked} == {"/cache"}


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({}, ""),
        ({**HERE, "CI_PARITY_CACHE_VOLUME": ""}, ""),
        ({**HERE, "RUNNER_ENVIRONMENT": "github-hosted"}, ""),
        ({"CI_PARITY_CACHE_VOLUME": "kept"}, ""),
        ({}, "${{ job.container.id }}"),
        ({}, "../images/json"),
    ],
)
def test_nothing_is_asked_where_nothing_would_be_kept(
    asked: list[Wanted], variables: Mapping[str, str], job: str
) -> None:
    """The second container has no name to look for; a hosted runner is gone with its volumes."""
    assert run_kept(variables, job=job, records=False) is None
    assert asked == []


def test_the_devices_of_a_job_are_asked_for_on_any_runner(asked: list[Wanted]) -> None:
    """A runner with a GPU may be a hosted one."""
    run_kept({**HERE, "RUNNER_ENVIRONMENT": "github-hosted"}, job=JOB, records=True)
    assert [(wanted.volume, wanted.job) for wanted in asked] == [("", JOB)]


@pytest.mark.parametrize(
    ("variables", "runs"),
    [
        ({"INPUT_MODE": "check"}, [False]),
        ({"INPUT_MODE": "check", "INPUT_RECORD": "always"}, [True]),
        ({"INPUT_MODE": "comment"}, []),
        ({"INPUT_MODE": "no such mode"}, []),
        ({"GITHUB_ACTIONS": ""}, []),
    ],
)
def test_what_runs_models_runs_with_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], runs: list[bool]
) -> None:
    """Else the plain run does it, and says what is wrong; so it does where nothing can be kept."""
    asked: list[bool] = []

    def run_kept(_: Mapping[str, str], *, job: str, records: bool) -> None:
        assert job == JOB
        asked.append(records)

    monkeypatch.setattr(action_kept, "run_kept", run_kept)
    monkeypatch.setattr(sys.modules[run_kept_action.__module__], "run_action", lambda _: 9)
    environ = {
        "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_RUN_ID": "1",
        "GITHUB_REPOSITORY": "acme/reader", "GITHUB_SHA": "0" * 40,
    }  # fmt: skip
    environ |= {"INPUT_JOB_CONTAINER": JOB, **variables}
    assert run_kept_action(environ) == 9
    assert asked == runs
