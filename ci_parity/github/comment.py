"""The one comment that a pull request gets from one configuration.

Last stop of the data path: `report` has written the text, this module delivers it. It looks before
it writes and again afterwards, until what stands there is what it wrote or something newer; so
racing jobs leave one comment, and an older run does not overwrite a newer one's. It touches no
comment that another author wrote, whatever marker that comment carries.

GitHub has no conditional update. Two runs that change the comment in the same moment are put in
order by nothing here but by the workflow's `concurrency` group.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ci_parity.base.canonical import Json
from ci_parity.base.errors import CiParityError
from ci_parity.github.client import RestClient
from ci_parity.github.context import is_gitea_api
from ci_parity.github.marker import REMEMBERED, Marker
from ci_parity.github.refusals import ApiError
from ci_parity.records.history import EarlierVerdict

# Texts from the fullest to the shortest, given what the comment said before, oldest first.
Ladder: TypeAlias = Callable[[Sequence[EarlierVerdict]], Sequence[str]]

_LOG = logging.getLogger(__name__)
_ROUNDS = 5
# GitHub takes 262,144 bytes a body: a page of thirty stays below the client's limit for a reply.
_PER_PAGE = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Author:
    login: str
    type: str


# What GitHub calls the author behind every workflow's own token.
_WORKFLOW = frozenset({_Author(login="github-actions[bot]", type="Bot")})
# And Gitea and Forgejo, which reserve these names and give a user no type.
_GITEA_WORKFLOW = frozenset(
    {_Author(login="gitea-actions", type=""), _Author(login="forgejo-actions", type="")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A comment of ours on GitHub."""

    number: int
    url: str
    marker: Marker
    body: str


def publish_comment(
    client: RestClient, repository: str, number: int, ladder: Ladder, marker: Marker, *,
    create: bool = True,
) -> str:  # fmt: skip
    """Make the comment of `marker.id` on a pull request say this run's verdict; return its address.

    1. Look for comments that we wrote with this id; the newest, then the earliest, survives.
    2. A newer run's comment stays as it is.
    3. Else write: change the survivor, or create one; after a refusal for length take the next text
       of the ladder. Where there is none and `create` is false, nothing is written.
    4. Look again (step 1), and delete the others once the survivor is settled.

    Args:
        client: the API, with a token that may write to pull requests.
        repository: OWNER/NAME.
        number: the pull request.
        ladder: Markdown without the marker, given what the comment said before.
        marker: what orders this writing among others; its history is filled in here.
        create: whether there must be a comment afterwards.

    Raises:
        PublishError: when GitHub refuses, or the comment does not settle.
    """
    if not ladder(()):
        raise CiParityError("there is no text to publish", where=f"{repository}#{number}")
    return _Thread(client, repository, number, marker).settle(ladder, create=create)


class _Thread:
    """The conversation of one pull request, as far as one configuration's comments go."""

    def __init__(self, client: RestClient, repository: str, number: int, marker: Marker) -> None:
        self._client = client
        self._issues = f"/repos/{repository}/issues"
        self._number = number
        self._marker = marker
        self._authors = _authors(client)
        self._written: _Stored | None = None
        self._tried = ""

    def settle(self, ladder: Ladder, *, create: bool) -> str:
        """Look and write by turns until nothing is left to write; return the survivor's address."""
        failure: ApiError | None = None
        rungs, rung = len(ladder(())), 0
        for _ in range(_ROUNDS + rungs):
            own = self._look()
            if own and self._is_settled(own[0]):
                self._drop(own[1:])
                return own[0].url
            if not own and not create and self._written is None:
                return ""
            target = own[0] if own else None
            self._marker = replace(self._marker, history=self._before(target))
            try:
                self._write(target, _rung(ladder(self._marker.history), rung))
            except ApiError as error:
                failure = error
                if error.too_long and rung < rungs - 1:
                    _LOG.warning("%s; publishing a shorter text", error.what)
                    rung += 1
                elif not (error.again or error.status == 409 or (own and error.status == 404)):
                    raise
        if self._written is None:
            raise failure or AssertionError("each round writes, fails or returns")
        return self._written.url

    def _before(self, target: _Stored | None) -> tuple[EarlierVerdict, ...]:
        """Return what was said before this run: by the comment that it changes, without itself."""
        if target is None:
            return self._marker.history
        past = [one for one in target.marker.told if one.order < self._marker.order]
        return tuple(past[-REMEMBERED:])

    def _look(self) -> list[_Stored]:
        """Return our comments with this id, the survivor first."""
        try:
            found = self._list()
        except ApiError as error:
            if self._written is None:
                raise
            _LOG.warning("%s stands, but the last look failed: %s", self._written.url, error.what)
            return [self._written]
        return sorted(
            found.values(),
            key=lambda stored: (*(-part for part in stored.marker.order), stored.number),
        )

    def _list(self) -> dict[int, _Stored]:
        path = f"{self._issues}/{self._number}/comments?per_page={_PER_PAGE}"
        found = {
            stored.number: stored
            for item in self._client.items(path)
            if (stored := self._recognise(item)) is not None
        }
        if self._written is not None and self._written.number not in found:
            if self._exists(self._written.number):
                found[self._written.number] = self._written
            else:
                self._written = None
        return found

    def _is_settled(self, best: _Stored) -> bool:
        if best.marker.order > self._marker.order:
            _LOG.warning(
                "run %d, attempt %d is newer and has commented already: %s stays as it is",
                *best.marker.order,
                best.url,
            )
            return True
        done = self._written is not None or best.body == self._tried
        return done and best.marker.order == self._marker.order

    def _write(self, target: _Stored | None, text: str) -> None:
        """Change `target`, or create a comment where there is none; learn who we are from it."""
        body = f"{self._marker.line()}\n{text}".encode("utf-8", "replace").decode("utf-8")
        data: Json = {"body": body}
        self._tried = body
        if target is None:
            reply = self._client.post(f"{self._issues}/{self._number}/comments", data)
        else:
            reply = self._client.patch(f"{self._issues}/comments/{target.number}", data)
        comment = reply if isinstance(reply, Mapping) else {}
        number, url = comment.get("id"), comment.get("html_url")
        if not isinstance(number, int) or not isinstance(url, str):
            raise ApiError("GitHub answered with no comment", where=self._issues)
        author = _author_of(comment)
        self._authors = frozenset({author}) if author else self._authors
        self._written = _Stored(number=number, url=url, marker=self._marker, body=body)

    def _drop(self, duplicates: Sequence[_Stored]) -> None:
        """Delete what the survivor makes redundant; a failure leaves it to the next run."""
        for duplicate in duplicates:
            try:
                self._client.delete(f"{self._issues}/comments/{duplicate.number}")
            except ApiError as error:
                if error.status != 404:
                    _LOG.warning("cannot delete the duplicate %s: %s", duplicate.url, error.what)

    def _recognise(self, item: Json) -> _Stored | None:
        """Return a comment that carries our id and that we wrote; `None` for any other."""
        if not isinstance(item, Mapping) or _author_of(item) not in self._authors:
            return None
        number, url, body = item.get("id"), item.get("html_url"), item.get("body")
        if not (isinstance(number, int) and isinstance(url, str) and isinstance(body, str)):
            return None
        marker = Marker.parse(body)
        if marker is None or marker.id != self._marker.id:
            return None
        return _Stored(number=number, url=url, marker=marker, body=body)

    def _exists(self, number: int) -> bool:
        """Whether a comment that the list does not show stands all the same: lists may lag."""
        try:
            self._client.get(f"{self._issues}/comments/{number}")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True


def _authors(client: RestClient) -> frozenset[_Author]:
    """Return whom the server will name as our comments' author.

    An installation token may not ask; a workflow's own writes as `github-actions[bot]`, another
    app's is learned from the first reply to a write. Gitea refuses the question in other words.
    """
    gitea = is_gitea_api(client.root)
    usual = _GITEA_WORKFLOW if gitea else _WORKFLOW
    try:
        found = _author_of({"user": client.get("/user")})
    except ApiError as error:
        if error.status not in ({401, 403, 404, 422} if gitea else {403, 404}):
            raise
        return usual
    return frozenset({found}) if found else usual


def _author_of(comment: Mapping[str, Json]) -> _Author | None:
    """Return who wrote a comment; only Gitea and Forgejo name no type."""
    user = comment.get("user")
    if not isinstance(user, Mapping):
        return None
    login, kind = user.get("login"), user.get("type", "")
    if not isinstance(login, str) or not isinstance(kind, str) or not login:
        return None
    return _Author(login=login, type=kind)


def _rung(texts: Sequence[str], rung: int) -> str:
    return texts[min(rung, len(texts) - 1)]
