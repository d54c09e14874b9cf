"""Cuts GitHub's API description down to the operations that the product and its tests use.

    npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz
    python -m tests.contracts.trim package

The npm package carries what github/rest-api-description publishes, unchanged but for `x-octokit`
notes. Kept of each operation: its parameters, its body, its answers, one example per success, and
every schema they refer to; prose and links are dropped. The MIT licence lies beside the result.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openapi_spec_validator

HERE = Path(__file__).parent
DESCRIPTION = HERE / "api.github.com.json"
OPERATIONS = (
    "GET /user",
    "GET /repos/{owner}/{repo}",
    "POST /repos/{owner}/{repo}/attestations",
    "GET /repos/{owner}/{repo}/attestations/{subject_digest}",
    "GET /repos/{owner}/{repo}/pulls",
    "POST /repos/{owner}/{repo}/pulls",
    "GET /repos/{owner}/{repo}/pulls/{pull_number}",
    "PATCH /repos/{owner}/{repo}/pulls/{pull_number}",
    "GET /repos/{owner}/{repo}/issues/{issue_number}/comments",
    "POST /repos/{owner}/{repo}/issues/{issue_number}/comments",
    "GET /repos/{owner}/{repo}/issues/comments/{comment_id}",
    "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}",
    "DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}",
    "GET /repos/{owner}/{repo}/commits/{commit_sha}/pulls",
    "GET /repos/{owner}/{repo}/commits/{ref}/statuses",
    "POST /repos/{owner}/{repo}/statuses/{sha}",
    "GET /repos/{owner}/{repo}/contents/{path}",
    "GET /repos/{owner}/{repo}/actions/runs/{run_id}",
    "GET /repos/{owner}/{repo}/actions/runs/{run_id}/jobs",
    "GET /repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}/jobs",
    "GET /repos/{owner}/{repo}/actions/runs/{run_id}/artifacts",
    "GET /repos/{owner}/{repo}/git/ref/{ref}",
    "GET /repos/{owner}/{repo}/git/matching-refs/{ref}",
    "POST /repos/{owner}/{repo}/git/refs",
    "PATCH /repos/{owner}/{repo}/git/refs/{ref}",
    "GET /repos/{owner}/{repo}/git/commits/{commit_sha}",
    "POST /repos/{owner}/{repo}/git/commits",
    "POST /repos/{owner}/{repo}/git/trees",
    "GET /repos/{owner}/{repo}/releases/tags/{tag}",
    "GET /repos/{owner}/{repo}/releases/{release_id}/assets",
    "POST /repos/{owner}/{repo}/releases/{release_id}/assets",
    "GET /repos/{owner}/{repo}/releases/assets/{asset_id}",
    "PATCH /repos/{owner}/{repo}/releases/assets/{asset_id}",
    "DELETE /repos/{owner}/{repo}/releases/assets/{asset_id}",
)
_PROSE = {"description", "summary", "externalDocs", "tags", "x-github", "x-octokit", "deprecated"}
_NAMED = {"properties", "schemas", "parameters", "responses", "examples", "headers"}


def trim(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the description of `OPERATIONS` alone, with all that they refer to."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        method, path = operation.split()
        paths.setdefault(path, {})[method.lower()] = _without_prose(
            _operation(whole["paths"][path][method.lower()])
        )
    kept: dict[str, dict[str, Any]] = {}
    waiting = list(_references(paths))
    while waiting:
        kind, name = waiting.pop().removeprefix("#/components/").split("/")
        if name not in kept.setdefault(kind, {}):
            whole_part = whole["components"][kind][name]
            # An example is data: what looks like prose in it is a value.
            kept[kind][name] = whole_part if kind == "examples" else _without_prose(whole_part)
            waiting.extend(_references(kept[kind][name]))
    # Only the prose of the uploads tells of this state, which a broken one leaves.
    states = kept["schemas"]["release-asset"]["properties"]["state"]["enum"]
    states.append("starter")
    components = {kind: dict(sorted(named.items())) for kind, named in sorted(kept.items())}
    head = {"title": whole["info"]["title"], "version": whole["info"]["version"]}
    return {
        "openapi": whole["openapi"], "info": head, "servers": [{"url": "/"}],
        "paths": paths, "components": components,
    }  # fmt: skip


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: operation[key]
        for key in ("operationId", "parameters", "requestBody")
        if key in operation
    }
    return kept | {
        "responses": {
            status: _response(answer) for status, answer in operation["responses"].items()
        }
    }


def _response(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep the JSON of an answer and its first example."""
    media = answer.get("content", {}).get("application/json")
    if media is None:
        return {key: answer[key] for key in ("$ref", "description") if key in answer}
    examples = dict(list(media.get("examples", {}).items())[:1])
    one = {"schema": media["schema"]} | ({"examples": examples} if examples else {})
    return {"description": answer["description"], "content": {"application/json": one}}


def _without_prose(part: Any, *, named: bool = False) -> Any:
    """Drop prose, but no property that happens to be called `description`."""
    if isinstance(part, list):
        return [_without_prose(item) for item in part]
    if not isinstance(part, dict):
        return part
    is_response = "content" in part or set(part) == {"description"}
    dropped = _PROSE - ({"description"} if is_response else set())
    return {
        key: _without_prose(value, named=key in _NAMED and not named)
        for key, value in part.items()
        if named
        or (key not in dropped and (key not in {"example", "examples"} or "schema" in part))
    }


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        target = part.get("$ref")
        if isinstance(target, str):
            yield target
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


def main() -> None:
    """Write the description that the tests read, and its licence."""
    parser = argparse.ArgumentParser(description="Trim GitHub's API description")
    parser.add_argument("package", type=Path, help="the unpacked npm package @octokit/openapi")
    package = parser.parse_args().package
    source = package / "generated" / "api.github.com.json"
    trimmed = trim(json.loads(source.read_text(encoding="utf-8")))
    openapi_spec_validator.validate(trimmed)
    DESCRIPTION.write_text(json.dumps(trimmed, separators=(",", ":")) + "\n", encoding="utf-8")
    shutil.copy(package / "LICENSE", HERE / "LICENSE")


if __name__ == "__main__":
    main()
