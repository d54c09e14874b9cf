"""A Gitea (or Forgejo) API on the loopback interface, where it differs from GitHub's.

By its own API description and handlers: everything lies below /api/v1; a user has no `type`; the
comments of an issue come in one piece, whatever page is asked for; refusals name the address of the
description, and some have no body; an archived repository answers 423.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.github_api import Answer, Grant
from tests.support.github_server import GitHubServer

ROOT = "/api/v1"
TOKENS: Mapping[str, Grant] = {
    "write-token": Grant(login="gitea-actions", installation=False, statuses=True),
    "mute-token": Grant(login="gitea-actions", installation=True, statuses=True),
    "forgejo-token": Grant(login="forgejo-actions", installation=True, statuses=True),
    "read-token": Grant(login="gitea-actions", installation=False, write=False),
    "robot-token": Grant(login="robot", installation=False, statuses=True),
    "stranger-token": Grant(login="stranger", installation=False),
}


class GiteaServer(GitHubServer):
    """The server; `api_url` is what a runner finds in GITHUB_API_URL.

    Attributes:
        archived: whether the repository takes no writing.
        mute_status: the answer to an installation's token that asks who it is.
    """

    described = False

    def __init__(self, *, tokens: Mapping[str, Grant] = TOKENS) -> None:
        super().__init__(tokens=tokens)
        self.archived = False
        self.mute_status = 403

    @property
    def api_url(self) -> str:
        """The root of the API."""
        return f"{self.url}{ROOT}"

    def answer(self, method: str, target: str, token: str, body: bytes) -> Answer:
        """Carry a request out as Gitea would."""
        if not target.startswith(ROOT):
            return Answer(status=404, data=b"404 page not found\n")
        if method != "GET" and self.archived:
            return self._refusal(423, "This repo is archived. You cannot comment on issues.")
        path = target.removeprefix(ROOT)
        if path.partition("?")[0].endswith("/comments"):
            path = f"{path.partition('?')[0]}?per_page=100"
        done = super().answer(method, path, token, body)
        if done.status >= 400:
            return self._refused(method, path, done)
        return Answer(status=done.status, data=_without_type(done.data))

    def _refused(self, method: str, path: str, done: Answer) -> Answer:
        if path == "/user":
            return self._refusal(self.mute_status, "user does not exist")
        if done.status == 403 and method == "PATCH":
            return Answer(status=403)
        words = {401: "invalid username, password or token", 404: "The target couldn't be found."}
        scopes = "token does not have at least one of required scope(s): [write:issue]"
        return self._refusal(done.status, words.get(done.status, scopes))

    def _refusal(self, status: int, words: str) -> Answer:
        return Answer(status=status, data={"message": words, "url": f"{self.url}/api/swagger"})


def _without_type(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {k: v for k, v in value.items() if not (k == "type" and "login" in value)}
        return {key: _without_type(item) for key, item in kept.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_without_type(item) for item in value]
    return value


def event(head: str, base: str, *, number: int = 7) -> bytes:
    """Return the payload of a pull request as Gitea sends it."""
    repository = {"full_name": "acme/models", "default_branch": "main"}
    return json.dumps(
        {
            "action": "synchronized",
            "number": number,
            "pull_request": {
                "number": number,
                "head": {"label": "change", "ref": "change", "sha": head, "repo": repository},
                "base": {"label": "main", "ref": "main", "sha": base, "repo": repository},
            },
            "repository": repository,
        }
    ).encode()
