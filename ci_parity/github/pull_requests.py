"""The open pull request that a commit is the head of, as GitHub itself knows it.

A run of a fork's pull request cannot comment, and what it uploads is not to be believed about which
pull request it is of: that is asked here, by the head that GitHub says was run.
"""

from collections.abc import Mapping
from urllib.parse import quote

from ci_parity.base.canonical import Json
from ci_parity.github.client import RestClient


def open_pull_request(
    client: RestClient, repository: str, head_owner: str, head_branch: str, head_sha: str
) -> int | None:
    """Return the number of the one open pull request with this very head; None for none, or two.

    Args:
        client: the API, with a token that may read pull requests.
        repository: OWNER/NAME of the base.
        head_owner: who owns the repository of the head.
        head_branch: its branch, which anyone may have named.
        head_sha: its commit.

    Raises:
        PublishError: GitHub refuses, or does not answer.
    """
    head = quote(f"{head_owner}:{head_branch}", safe="")
    path = f"/repos/{repository}/pulls?state=open&head={head}&per_page=100"
    found = {
        number for item in client.items(path) if (number := _number_of(item, head_sha)) is not None
    }
    return found.pop() if len(found) == 1 else None


def _number_of(item: Json, head_sha: str) -> int | None:
    if not isinstance(item, Mapping):
        return None
    head, number = item.get("head"), item.get("number")
    if not isinstance(head, Mapping) or head.get("sha") != head_sha:
        return None
    return number if type(number) is int and number > 0 else None
