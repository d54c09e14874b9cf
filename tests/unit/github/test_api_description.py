"""What holds the loopback GitHub, and whoever speaks to it, to the published API description."""

import json
import re

import pytest
import requests

from ci_parity.github.client import RestClient
from tests.contracts.description import Exchanged, example, filled, violations
from tests.contracts.trim import OPERATIONS
from tests.support.github_repository import Head, Run
from tests.support.github_server import GitHubServer

COMMENTS = "/repos/acme/models/issues/7/comments"
CREATE = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments"
BODIES = {
    "attestations": {"bundle": {}},
    "comments": {"body": "hi"},
    "pulls/{pull_number}": {"title": "hi"},
    "repo}/pulls": {"title": "hi", "head": "change", "base": "main"},
    "statuses": {"state": "success", "context": "ci-parity"},
    "refs/{ref}": {"sha": "a" * 40, "force": True},
    "git/refs": {"ref": "refs/tags/v1", "sha": "a" * 40},
    "git/commits": {"message": "release", "tree": "a" * 40, "parents": ["b" * 40]},
    "git/trees": {"tree": [{"path": "a", "mode": "100644", "type": "blob", "content": "a"}]},
}


def exchanged(
    target: str = COMMENTS, body: object = None, status: int = 201, answer: object = None
) -> Exchanged:
    """Return the writing of a comment, or what a test makes of it."""
    sent = json.dumps({"body": "hi"} if body is None else body).encode()
    came = json.dumps(example(CREATE) if answer is None else answer).encode()
    return Exchanged.of("POST", target, sent, status, came)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (exchanged("/repos/acme/models/issues/7/coments"), "Path not found"),
        (exchanged("/repos/acme/models/issues/seven/comments"), "issue_number"),
        (exchanged(f"{COMMENTS}?notify=all"), "no query parameter 'notify'"),
        (exchanged(body={}), "'body' is a required property"),
        (exchanged(body={"body": 1}), "1 is not of type 'string'"),
        (exchanged(body={"body": "hi", "text": "hi"}), "'text' was unexpected"),
        (exchanged(status=200), "not 200"),
        (exchanged(answer={"id": 1}), "'html_url' is a required property"),
    ],
)
def test_what_github_would_not_know_is_a_violation(wrong: Exchanged, words: str) -> None:
    """Paths, parameters, bodies, statuses and answers are each held to the description."""
    (found,) = violations(wrong)
    assert words in found
    assert violations(exchanged()) == []


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if "DELETE" not in one])
def test_examples_keep_to_the_description(operation: str) -> None:
    """What an answer is filled in from is itself what GitHub answers."""
    method, template = operation.split()
    path = re.sub(
        r"\{(\w+)\}", lambda m: "7" if m[1].endswith(("_id", "number")) else "x", template
    )
    body = next((sent for key, sent in BODIES.items() if key in template.replace("{sha}", "")), {})
    status = 201 if method == "POST" else 200
    sent = json.dumps(body).encode() if method != "GET" else b""
    path += "?name=x" if "assets" in path and method == "POST" else ""
    asked = Exchanged.of(method, path, sent, status, b"")
    nothing: object = [{}] if isinstance(example(operation), list) else {}
    answer = json.dumps(filled(asked, nothing)).encode()
    assert violations(Exchanged.of(method, path, sent, status, answer)) == []


def test_a_test_that_asks_for_what_is_not_there_fails() -> None:
    """The server tells at its end; a request it could not know is no quiet 404."""
    headers = {"Authorization": "Bearer write-token"}

    def ask() -> None:
        with GitHubServer() as server:
            done = requests.get(
                f"{server.url}/repos/acme/models/pull/7", headers=headers, timeout=5
            )
            assert done.status_code == 404

    with pytest.raises(AssertionError, match="Path not found for /repos/acme/models/pull/7"):
        ask()


def test_pulls_are_found_by_branch_and_commit_where_github_finds_them() -> None:
    """A fork's pull request is listed by its branch, and not among those of its commit."""
    with GitHubServer(pulls=[("acme/models", 7), ("acme/models", 8)]) as server:
        server.heads["acme/models", 7] = Head(sha="b" * 40, ref="fix", repository="acme/models")
        server.heads["acme/models", 8] = Head(sha="c" * 40, ref="fix", repository="fork/models")
        client = RestClient(server.url, "write-token")

        def numbers(path: str) -> list[object]:
            return [pull["number"] for pull in client.items(f"/repos/acme/models{path}")]  # type: ignore[index,call-overload]

        assert numbers("/pulls?state=open&head=fork:fix") == [8]
        assert numbers("/pulls?state=open&head=acme:fix") == [7]
        assert numbers(f"/commits/{'b' * 40}/pulls") == [7]
        assert numbers(f"/commits/{'c' * 40}/pulls") == []


def test_runs_show_jobs_and_artifacts() -> None:
    """A run's jobs and artifacts are listed with what a reader of them checks."""
    run = Run(head_sha="b" * 40, jobs={"run (cpu)": "cancelled"}, artifacts={"ci-parity-cpu": b"x"})
    with GitHubServer() as server:
        server.runs[41] = run
        client = RestClient(server.url, "write-token")
        path = "/repos/acme/models/actions/runs/41"
        shown = client.get(path)
        jobs, artifacts = client.get(f"{path}/jobs"), client.get(f"{path}/artifacts")
    assert shown["head_sha"] == "b" * 40  # type: ignore[index,call-overload]
    assert [job["conclusion"] for job in jobs["jobs"]] == ["cancelled"]  # type: ignore[index,call-overload,union-attr]
    assert [one["name"] for one in artifacts["artifacts"]] == ["ci-parity-cpu"]  # type: ignore[index,call-overload,union-attr]
