"""GitHub's published API description: whether a request and its answer are what it says.

Stricter than GitHub itself, which ignores what it does not know: a query parameter or a property of
a body that the description lacks is a violation, since whoever sent it meant something by it.
"""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest, MockResponse

from tests.contracts.trim import DESCRIPTION

# GitHub gives these to any request, listed or not.
_ANY_REQUEST = frozenset({401, 403, 404, 422})
_BINARY = re.compile(r"POST /repos/[^/]+/[^/]+/releases/[^/]+/assets")
# Where a parameter may hold slashes.
_SLASHES = re.compile(r"(/git/(?:matching-)?refs?/|/contents/)(.+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """One request with its answer; `path` has no query, bodies are JSON."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    status: int
    answer: bytes

    @classmethod
    def of(cls, method: str, target: str, body: bytes, status: int, answer: bytes) -> "Exchanged":
        """Take a request line's target apart."""
        parts = urlsplit(target)
        escaped = _SLASHES.sub(lambda match: match[1] + quote(match[2], safe=""), parts.path)
        query = tuple(parse_qsl(parts.query, keep_blank_values=True))
        return cls(
            method=method, path=escaped, query=query, body=body, status=status, answer=answer
        )

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def violations(exchanged: Exchanged) -> list[str]:
    """Return what GitHub's description has against a request and its answer."""
    binary = _BINARY.fullmatch(str(exchanged)) is not None
    request = MockRequest(
        "", exchanged.method, exchanged.path, args=dict(exchanged.query),
        data=exchanged.body or None,
        content_type="application/octet-stream" if binary else "application/json",
    )  # fmt: skip
    found = [f"{exchanged}: {_words(error)}" for error in _request_errors(request)]
    if not found:
        found += [f"{exchanged}: {_words(error)}" for error in _answer_errors(request, exchanged)]
    return found


def example(operation: str) -> Any:
    """Return a copy of what the description shows as the successful answer of `METHOD /path`."""
    description = _description()
    method, path = operation.split()
    responses = description["paths"][path][method.lower()]["responses"]
    media = next(
        answer["content"]["application/json"]
        for status, answer in responses.items()
        if status.startswith("2")
    )
    shown = next(iter(media["examples"].values()))
    while "$ref" in shown:
        kind, name = shown["$ref"].removeprefix("#/components/").split("/")
        shown = description["components"][kind][name]
    return copy.deepcopy(shown["value"])


def filled(exchanged: Exchanged, data: Any) -> Any:
    """Return an answer with what it leaves out taken from the description's example."""
    if found := _operation(exchanged.method, exchanged.path):
        shown = _mended(example(f"{exchanged.method} {found}"))
        return _laid_over(shown, data)
    return data


def _laid_over(shown: Any, data: Any) -> Any:
    if isinstance(shown, list) and isinstance(data, list):
        return [_laid_over(shown[0], item) for item in data] if shown else data
    if isinstance(shown, dict) and isinstance(data, dict):
        both = shown | data
        return both | {key: _laid_over(shown[key], data[key]) for key in shown.keys() & data.keys()}
    return data


def _mended(shown: Any) -> Any:
    """Return an example that keeps to its own schema; some of those published do not."""
    if isinstance(shown, list):
        return [_mended(item) for item in shown]
    if not isinstance(shown, dict):
        return shown
    missing: dict[str, Any] = {}
    if "requested_teams" in shown:
        missing |= {"requested_teams": []}
    if "run_attempt" in shown or "runner_id" in shown:
        missing |= {"created_at": shown.get("started_at") or "2020-01-20T17:42:40Z"}
    if "full_name" in shown:
        missing |= {"language": None}
    if "two_factor_authentication" in shown:
        missing |= {"user_view_type": "private"}
    return {key: _mended(value) for key, value in (shown | missing).items()}


def _request_errors(request: MockRequest) -> Iterator[Exception]:
    yield from (errors := list(_checker("forbid").iter_request_errors(request)))
    if errors:
        return
    known = _checker("forbid").unmarshal_request(request).parameters.query
    for name in sorted(request.parameters.query.keys() - known.keys()):
        yield ValueError(f"there is no query parameter {name!r}")


def _answer_errors(request: MockRequest, exchanged: Exchanged) -> Iterator[Exception]:
    listed = _statuses(request)
    if str(exchanged.status) not in listed:
        if exchanged.status not in _ANY_REQUEST:
            yield ValueError(f"GitHub answers {sorted(listed)} there, not {exchanged.status}")
        return
    answer = MockResponse(exchanged.answer, exchanged.status)
    if exchanged.answer or exchanged.status != 204:
        yield from _checker("allow").iter_response_errors(request, answer)


def _statuses(request: MockRequest) -> set[str]:
    path = _operation(request.method, request.path)
    return set(_description()["paths"][path][request.method]["responses"])


def _operation(method: str, path: str) -> str:
    """Return the path with its parameters' names, as the description has it; empty if unknown."""
    for template, operations in _description()["paths"].items():
        pattern = re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(template))
        if method.lower() in operations and re.fullmatch(pattern, path):
            return str(template)
    return ""


def _words(error: BaseException) -> str:
    """Return an error's message with those of its causes, schema errors included."""
    said = [str(error)]
    said += [one.message for one in getattr(error, "schema_errors", ())]
    cause = error.__cause__ or error.__context__
    return ": ".join(said + ([_words(cause)] if cause else []))


@cache
def _description() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return read


@cache
def _checker(unknown: str) -> OpenAPI:
    policy: Any = unknown
    # The description was checked when it was trimmed; checking it takes longer than all the tests.
    unchecked: Any = None
    config = Config(spec_validator_cls=unchecked, additional_properties_default_policy=policy)
    return OpenAPI.from_dict(_description(), config=config)
