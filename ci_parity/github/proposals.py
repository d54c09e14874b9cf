"""The one open pull request from a branch of ours: found by its branches, opened, kept up to date.

GitHub lets one pull request be open from a branch to another, so whoever asks twice finds the first
one. A write that may or may not have been carried out is looked into before it is repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from ci_parity.base.canonical import Json
from ci_parity.github.client import RestClient
from ci_parity.github.refusals import ApiError

_ROUNDS = 5
_NOT_PERMITTED = "not permitted to create"
_PERMIT = (
    "let workflows open pull requests (Settings > Actions > General > Workflow permissions), or "
    "give `github_token` an app's token"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a pull request is to be: from and to which branch of one repository, and its words."""

    head: str
    base: str
    title: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """An open pull request as it stands."""

    number: int
    url: str
    title: str
    body: str


def default_branch(client: RestClient, repository: str) -> str:
    """Return the name of a repository's default branch.

    Raises:
        PublishError: GitHub refuses, or does not answer.
    """
    path = f"/repos/{repository}"
    found = client.get(path)
    name = found.get("default_branch") if isinstance(found, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ApiError("GitHub names no default branch", where=path)
    return name


def standing(client: RestClient, repository: str, head: str, base: str) -> PullRequest | None:
    """Return the open pull request from a branch of a repository to another of it.

    Raises:
        PublishError: GitHub refuses, or does not answer.
    """
    owner = repository.partition("/")[0]
    label, into = quote(f"{owner}:{head}", safe=""), quote(base, safe="")
    path = f"/repos/{repository}/pulls?state=open&head={label}&base={into}&per_page=100"
    found = (_read(item) for item in client.items(path) if _is_of(item, repository, head, base))
    return min((pull for pull in found if pull is not None), key=_number, default=None)


def propose(client: RestClient, repository: str, proposal: Proposal) -> PullRequest:
    """Make the one pull request between two branches say what it should; return it.

    1. Look for it; where it says so already, that is all.
    2. Else change it, or open it.
    3. Where that may have been carried out, or another was faster, look again (step 1).

    Raises:
        PublishError: GitHub refuses, or it does not settle.
    """
    failure: ApiError | None = None
    for _ in range(_ROUNDS):
        there = standing(client, repository, proposal.head, proposal.base)
        if there is not None and (there.title, there.body) == (proposal.title, proposal.body):
            return there
        try:
            return _written(client, repository, proposal, there)
        except ApiError as error:
            failure = error
            if not _may_stand(error, there):
                raise
    assert failure is not None
    raise failure


def _written(
    client: RestClient, repository: str, proposal: Proposal, there: PullRequest | None
) -> PullRequest:
    words: dict[str, Json] = {"title": proposal.title, "body": proposal.body}
    path = f"/repos/{repository}/pulls"
    try:
        if there is not None:
            reply = client.patch(f"{path}/{there.number}", words)
        else:
            reply = client.post(path, words | {"head": proposal.head, "base": proposal.base})
    except ApiError as error:
        if error.status == 403 and _NOT_PERMITTED in error.what:
            error.remedy = _PERMIT
        raise
    found = _read(reply)
    if found is None:
        unclear = ApiError("GitHub answered with no pull request", where=path)
        unclear.again = True
        raise unclear
    return found


def _may_stand(error: ApiError, there: PullRequest | None) -> bool:
    """Tell whether what was refused may stand all the same, or stand otherwise by now."""
    exists = error.status == 422 and "already exists" in error.what
    gone = error.status == 404 and there is not None
    return error.again or error.status == 409 or exists or gone


def _is_of(item: Json, repository: str, head: str, base: str) -> bool:
    """Tell whether a listed pull request is between two branches of this very repository."""
    if not isinstance(item, Mapping):
        return False
    source, target = item.get("head"), item.get("base")
    if not isinstance(source, Mapping) or not isinstance(target, Mapping):
        return False
    home = source.get("repo")
    name = home.get("full_name") if isinstance(home, Mapping) else None
    ours = isinstance(name, str) and name.lower() == repository.lower()
    return ours and (source.get("ref"), target.get("ref")) == (head, base)


def _read(item: Json) -> PullRequest | None:
    if not isinstance(item, Mapping):
        return None
    number, url, title = item.get("number"), item.get("html_url"), item.get("title")
    if type(number) is not int or not isinstance(url, str) or not isinstance(title, str):
        return None
    body = item.get("body")
    text = body if isinstance(body, str) else ""
    return PullRequest(number=number, url=url, title=title, body=text)


def _number(pull: PullRequest) -> int:
    return pull.number
