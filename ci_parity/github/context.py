"""Where this run stands, read once from the runner's environment and event payload.

First stop of the data path inside Actions: it tells `detect` which commits to compare and
`comment` which pull request to write to. The payload quotes titles and branch names that anyone may
choose, so it is parsed strictly; a field of the wrong type is refused, a missing one is `None`. It
asks no network and decides nothing about events such as `pull_request_target`.
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
class GitHubContext:
    """One run of a workflow and the change it is about.

    `head_sha` is the commit to judge: a pull request's own head, never the merge commit that GitHub
    makes of it. `base_sha` is what it is compared with; `None` on a first push and on events
    without one. `pull_request` comes from the event payload and from nowhere else. A pull request
    whose head repository is gone or unnamed counts as a fork. `token` is empty without one.
    """

    repository: str
    event_name: str
    api_url: str
    server_url: str
    workspace: Path
    run_id: int
    run_attempt: int
    head_sha: str | None
    base_sha: str | None
    pull_request: int | None
    is_fork: bool
    forced: bool
    actor: str
    ref: str
    default_branch: str | None
    token: str = field(default="", repr=False)

    @property
    def run_url(self) -> str:
        """The page of this very attempt."""
        run = f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"
        return f"{run}/attempts/{self.run_attempt}"


def from_environment(environ: Mapping[str, str]) -> GitHubContext | None:
    """Read the run that `environ` describes; `None` outside GitHub Actions.

    Raises:
        EvidenceError: when a variable or a payload field has not the form GitHub gives it.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return None
    event_name = environ.get("GITHUB_EVENT_NAME", "")
    event = _Event(environ)
    return GitHubContext(
        repository=_repository(environ),
        event_name=event_name,
        api_url=_url(environ, "GITHUB_API_URL", "https://api.github.com"),
        server_url=_url(environ, "GITHUB_SERVER_URL", "https://github.com"),
        workspace=Path(environ.get("GITHUB_WORKSPACE") or "."),
        run_id=_positive(environ, "GITHUB_RUN_ID"),
        run_attempt=_positive(environ, "GITHUB_RUN_ATTEMPT"),
        head_sha=_head_sha(environ, event, event_name),
        base_sha=_base_sha(event, event_name),
        pull_request=event.positive("pull_request", "number"),
        is_fork=_is_fork(event),
        forced=event_name == "push" and bool(event.scalar(bool, "forced")),
        actor=environ.get("GITHUB_ACTOR", ""),
        ref=environ.get("GITHUB_REF", ""),
        default_branch=event.scalar(str, "repository", "default_branch"),
        token=(environ.get("INPUT_GITHUB_TOKEN") or environ.get("GITHUB_TOKEN") or "").strip(),
    )


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


def _is_fork(event: _Event) -> bool:
    if not event.has("pull_request"):
        return False
    head = event.scalar(str, "pull_request", "head", "repo", "full_name")
    base = event.scalar(str, "pull_request", "base", "repo", "full_name")
    return head is None or head != base


def _repository(environ: Mapping[str, str]) -> str:
    value = environ.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.fullmatch(value):
        raise EvidenceError(f"{value!r} is not OWNER/NAME", where="GITHUB_REPOSITORY")
    return value


def _positive(environ: Mapping[str, str], name: str) -> int:
    value = environ.get(name) or "1"
    if not (value.isascii() and value.isdigit() and len(value) < 16 and int(value) > 0):
        raise EvidenceError(f"{value!r} is not a positive number", where=name)
    return int(value)


def _url(environ: Mapping[str, str], name: str, default: str) -> str:
    value = (environ.get(name) or default).rstrip("/")
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise EvidenceError(f"{value!r} is not an http(s) address", where=name)
    return value
