"""The repository around the conversation: pulls, runs, jobs, artifacts, files, tags.

`github_api` knows the comments; this is what else a workflow asks GitHub for. Each answer holds
what was set up here, and for the rest what GitHub's own API description shows as an example.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.contracts.description import Exchanged, filled
from tests.support.github_api import Answer, FakeGitHub, Grant

Handler = Callable[[Grant, dict[str, str], str], Answer]
_UNTOUCHED = "a" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a pull request comes from; `repository` is another one for a fork."""

    sha: str
    ref: str
    repository: str
    base_sha: str = _UNTOUCHED
    state: str = "open"
    base: str = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a workflow: `jobs` is names to conclusions, `artifacts` names to contents."""

    head_sha: str
    event: str = "pull_request"
    head_repository: str = "acme/models"
    head_branch: str = "change"
    attempt: int = 1
    conclusion: str = "success"
    path: str = ".github/workflows/ci-parity.yml"
    jobs: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, bytes] = field(default_factory=dict)


class FakeRepository(FakeGitHub):
    """The state and the answers.

    Attributes:
        described: whether answers are filled in, and held, to GitHub's API description.
        heads: where the pull requests come from, by repository and number.
        texts: title and body of the pull requests that were opened here, by the same.
        remote: the repository's own branches, which a pull request can come from; any without it.
        runs: workflow runs by number.
        files: contents by commit and path.
        attestations: what was stored, in that order, with the digests it speaks of.
        elsewhere: where a listing says that they lie, instead of showing them.
        refs: commits by full name, such as `refs/tags/v1`.
        trees: what was laid over a tree, by the new tree's id.
        commits: tree and parents by commit.
    """

    described = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.heads: dict[tuple[str, int], Head] = {}
        self.texts: dict[tuple[str, int], dict[str, str]] = {}
        self.remote: Callable[[str], str] | None = None
        self.runs: dict[int, Run] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        self.attestations: list[tuple[frozenset[str], str, Any]] = []
        self.elsewhere = ""
        self.refs: dict[str, str] = {}
        self.trees: dict[str, dict[str, Any]] = {}
        self.commits: dict[str, dict[str, Any]] = {}

    def answer(self, method: str, target: str, token: str, body: bytes) -> Answer:
        """Carry a request out as GitHub would."""
        answer = super().answer(method, target, token, body)
        if not self.described or not 200 <= answer.status < 300 or answer.data is None:
            return answer
        asked = Exchanged.of(method, target.removeprefix("/api/v3"), body, answer.status, b"")
        full = filled(asked, answer.data)
        return Answer(status=answer.status, data=full, headers=answer.headers)

    def _routes(self) -> dict[str, Handler]:
        repository = r"/repos/(?P<repository>[^/]+/[^/]+)"
        run = rf"{repository}/actions/runs/(?P<run>\d+)"
        return super()._routes() | {
            rf"GET {repository}": self._get_repository,
            rf"POST {repository}/attestations": self._post_attestation,
            rf"GET {repository}/attestations/(?P<digest>[^/]+)": self._get_attestations,
            rf"GET {repository}/pulls": self._get_pulls,
            rf"POST {repository}/pulls": self._post_pull,
            rf"PATCH {repository}/pulls/(?P<number>\d+)": self._patch_pull,
            rf"GET {repository}/pulls/(?P<number>\d+)": self._get_pull,
            rf"GET {repository}/commits/(?P<sha>[0-9a-f]{{40}})/pulls": self._get_pulls_of_commit,
            rf"GET {repository}/commits/(?P<sha>[0-9a-f]{{40}})/statuses": self._get_statuses,
            rf"GET {repository}/contents/(?P<path>.+)": self._get_contents,
            rf"GET {run}": self._get_run,
            rf"GET {run}/jobs": self._get_jobs,
            rf"GET {run}/attempts/\d+/jobs": self._get_jobs,
            rf"GET {run}/artifacts": self._get_artifacts,
            rf"GET {repository}/git/ref/(?P<ref>.+)": self._get_ref,
            rf"GET {repository}/git/matching-refs/(?P<ref>.+)": self._get_matching_refs,
            rf"POST {repository}/git/refs": self._post_ref,
            rf"PATCH {repository}/git/refs/(?P<ref>.+)": self._patch_ref,
            rf"GET {repository}/git/commits/(?P<sha>[0-9a-f]{{40}})": self._get_commit,
            rf"POST {repository}/git/commits": self._post_commit,
            rf"POST {repository}/git/trees": self._post_tree,
        }

    # --- pulls -------------------------------------------------------------------------------

    def _get_repository(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        owner, name = where["repository"].split("/")
        known = {"name": name, "full_name": where["repository"], "owner": {"login": owner}}
        return Answer(status=200, data=known | {"default_branch": "main"})

    def _get_pull(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        key = (where["repository"], int(where["number"]))
        return Answer(status=200, data=self._pull(key)) if key in self._pulls else _missing()

    def _get_pulls(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        found = [
            pull
            for pull in self._all_pulls(where["repository"])
            if where.get("state", "open") in {"all", pull["state"]}
            and where.get("head", pull["head"]["label"]) == pull["head"]["label"]
            and where.get("base", pull["base"]["ref"]) == pull["base"]["ref"]
        ]
        return _page(found, where)

    def _get_pulls_of_commit(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        """List the open pull requests of a commit that is in this repository: never a fork's."""
        found = [
            pull
            for pull in self._all_pulls(where["repository"])
            if pull["head"]["sha"] == where["sha"]
            and pull["head"]["repo"]["full_name"] == where["repository"]
        ]
        return _page(found, where)

    def _post_pull(self, grant: Grant, where: dict[str, str], body: str) -> Answer:
        """Open a pull request: one for each pair of branches, from a branch that is there."""
        asked, repository = json.loads(body), where["repository"]
        if not grant.write:
            return _refused(403, "Resource not accessible by integration")
        tip = self.remote(asked["head"]) if self.remote else _UNTOUCHED
        if not tip:
            return _invalid("invalid", "head")
        for pull in self._all_pulls(repository):
            label, sides = pull["head"]["label"], (pull["base"]["ref"], pull["state"])
            ours = pull["head"]["repo"]["full_name"] == repository
            if ours and pull["head"]["ref"] == asked["head"] and sides == (asked["base"], "open"):
                return _invalid("custom", "", f"A pull request already exists for {label}.")
        key = (repository, 1 + max((n for _, n in self._pulls), default=0))
        self._pulls.add(key)
        head = Head(sha=tip, ref=asked["head"], repository=repository, base=asked["base"])
        self.heads[key] = head
        self.texts[key] = {"title": asked["title"], "body": asked.get("body", "")}
        self.changed()
        return Answer(status=201, data=self._pull(key))

    def _patch_pull(self, grant: Grant, where: dict[str, str], body: str) -> Answer:
        key = (where["repository"], int(where["number"]))
        if key not in self._pulls:
            return _missing()
        if not grant.write:
            return _refused(403, "Resource not accessible by integration")
        self.texts[key] = self.texts.get(key, {}) | json.loads(body)
        self.changed()
        return Answer(status=200, data=self._pull(key))

    def _all_pulls(self, repository: str) -> list[dict[str, Any]]:
        return [self._pull(key) for key in sorted(self._pulls) if key[0] == repository]

    def _pull(self, key: tuple[str, int]) -> dict[str, Any]:
        repository, number = key
        default = Head(sha=_UNTOUCHED, ref="change", repository=repository)
        head = self.heads.get(key, default)
        return {
            "number": number,
            "state": head.state,
            "head": _side(head.repository, head.ref, head.sha),
            "base": _side(repository, head.base, head.base_sha),
            "html_url": f"{self.url}/{repository}/pull/{number}",
        } | self.texts.get(key, {})

    # --- runs --------------------------------------------------------------------------------

    def _get_run(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        number = int(where["run"])
        run = self.runs.get(number)
        if run is None:
            return _missing()
        data = {
            "id": number, "event": run.event, "head_sha": run.head_sha, "path": run.path,
            "head_branch": run.head_branch, "run_attempt": run.attempt, "status": "completed",
            "conclusion": run.conclusion, "head_repository": {"full_name": run.head_repository},
            "repository": {"full_name": where["repository"]}, "pull_requests": [],
        }  # fmt: skip
        return Answer(status=200, data=data)

    def _get_jobs(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        number = int(where["run"])
        run = self.runs.get(number)
        if run is None:
            return _missing()
        jobs = [
            {
                "id": number * 1000 + index, "run_id": number, "head_sha": run.head_sha,
                "name": name, "status": "completed", "conclusion": conclusion,
            }
            for index, (name, conclusion) in enumerate(run.jobs.items())
        ]  # fmt: skip
        return _counted("jobs", jobs, where)

    def _get_artifacts(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        number = int(where["run"])
        run = self.runs.get(number)
        if run is None:
            return _missing()
        artifacts = [
            {
                "id": number * 1000 + index, "name": name, "size_in_bytes": len(content),
                "expired": False, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
                "workflow_run": {"id": number, "head_sha": run.head_sha},
            }
            for index, (name, content) in enumerate(run.artifacts.items())
        ]  # fmt: skip
        return _counted("artifacts", artifacts, where)

    def _post_attestation(self, grant: Grant, _: dict[str, str], body: str) -> Answer:
        """Take a bundle; like GitHub, see what its Statement is about, and judge nothing."""
        if not grant.attestations:
            return _refused(403, "Resource not accessible by integration")
        bundle = json.loads(body)["bundle"]
        statement = json.loads(b64decode(bundle["dsseEnvelope"]["payload"]))
        about = frozenset(one["digest"]["sha256"] for one in statement["subject"])
        self.attestations.append((about, statement["predicateType"], bundle))
        self.changed()
        return Answer(status=201, data={"id": len(self.attestations)})

    def _get_attestations(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        found = [
            (number, bundle)
            for number, (about, kind, bundle) in enumerate(self.attestations)
            if where["digest"].removeprefix("sha256:") in about
            and where.get("predicate_type", kind) == kind
        ]
        if not found:
            return _missing()
        listed = [
            {"repository_id": 1, "bundle_url": f"{self.elsewhere or self.url}/{number}"}
            | ({} if self.elsewhere else {"bundle": bundle})
            for number, bundle in found
        ]
        return Answer(status=200, data={"attestations": listed})

    def _get_statuses(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        found = [one for one in reversed(self.statuses) if one["sha"] == where["sha"]]
        return _page(found, where)

    # --- files and tags ----------------------------------------------------------------------

    def _get_contents(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        content = self.files.get((where.get("ref", "main"), where["path"]))
        if content is None:
            return _missing()
        encoded = b64encode(content).decode("ascii")
        data = {"type": "file", "path": where["path"], "size": len(content), "content": encoded}
        return Answer(status=200, data=data | {"encoding": "base64"})

    def _get_ref(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        name = f"refs/{where['ref']}"
        return Answer(status=200, data=self._ref(name)) if name in self.refs else _missing()

    def _get_matching_refs(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        start = f"refs/{where['ref']}"
        found = [self._ref(name) for name in sorted(self.refs) if name.startswith(start)]
        return Answer(status=200, data=found)

    def _post_ref(self, grant: Grant, _: dict[str, str], body: str) -> Answer:
        asked = json.loads(body)
        if asked["ref"] in self.refs:
            return _refused(422, "Reference already exists")
        return self._set_ref(grant, asked["ref"], asked["sha"], status=201)

    def _patch_ref(self, grant: Grant, where: dict[str, str], body: str) -> Answer:
        name, asked = f"refs/{where['ref']}", json.loads(body)
        if name not in self.refs:
            return _refused(422, "Reference does not exist")
        forward = self.refs[name] in self.commits.get(asked["sha"], {}).get("parents", ())
        if not (asked.get("force") or forward):
            return _refused(422, "Update is not a fast forward")
        return self._set_ref(grant, name, asked["sha"], status=200)

    def _set_ref(self, grant: Grant, name: str, sha: str, *, status: int) -> Answer:
        if not grant.write:
            return _refused(403, "Resource not accessible by integration")
        if sha not in self.commits:
            return _refused(422, "Object does not exist")
        self.refs[name] = sha
        self.changed()
        return Answer(status=status, data=self._ref(name))

    def _ref(self, name: str) -> dict[str, Any]:
        return {"ref": name, "object": {"type": "commit", "sha": self.refs[name]}}

    def _get_commit(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        commit = self.commits.get(where["sha"])
        return _missing() if commit is None else self._commit(where["sha"], 200)

    def _post_commit(self, grant: Grant, _: dict[str, str], body: str) -> Answer:
        asked = json.loads(body)
        if not grant.write:
            return _refused(403, "Resource not accessible by integration")
        if asked["tree"] not in self.trees:
            return _refused(422, "Tree SHA does not exist")
        sha = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()
        self.commits[sha] = asked
        return self._commit(sha, 201)

    def _commit(self, sha: str, status: int) -> Answer:
        commit = self.commits[sha]
        parents = [{"sha": parent} for parent in commit["parents"]]
        data = {"sha": sha, "message": commit["message"], "tree": {"sha": commit["tree"]}}
        return Answer(status=status, data=data | {"parents": parents})

    def _post_tree(self, grant: Grant, _: dict[str, str], body: str) -> Answer:
        asked = json.loads(body)
        if not grant.write:
            return _refused(403, "Resource not accessible by integration")
        sha = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()
        self.trees[sha] = asked
        return Answer(status=201, data={"sha": sha})


def _side(repository: str, ref: str, sha: str) -> dict[str, Any]:
    owner = repository.partition("/")[0]
    return {
        "sha": sha, "ref": ref, "label": f"{owner}:{ref}", "repo": {"full_name": repository},
        "user": {"login": owner},
    }  # fmt: skip


def _page(items: Sequence[Any], where: Mapping[str, str]) -> Answer:
    size, page = int(where.get("per_page", "30")), int(where.get("page", "1"))
    return Answer(status=200, data=list(items[(page - 1) * size : page * size]))


def _counted(name: str, items: Sequence[Any], where: Mapping[str, str]) -> Answer:
    return Answer(status=200, data={"total_count": len(items), name: _page(items, where).data})


def _invalid(code: str, field_name: str, message: str = "") -> Answer:
    """Return GitHub's refusal of a pull request."""
    fault = {"resource": "PullRequest", "code": code}
    fault |= {"field": field_name} if field_name else {}
    fault |= {"message": message} if message else {}
    data = {"message": "Validation Failed", "errors": [fault]}
    return Answer(status=422, data=data | {"documentation_url": "https://docs.github.com/rest"})


def _missing() -> Answer:
    return _refused(404, "Not Found")


def _refused(status: int, message: str) -> Answer:
    data = {"message": message, "documentation_url": "https://docs.github.com/rest"}
    return Answer(status=status, data=data | {"status": str(status)})
