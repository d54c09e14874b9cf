"""What GitHub's REST API knows and answers, without the wire: the state behind `github_server`.

It holds the issue comments of the pull requests it was told of, the statuses of commits, who a
token belongs to and what it may do, and answers in GitHub's own words.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

DOCUMENTATION = "https://docs.github.com/rest/issues/comments#create-an-issue-comment"
MAX_BODY = 65_536
MAX_DESCRIPTION = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Whom a token belongs to and what it may do."""

    login: str
    type: str = "Bot"
    installation: bool = True
    write: bool = True
    statuses: bool = False
    attestations: bool = False


TOKENS: Mapping[str, Grant] = {
    "write-token": Grant(login="github-actions[bot]"),
    "status-token": Grant(login="github-actions[bot]", statuses=True),
    "attest-token": Grant(login="github-actions[bot]", attestations=True),
    "fork-token": Grant(login="github-actions[bot]", write=False),
    "app-token": Grant(login="parity-app[bot]"),
    "robot-token": Grant(login="robot", type="User", installation=False),
    "stranger-token": Grant(login="stranger", type="User", installation=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back; `data` is a JSON value, `None` an empty body, bytes go out as they are."""

    status: int
    data: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the body's bytes."""
        if isinstance(self.data, bytes):
            return self.data
        return b"" if self.data is None else json.dumps(self.data).encode("utf-8")


class FakeGitHub:
    """The state and the answers.

    Attributes:
        url: the root of every address it gives out.
        comments: every comment by number, in the form the API shows it.
        statuses: every commit status in the order of writing, with the commit as `sha`.
        max_body: the longest comment it takes, in characters.
    """

    def __init__(self, *, pulls: Sequence[tuple[str, int]], tokens: Mapping[str, Grant]) -> None:
        self.url = ""
        self.comments: dict[int, dict[str, Any]] = {}
        self.statuses: list[dict[str, str]] = []
        self.max_body = MAX_BODY
        self._pulls = set(pulls)
        self._tokens = dict(tokens)
        self._lock = threading.RLock()
        self._next_number = 1001

    def changed(self) -> None:
        """Take note that the state is another; called under the lock."""

    def login_of(self, token: str) -> str:
        """Return whom a token belongs to, nobody if it is unknown."""
        grant = self._tokens.get(token)
        return grant.login if grant else ""

    def add_comment(
        self,
        body: str,
        *,
        writer: str = "write-token",
        repository: str = "acme/models",
        pull: int = 7,
    ) -> int:
        """Write a comment as the owner of the token `writer`; return its number."""
        with self._lock:
            comment = self._create(self._tokens[writer], repository, pull, body)
            return int(comment["id"])

    def bodies(self) -> list[str]:
        """Return the texts that stand, in the order of their creation."""
        with self._lock:
            return [str(comment["body"]) for _, comment in sorted(self.comments.items())]

    def answer(self, method: str, target: str, token: str, body: bytes) -> Answer:
        """Carry a request out as GitHub would."""
        grant = self._tokens.get(token)
        if grant is None:
            return _message(401, "Bad credentials")
        parts = urlsplit(target)
        path = parts.path.removeprefix("/api/v3")
        with self._lock:
            for pattern, handle in self._routes().items():
                if match := re.fullmatch(pattern, f"{method} {path}"):
                    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                    return handle(grant, query | match.groupdict(), body.decode("utf-8"))
        return _message(404, "Not Found")

    def _routes(self) -> dict[str, Callable[[Grant, dict[str, str], str], Answer]]:
        repository = r"/repos/(?P<repository>[^/]+/[^/]+)"
        comment = rf"{repository}/issues/comments/(?P<id>\d+)"
        comments = rf"{repository}/issues/(?P<number>\d+)/comments"
        return {
            r"GET /user": self._get_user,
            rf"GET {repository}/pulls/(?P<number>\d+)": self._get_pull,
            rf"GET {comments}": self._get_comments,
            rf"POST {comments}": self._post_comment,
            rf"GET {comment}": self._get_comment,
            rf"PATCH {comment}": self._patch_comment,
            rf"DELETE {comment}": self._delete_comment,
            rf"POST {repository}/statuses/(?P<sha>[0-9a-f]+)": self._post_status,
        }

    def _get_user(self, grant: Grant, _: dict[str, str], __: str) -> Answer:
        if grant.installation:
            return _message(403, "Resource not accessible by integration")
        return Answer(status=200, data=_user(grant))

    def _get_pull(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        repository, number = where["repository"], int(where["number"])
        if (repository, number) not in self._pulls:
            return _message(404, "Not Found")
        ref = {"sha": "a" * 40, "repo": {"full_name": repository}}
        return Answer(status=200, data={"number": number, "head": ref, "base": ref})

    def _get_comments(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        repository, number = where["repository"], int(where["number"])
        if (repository, number) not in self._pulls:
            return _message(404, "Not Found")
        size = min(int(where.get("per_page", "30")), 100)
        page = int(where.get("page", "1"))
        issue = f"{self.url}/repos/{repository}/issues/{number}"
        all_of_it = [c for _, c in sorted(self.comments.items()) if c["issue_url"] == issue]
        shown = all_of_it[(page - 1) * size : page * size]
        headers = {}
        if page * size < len(all_of_it):
            address = f"{issue}/comments?per_page={size}&page="
            last = -(-len(all_of_it) // size)
            headers["Link"] = f'<{address}{page + 1}>; rel="next", <{address}{last}>; rel="last"'
        return Answer(status=200, data=shown, headers=headers)

    def _post_comment(self, grant: Grant, where: dict[str, str], body: str) -> Answer:
        text = _text(body)
        repository, number = where["repository"], int(where["number"])
        if (repository, number) not in self._pulls:
            return _message(404, "Not Found")
        if refused := self._refuse_write(grant, text):
            return refused
        return Answer(status=201, data=dict(self._create(grant, repository, number, text)))

    def _get_comment(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        comment = self.comments.get(int(where["id"]))
        return _message(404, "Not Found") if comment is None else Answer(status=200, data=comment)

    def _patch_comment(self, grant: Grant, where: dict[str, str], body: str) -> Answer:
        text = _text(body)
        comment = self.comments.get(int(where["id"]))
        if comment is None:
            return _message(404, "Not Found")
        if refused := self._refuse_write(grant, text):
            return refused
        comment["body"] = text
        self.changed()
        return Answer(status=200, data=dict(comment))

    def _delete_comment(self, grant: Grant, where: dict[str, str], _: str) -> Answer:
        if int(where["id"]) not in self.comments:
            return _message(404, "Not Found")
        if refused := self._refuse_write(grant, ""):
            return refused
        del self.comments[int(where["id"])]
        self.changed()
        return Answer(status=204)

    def _post_status(self, grant: Grant, where: dict[str, str], body: str) -> Answer:
        if not grant.statuses:
            accepted = {"X-Accepted-GitHub-Permissions": "statuses=write"}
            return _message(403, "Resource not accessible by integration", accepted)
        asked = json.loads(body)
        known = asked["state"] in {"pending", "success", "failure", "error"}
        if not known or len(asked["description"]) > MAX_DESCRIPTION:
            return _message(422, "Validation Failed")
        self.statuses.append({"sha": where["sha"], **asked})
        self.changed()
        return Answer(status=201, data=dict(self.statuses[-1]))

    def _refuse_write(self, grant: Grant, text: str) -> Answer | None:
        if not grant.write:
            accepted = {"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write"}
            return _message(403, "Resource not accessible by integration", accepted)
        if len(text) > self.max_body:
            return too_long(self.max_body)
        return None

    def _create(self, grant: Grant, repository: str, number: int, text: str) -> dict[str, Any]:
        identity = self._next_number
        self._next_number += 1
        self.comments[identity] = {
            "id": identity,
            "html_url": f"{self.url}/{repository}/pull/{number}#issuecomment-{identity}",
            "issue_url": f"{self.url}/repos/{repository}/issues/{number}",
            "user": _user(grant),
            "body": text,
        }
        self.changed()
        return self.comments[identity]


def too_long(limit: int = MAX_BODY) -> Answer:
    """Return GitHub's refusal of a long comment."""
    detail = {
        "resource": "IssueComment",
        "code": "unprocessable",
        "field": "data",
        "message": f"Body is too long (maximum is {limit} characters)",
    }
    data = {"message": "Validation Failed", "errors": [detail], "documentation_url": DOCUMENTATION}
    return Answer(status=422, data=data)


def _message(status: int, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    data = {"message": text, "documentation_url": DOCUMENTATION, "status": str(status)}
    return Answer(status=status, data=data, headers=headers or {})


def _user(grant: Grant) -> dict[str, str]:
    return {"login": grant.login, "type": grant.type}


def _text(body: str) -> str:
    return str(json.loads(body)["body"])
