"""Whose code may run on an event whose token can write whoever asked for it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.github.context import GitHubContext, from_environment
from ci_parity.stages.strangers import refuse_strangers_code
from tests.support.user_repository import UserRepository, empty_repository

REPOSITORY = {"full_name": "acme/models", "default_branch": "main"}


@pytest.fixture
def checkout(tmp_path: Path) -> UserRepository:
    """Return a repository on main, with a stranger's branch that changes the model."""
    made = empty_repository(tmp_path / "user")
    made.write("model.txt", "ours")
    made.commit("ours")
    made.git("checkout", "--quiet", "-b", "stranger")
    made.write("model.txt", "theirs")
    made.commit("theirs")
    made.git("checkout", "--quiet", "main")
    return made


def context(
    checkout: UserRepository, name: str, event: Mapping[str, Any], sha: str = ""
) -> GitHubContext:
    """Return the context of an event; its file lies outside the repository."""
    path = checkout.root.parent / "event.json"
    path.write_text(json.dumps({"repository": REPOSITORY, **event}))
    known = from_environment(
        {
            "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path),
            "GITHUB_REPOSITORY": "acme/models",
            "GITHUB_SHA": sha or checkout.git("rev-parse", "main"),
        }
    )  # fmt: skip
    assert known is not None
    return known


def target(checkout: UserRepository) -> GitHubContext:
    """Return the context of pull_request_target, from a fork."""
    head = {"sha": checkout.git("rev-parse", "stranger"), "repo": {"full_name": "eve/models"}}
    base = {"sha": checkout.git("rev-parse", "main"), "repo": REPOSITORY}
    event = {"pull_request": {"number": 7, "head": head, "base": base}}
    return context(checkout, "pull_request_target", event)


def after(checkout: UserRepository, started_by: str, owner: str = "acme/models") -> GitHubContext:
    """Return the context of workflow_run, after a run on the stranger's commit."""
    run = {
        "event": started_by, "head_sha": checkout.git("rev-parse", "stranger"),
        "head_repository": {"full_name": owner},
    }  # fmt: skip
    return context(checkout, "workflow_run", {"workflow_run": run})


def refused(known: GitHubContext, root: Path) -> ConfigError:
    """Return the refusal."""
    with pytest.raises(ConfigError) as caught:
        refuse_strangers_code(known, root)
    assert "'pull_request'" in caught.value.remedy
    assert known.event_name in caught.value.where
    return caught.value


def test_the_base_may_be_judged(checkout: UserRepository) -> None:
    """The event's own checkout is the repository's code."""
    refuse_strangers_code(target(checkout), checkout.root)
    refuse_strangers_code(after(checkout, "pull_request"), checkout.root)


def test_the_head_is_refused(checkout: UserRepository) -> None:
    """Checking out the pull request gives a stranger the token: nothing of it is read."""
    known = target(checkout)
    checkout.git("checkout", "--quiet", "stranger")
    assert checkout.git("rev-parse", "HEAD")[:12] in refused(known, checkout.root).what
    refused(after(checkout, "pull_request"), checkout.root)


def test_a_merge_of_the_head_is_refused(checkout: UserRepository) -> None:
    """What holds the head's files is the head's code, whatever commit it is."""
    known = target(checkout)
    checkout.git("checkout", "--quiet", "-b", "merged", "main")
    checkout.git("merge", "--quiet", "--no-ff", "--no-edit", "stranger")
    refused(known, checkout.root)


def test_files_of_the_head_over_the_base_are_refused(checkout: UserRepository) -> None:
    """The commit is ours and the files are not."""
    checkout.git("checkout", "--quiet", "stranger", "--", "model.txt")
    assert "changed files" in refused(target(checkout), checkout.root).what


def test_files_beside_the_base_are_refused(checkout: UserRepository) -> None:
    """What an artifact of the other run brought is not tracked."""
    checkout.write("brought/model.onnx", "theirs")
    refused(after(checkout, "pull_request"), checkout.root)


def test_a_folder_without_git_is_refused(checkout: UserRepository, tmp_path: Path) -> None:
    """What cannot be told counts as a stranger's."""
    plain = tmp_path / "unpacked"
    plain.mkdir()
    assert "no git checkout" in refused(target(checkout), plain).what


def test_a_checkout_below_the_base_is_refused(checkout: UserRepository) -> None:
    """The folder that is judged counts, not the one around it."""
    nested = checkout.root / "pr"
    checkout.git("worktree", "add", "--quiet", str(nested), "stranger")
    refused(target(checkout), nested)


def test_a_base_that_claims_to_be_the_head_is_refused(checkout: UserRepository) -> None:
    """Where both ends of a pull request are one commit, it is still what the stranger pushed."""
    sha = checkout.git("rev-parse", "stranger")
    side = {"sha": sha, "repo": REPOSITORY}
    event = {"pull_request": {"number": 7, "head": side, "base": side}}
    known = context(checkout, "pull_request_target", event, sha=sha)
    checkout.git("checkout", "--quiet", "stranger")
    refused(known, checkout.root)


def test_a_pushed_commit_may_be_judged_after_its_run(checkout: UserRepository) -> None:
    """What started the run was pushed here by somebody who may; a fork's push is not."""
    known, foreign = after(checkout, "push"), after(checkout, "push", owner="eve/models")
    checkout.git("checkout", "--quiet", "stranger")
    refuse_strangers_code(known, checkout.root)
    refused(foreign, checkout.root)


@pytest.mark.parametrize("name", ["pull_request", "push", "merge_group", "schedule"])
def test_other_events_judge_what_is_there(checkout: UserRepository, name: str) -> None:
    """Their token is no more than the author of the commit has, or the code is the repository's."""
    checkout.git("checkout", "--quiet", "stranger")
    checkout.write("new.txt", "x")
    refuse_strangers_code(context(checkout, name, {}), checkout.root)
