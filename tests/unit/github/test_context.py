import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.github import context
from ci_parity.github.context import GitHubContext, from_environment

HEAD, BASE, MERGE = "a" * 40, "b" * 64, "c" * 40


def pull_request(**changes: Any) -> dict[str, Any]:
    """Return the part of a pull request's payload that is read."""
    pull = {
        "number": 7,
        "head": {"sha": HEAD, "repo": {"full_name": "acme/models"}},
        "base": {"sha": BASE, "repo": {"full_name": "acme/models"}},
    }
    return {
        "pull_request": pull | changes,
        "repository": {"default_branch": "main"},
    }


def environment(folder: Path, event: object, name: str = "pull_request") -> dict[str, str]:
    """Return the variables of a run on `event`."""
    path = folder / "event.json"
    path.write_text(event if isinstance(event, str) else json.dumps(event), encoding="utf-8")
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "acme/models",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_API_URL": "https://ghe.example/api/v3/",
        "GITHUB_SERVER_URL": "https://ghe.example",
        "GITHUB_WORKSPACE": "/github/workspace",
        "GITHUB_RUN_ID": "123456789012",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_SHA": MERGE,
        "GITHUB_ACTOR": "renovate[bot]",
        "GITHUB_REF": "refs/pull/7/merge",
        "INPUT_GITHUB_TOKEN": "secret-token",
    }


def read(environ: Mapping[str, str]) -> GitHubContext:
    """Read a context that must be there."""
    found = from_environment(environ)
    assert found is not None
    return found


def test_outside_actions_there_is_no_context() -> None:
    """A laptop has no run, pull request or token."""
    assert from_environment({"GITHUB_SHA": HEAD}) is None


def test_pull_request_is_judged_by_its_own_head(tmp_path: Path) -> None:
    """The head commit counts, not the merge commit that GitHub checks out."""
    found = read(environment(tmp_path, pull_request()))
    assert (found.head_sha, found.base_sha, found.pull_request) == (HEAD, BASE, 7)
    assert (found.repository, found.api_url) == ("acme/models", "https://ghe.example/api/v3")
    assert found.run_url == "https://ghe.example/acme/models/actions/runs/123456789012/attempts/2"
    assert (found.actor, found.ref) == ("renovate[bot]", "refs/pull/7/merge")
    assert (found.default_branch, found.workspace) == ("main", Path("/github/workspace"))
    assert not found.is_fork
    assert not found.forced


def test_token_is_not_shown(tmp_path: Path) -> None:
    """A context that ends in a log or a traceback does not carry the token there."""
    found = read(environment(tmp_path, pull_request()))
    assert found.token == "secret-token"  # noqa: S105 - a made-up one
    assert "secret" not in repr(found)


@pytest.mark.parametrize("head_repo", [None, {"full_name": "mallory/models"}, {}])
def test_foreign_or_gone_head_is_a_fork(tmp_path: Path, head_repo: object) -> None:
    """A head repository that is another one, deleted or unnamed gets a fork's trust."""
    event = pull_request(head={"sha": HEAD, "repo": head_repo})
    assert read(environment(tmp_path, event)).is_fork


def test_pull_request_target_keeps_the_sha_it_checks_out(tmp_path: Path) -> None:
    """The event runs the base branch's code, so that is what is judged; its name stays visible."""
    found = read(environment(tmp_path, pull_request(), "pull_request_target"))
    assert (found.event_name, found.head_sha) == ("pull_request_target", MERGE)


@pytest.mark.parametrize(
    ("before", "base"), [(HEAD, HEAD), ("0" * 40, None), ("0" * 64, None), (None, None)]
)
def test_push_compares_with_the_commit_before(
    tmp_path: Path, before: str | None, base: str | None
) -> None:
    """A branch's first push has no commit before it; GitHub writes zeros."""
    found = read(environment(tmp_path, {"before": before, "forced": True}, "push"))
    assert (found.head_sha, found.base_sha, found.pull_request) == (MERGE, base, None)
    assert found.forced


def test_merge_group_compares_with_its_base(tmp_path: Path) -> None:
    """A merge queue judges its own commit against the base it was built on."""
    event = {"merge_group": {"base_sha": BASE, "head_sha": MERGE}}
    found = read(environment(tmp_path, event, "merge_group"))
    assert (found.head_sha, found.base_sha) == (MERGE, BASE)


def test_event_without_fields_gives_nothing(tmp_path: Path) -> None:
    """What a payload does not say is not invented; a ref's number is no pull request."""
    found = read(environment(tmp_path, {}, "pull_request"))
    assert (found.head_sha, found.base_sha, found.pull_request) == (MERGE, None, None)
    assert (found.is_fork, found.default_branch) == (False, None)


def test_missing_variables_take_the_public_defaults() -> None:
    """Without an event file, addresses or run number, those of github.com stand in."""
    found = read({"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/models"})
    assert (found.api_url, found.server_url) == ("https://api.github.com", "https://github.com")
    assert (found.run_id, found.run_attempt, found.head_sha, found.token) == (1, 1, None, "")


@pytest.mark.parametrize(
    "event",
    [
        pull_request(number=0),
        pull_request(number=-3),
        pull_request(number=True),
        pull_request(number="7"),
        pull_request(number=7.5),
        pull_request(head={"sha": "HEAD"}),
        pull_request(head={"sha": "a" * 40 + "\n"}),
        pull_request(head={"sha": ["a" * 40]}),
        pull_request(head={"sha": HEAD, "repo": "acme/models"}),
        pull_request(base={"sha": "$(touch pwned)"}),
        {"pull_request": 7},
        {"repository": {"default_branch": 1}},
        [],
        '{"pull_request": {}, "pull_request": {"number": 7}}',
        "{",
        "",
    ],
)
def test_malformed_payload_is_refused_with_its_place(tmp_path: Path, event: object) -> None:
    """A field of the wrong type, a doubled key or broken JSON ends the run, naming the file."""
    with pytest.raises(EvidenceError) as caught:
        from_environment(environment(tmp_path, event))
    assert caught.value.where == str(tmp_path / "event.json")


def test_oversized_payload_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload beyond GitHub's own limit is refused by its size alone."""
    monkeypatch.setattr(context, "PAYLOAD_LIMIT_BYTES", 10)
    with pytest.raises(EvidenceError, match="more than 10"):
        from_environment(environment(tmp_path, pull_request()))


def test_absent_payload_names_the_mount(tmp_path: Path) -> None:
    """An event path that leads nowhere inside the container says how to get it there."""
    environ = environment(tmp_path, {}) | {"GITHUB_EVENT_PATH": str(tmp_path / "gone.json")}
    with pytest.raises(EvidenceError) as caught:
        from_environment(environ)
    assert "mount" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_REPOSITORY", ""),
        ("GITHUB_REPOSITORY", "acme"),
        ("GITHUB_REPOSITORY", "acme/../.."),
        ("GITHUB_REPOSITORY", "../models"),
        ("GITHUB_REPOSITORY", "acme/.."),
        ("GITHUB_REPOSITORY", "acme/models?x=1"),
        ("GITHUB_RUN_ID", "12a"),
        ("GITHUB_RUN_ID", "-1"),
        ("GITHUB_RUN_ATTEMPT", "0"),
        ("GITHUB_SHA", "main"),
        ("GITHUB_API_URL", "file:///etc"),
        ("GITHUB_API_URL", "https://user@ghe.example"),
        ("GITHUB_SERVER_URL", "ghe.example"),
    ],
)
def test_malformed_variable_is_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    """A variable that GitHub could not have set is named in the error."""
    with pytest.raises(EvidenceError) as caught:
        from_environment(environment(tmp_path, {}) | {name: value})
    assert caught.value.where == name
