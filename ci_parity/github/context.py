"""Where this run stands, read once from the runner's environment and event payload.

First stop of the data path inside Actions: it tells `detect` which commits to compare, `comment`
which pull request to write to and `checkout` which commits may run. The payload quotes titles and
branch names that anyone may choose, so it is parsed strictly; a field of the wrong type is refused,
a missing one is `None`. It asks no network and refuses no event.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.errors import EvidenceError

PAYLOAD_LIMIT_BYTES = 25_000_000

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPOSITORY = re.compile(r"(?!\.{1,2}/)[\w.-]+/(?!\.{1,2}\Z)[\w.-]+", re.ASCII)
_Object: TypeAlias = Mapping[str, Json]
_Kind = TypeVar("_Kind", str, int, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """The run whose end started this one (`workflow_run`); its owner and branch name are anyone's.

    `conclusion` is `success`, `failure`, `cancelled` … as GitHub says it.
    """

    id: int
    attempt: int
    event: str
    conclusion: str
    head_sha: str
    head_owner: str
    head_branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubContext:
    """One run of a workflow and the change it is about.

    `head_sha` is the commit to judge: a pull request's own head, never the merge commit that GitHub
    makes of it. `base_sha` is what it is compared with; `None` on a first push and on events
    without one. `pull_request` comes from the event payload and from nowhere else. A pull request
    whose head repository is gone or unnamed counts as a fork. `run_page` is the number in the
    address of the run's page. `vouched` are the commits that the repository vouches for on an event
    whose token may write whoever asked for the run (`pull_request_target`, `workflow_run`), `None`
    on all others. `finished` is the run that started this one. `token` is empty without one.
    """

    repository: str
    event_name: str
    api_url: str
    server_url: str
    workspace: Path
    run_id: int
    run_attempt: int
    run_page: int
    head_sha: str | None
    base_sha: str | None
    pull_request: int | None
    is_fork: bool
    forced: bool
    actor: str
    ref: str
    default_branch: str | None
    token: str = field(default="", repr=False)
    vouched: frozenset[str] | None = None
    finished: FinishedRun | None = None

    @property
    def run_url(self) -> str:
        """The page of this very attempt."""
        return self.page_of(self.run_page, self.run_attempt)

    def page_of(self, page: int, attempt: int) -> str:
        """Return the address of a run's page; Gitea and Forgejo have none for an attempt."""
        run = f"{self.server_url}/{self.repository}/actions/runs/{page}"
        return run if self.is_gitea else f"{run}/attempts/{attempt}"

    @property
    def is_gitea(self) -> bool:
        """Whether this is Gitea or Forgejo, whose API lies at another path than GitHub's."""
        return is_gitea_api(self.api_url)


def from_environment(environ: Mapping[str, str]) -> GitHubContext | None:
    """Read the run that `environ` describes; `None` outside GitHub Actions.

    Raises:
        EvidenceError: when a variable or a payload field has not the form GitHub gives it.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return None
    event_name = environ.get("GITHUB_EVENT_NAME", "")
    event = _Event(environ)
    api_url = _url(environ, "GITHUB_API_URL", "https://api.github.com")
    return GitHubContext(
        repository=_repository(environ),
        event_name=event_name,
        api_url=api_url,
        server_url=_url(environ, "GITHUB_SERVER_URL", "https://github.com"),
        workspace=Path(environ.get("GITHUB_WORKSPACE") or "."),
        run_id=_positive(environ, "GITHUB_RUN_ID"),
        run_attempt=_positive(environ, "GITHUB_RUN_ATTEMPT"),
        run_page=_run_page(environ, api_url),
        head_sha=_head_sha(environ, event, event_name),
        base_sha=_base_sha(event, event_name),
        pull_request=event.positive("pull_request", "number"),
        is_fork=_is_fork(event),
        forced=event_name == "push" and bool(event.scalar(bool, "forced")),
        actor=environ.get("GITHUB_ACTOR", ""),
        ref=environ.get("GITHUB_REF", ""),
        default_branch=event.scalar(str, "repository", "default_branch"),
        vouched=_vouched(environ, event, event_name),
        finished=_finished(event) if event_name == "workflow_run" else None,
        token=(environ.get("INPUT_GITHUB_TOKEN") or environ.get("GITHUB_TOKEN") or "").strip(),
    )


def is_repository(text: str) -> bool:
    """Whether a text has the form OWNER/NAME."""
    return _REPOSITORY.fullmatch(text) is not None


def is_gitea_api(api_url: str) -> bool:
    """Whether an API's root is that of Gitea or Forgejo."""
    return api_url.rstrip("/").endswith("/api/v1")


class _Event:
    """The event payload: fields by path, `None` where one is missing or null."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._where = environ.get("GITHUB_EVENT_PATH", "")
        self._root = _read_payload(Path(self._where)) if self._where else {}

    def has(self, *path: str) -> bool:
        """Whether an object stands at `path`."""
        return self._object(path) is not None

    def scalar(self, kind: type[_Kind], *path: str) -> _Kind | None:
        """Return the text, number or truth at `path`."""
        parent = self._object(path[:-1])
        value = None if parent is None else parent.get(path[-1])
        if value is None:
            return None
        if type(value) is not kind:
            raise self._malformed(path, f"a {kind.__name__}")
        return value

    def positive(self, *path: str) -> int | None:
        """Return the positive number at `path`."""
        value = self.scalar(int, *path)
        if value is not None and value < 1:
            raise self._malformed(path, "a positive number")
        return value

    def sha(self, *path: str) -> str | None:
        """Return the full commit id at `path`."""
        value = self.scalar(str, *path)
        if value is not None and not _SHA.fullmatch(value):
            raise self._malformed(path, "a commit id of 40 or 64 hexadecimal digits")
        return value

    def _object(self, path: tuple[str, ...]) -> _Object | None:
        value: Json = self._root
        for depth, key in enumerate(path):
            value = value.get(key) if isinstance(value, Mapping) else None
            if value is None:
                return None
            if not isinstance(value, Mapping):
                raise self._malformed(path[: depth + 1], "an object")
        return value if isinstance(value, Mapping) else None

    def _malformed(self, path: tuple[str, ...], expected: str) -> EvidenceError:
        return EvidenceError(
            f"the event payload's {'.'.join(path)} is not {expected}", where=self._where
        )


def _read_payload(path: Path) -> _Object:
    try:
        size_bytes = path.stat().st_size
        if size_bytes > PAYLOAD_LIMIT_BYTES:
            raise EvidenceError(
                f"the event payload has {size_bytes} bytes, more than {PAYLOAD_LIMIT_BYTES}",
                where=str(path),
            )
        payload = parse_strict(path.read_bytes(), where=str(path))
    except OSError as error:
        raise EvidenceError(
            f"cannot read the event payload: {error.strerror or error}",
            where=str(path),
            remedy="mount the folder that GITHUB_EVENT_PATH names into the container",
        ) from error
    if not isinstance(payload, Mapping):
        raise EvidenceError("the event payload is not an object", where=str(path))
    return payload


def _head_sha(environ: Mapping[str, str], event: _Event, event_name: str) -> str | None:
    """Return the commit to judge; `pull_request_target` checks out its base, as GITHUB_SHA says."""
    if event_name != "pull_request_target":
        head = event.sha("pull_request", "head", "sha")
        if head is not None:
            return head
    value = environ.get("GITHUB_SHA", "")
    if value and not _SHA.fullmatch(value):
        raise EvidenceError("not a commit id of 40 or 64 hexadecimal digits", where="GITHUB_SHA")
    return value or None


def _base_sha(event: _Event, event_name: str) -> str | None:
    if event_name == "merge_group":
        return event.sha("merge_group", "base_sha")
    if event_name == "push":
        before = event.sha("before")
        return before if before and before.strip("0") else None
    return event.sha("pull_request", "base", "sha")


def _finished(event: _Event) -> FinishedRun | None:
    """Return the run that ended, None where the payload does not tell all of it."""
    numbers = [event.positive("workflow_run", name) for name in ("id", "run_attempt")]
    words = [
        event.scalar(str, "workflow_run", *path)
        for path in (
            ("event",), ("conclusion",), ("head_repository", "owner", "login"), ("head_branch",)
        )
    ]  # fmt: skip
    sha = event.sha("workflow_run", "head_sha")
    if None in numbers or None in words or sha is None:
        return None
    return FinishedRun(
        id=numbers[0] or 0, attempt=numbers[1] or 0, event=words[0] or "",
        conclusion=words[1] or "", head_sha=sha, head_owner=words[2] or "",
        head_branch=words[3] or "",
    )  # fmt: skip


def _vouched(environ: Mapping[str, str], event: _Event, event_name: str) -> frozenset[str] | None:
    """Return the commits that may be checked out although the token can write.

    On `workflow_run` the commit that started it is one of them where it was pushed to this very
    repository; what a pull request brought is not, whatever branch it names.
    """
    if event_name == "pull_request_target":
        known = {environ.get("GITHUB_SHA", ""), event.sha("pull_request", "base", "sha") or ""}
        return frozenset(known - {"", event.sha("pull_request", "head", "sha")})
    if event_name == "workflow_run":
        known = {environ.get("GITHUB_SHA", "")}
        started_by = event.scalar(str, "workflow_run", "event")
        head = event.scalar(str, "workflow_run", "head_repository", "full_name")
        if started_by == "push" and head == _repository(environ):
            known.add(event.sha("workflow_run", "head_sha") or "")
        return frozenset(known - {""})
    return None


def _is_fork(event: _Event) -> bool:
    if not event.has("pull_request"):
        return False
    head = event.scalar(str, "pull_request", "head", "repo", "full_name")
    base = event.scalar(str, "pull_request", "base", "repo", "full_name")
    return head is None or head != base


def _repository(environ: Mapping[str, str]) -> str:
    value = environ.get("GITHUB_REPOSITORY", "")
    if not is_repository(value):
        raise EvidenceError(f"{value!r} is not OWNER/NAME", where="GITHUB_REPOSITORY")
    return value


def _positive(environ: Mapping[str, str], name: str) -> int:
    value = environ.get(name) or "1"
    if not (value.isascii() and value.isdigit() and len(value) < 16 and int(value) > 0):
        raise EvidenceError(f"{value!r} is not a positive number", where=name)
    return int(value)


def _run_page(environ: Mapping[str, str], api_url: str) -> int:
    """Return what an address calls a run: Gitea and Forgejo count them in each repository."""
    return _positive(environ, "GITHUB_RUN_NUMBER" if is_gitea_api(api_url) else "GITHUB_RUN_ID")


def _url(environ: Mapping[str, str], name: str, default: str) -> str:
    value = (environ.get(name) or default).rstrip("/")
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise EvidenceError(f"{value!r} is not an http(s) address", where=name)
    return value
