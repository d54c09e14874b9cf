"""Rules for workflows that no linter knows: ours, and those that users copy.

actionlint and zizmor look at the same files in `make lint`.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "workflows").glob("*.yml"))
OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_PINNED = re.compile(r"uses: (?!ci-parity/ci-parity@v1$)\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
# What a template's own job may do, at most.
_GRANTS = {
    "pull-request.yml": {"parity": {"contents": "read", "pull-requests": "write"}},
    "pull-request-matrix.yml": {
        "plan": {"contents": "read"},
        "run": {"contents": "read"},
        "gate": {"contents": "read", "pull-requests": "write"},
    },
    "fork-comment.yml": {"comment": {"actions": "read", "pull-requests": "write"}},
    "release-gate.yml": {"parity": {"contents": "write"}, "release": {"contents": "write"}},
    "rollback.yml": {"rollback": {"contents": "write", "pull-requests": "write"}},
    "drift.yml": {"parity": {"contents": "write"}},
    "macos-coreml.yml": {"parity": {"contents": "read"}},
    "edge-validate.yml": {"validate": {"actions": "read"}},
}


def read(path: Path) -> dict[Any, Any]:
    """Return a workflow; YAML 1.1 reads the key `on` as true."""
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def jobs() -> list[Any]:
    """Return each job of each workflow."""
    found = ((path, name, job) for path in TEMPLATES + OURS for name, job in jobs_of(path).items())
    return [
        pytest.param(path, job, id=f"{path.parent.name}/{path.stem}/{name}")
        for path, name, job in found
    ]


def jobs_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return a workflow's jobs by name."""
    found: dict[str, dict[str, Any]] = read(path)["jobs"]
    return found


@pytest.mark.parametrize(
    "path", TEMPLATES + OURS, ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_nothing_is_granted_at_the_top_and_runs_do_not_pile_up(path: Path) -> None:
    """A job that is added later starts with no rights."""
    workflow = read(path)
    assert workflow["permissions"] == {}
    assert "group" in workflow["concurrency"]


@pytest.mark.parametrize(("path", "job"), jobs())
def test_jobs_end_and_name_their_rights(path: Path, job: dict[str, Any]) -> None:
    """A hanging runtime does not hold a machine for six hours."""
    assert 0 < job["timeout-minutes"] <= 180, path
    assert job["permissions"], path


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_grants_of_templates_are_the_least(path: Path) -> None:
    """More than this is not asked of those who copy them."""
    assert {name: job["permissions"] for name, job in jobs_of(path).items()} == _GRANTS[path.name]


@pytest.mark.parametrize(
    "path", TEMPLATES + OURS, ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_actions_are_pinned_by_commit_with_their_version(path: Path) -> None:
    """But our own, which users take by its major version."""
    lines = [line.strip().removeprefix("- ") for line in path.read_text("utf-8").splitlines()]
    used = [
        line for line in lines if line.startswith("uses: ") and "ci-parity/ci-parity" not in line
    ]
    assert used
    assert [line for line in used if not _PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_what_a_pull_request_starts_a_merge_queue_starts_too(path: Path) -> None:
    """A required check that a queue does not start blocks it for ever."""
    events = read(path)[True]
    assert ("pull_request" in events) == ("merge_group" in events)
    assert "pull_request_target" not in events


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_strangers_code_is_refused_before_it_is_checked_out(path: Path) -> None:
    """In the first job, by a step that fails: a skipped job would count as success."""
    if "pull_request" not in read(path)[True]:
        return
    first, *others = jobs_of(path).values()
    guard, checkout = first["steps"][:2]
    assert guard["run"].rstrip().endswith("exit 1")
    assert "head.repo.full_name != github.repository" in guard["if"]
    assert "run-parity" in guard["if"]
    assert checkout["uses"].startswith("actions/checkout@")
    assert "if" not in first
    assert all(job["needs"] for job in others)


@pytest.mark.parametrize(("path", "job"), jobs())
def test_credentials_stay_only_where_the_log_is_written(path: Path, job: dict[str, Any]) -> None:
    """A token in the checkout's config is within reach of what runs there."""
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            kept = step["with"]["persist-credentials"]
            assert not kept or job["permissions"]["contents"] == "write", path


def test_gate_runs_whatever_happened_and_knows_how() -> None:
    """It needs every job before it, is never skipped, and is told how each ended."""
    found = jobs_of(ROOT / "workflows" / "pull-request-matrix.yml")
    gate = found.pop("gate")
    assert set(gate["needs"]) == set(found)
    assert gate["if"] == "always()"
    (told,) = [step["with"] for step in gate["steps"] if step.get("with", {}).get("mode") == "gate"]
    assert told["needs"] == "${{ toJSON(needs) }}"


def test_release_needs_a_measured_pass() -> None:
    """The verdict is asked for beside the job's result."""
    release = jobs_of(ROOT / "workflows" / "release-gate.yml")["release"]
    assert release["needs"] == "parity"
    assert "needs.parity.outputs.verdict == 'pass'" in release["if"]
    assert release["environment"]
    recorded, published = (
        next(n for n, step in enumerate(release["steps"]) if step.get(key) == value)
        for key, value in (("id", "release"), ("run", "./publish.sh"))
    )
    assert recorded < published
    assert release["steps"][recorded]["with"] == {
        "mode": "release",
        "digest": "${{ needs.parity.outputs.bundle_digest }}",
    }


def test_our_tags_come_last() -> None:
    """What users name is made when everything it leads to is tested, built, signed, published."""
    found = jobs_of(ROOT / ".github" / "workflows" / "release.yml")
    before: set[str] = set()
    waiting = ["tag"]
    while waiting:
        needs = found[waiting.pop()].get("needs", [])
        fresh = {needs} if isinstance(needs, str) else set(needs)
        waiting += sorted(fresh - before)
        before |= fresh
    assert before == set(found) - {"tag"}
