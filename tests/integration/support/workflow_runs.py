"""Runs the workflows that users copy: act is the runner, folders are GitHub's artifact service."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.support.act_runner import ActRun, run_act
from tests.integration.support.cache import cache_dir
from tests.integration.support.product_repo import REPOSITORY, ROOT, Checkout
from tests.support.github_server import GitHubServer

TEMPLATES = ROOT / "workflows"
_STUBS = Path(__file__).parent / "artifact_actions"
_CACHE_IN_CONTAINER = Path("/var/cache/ci-parity")
# What the package index of this machine takes, for steps that install from it.
_INDEX = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "NO_PROXY", "http", "no_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A checkout, the GitHub it came from, and the artifacts of one run."""

    checkout: Checkout
    github: GitHubServer
    artifacts: Path

    def run(
        self, template: str, event_name: str, event: Mapping[str, Any], *,
        token: str = "write-token", run_id: int = 1, env: Mapping[str, str] | None = None,
        store: Path | None = None,
    ) -> ActRun:  # fmt: skip
        """Run a workflow of `workflows/` as it is; `store` is a folder that its steps share."""
        cache = cache_dir() / "action-environments"
        cache.mkdir(exist_ok=True)
        self.artifacts.mkdir(exist_ok=True)
        workflow = TEMPLATES / template
        variables = {
            "CI_PARITY_TEST_ARTIFACTS": str(self.artifacts), "GITHUB_RUN_ID": str(run_id),
            **(env or {}),
        }  # fmt: skip
        return run_act(
            self.checkout.root, event_name, event, api_url=self.github.url, token=token,
            workflow=workflow, local_repositories=used_by(workflow), env=variables,
            extra_mounts={
                cache: _CACHE_IN_CONTAINER, self.checkout.remote: self.checkout.remote,
                **({store: store} if store else {}),
            },
        )  # fmt: skip

    def names(self) -> list[str]:
        """Return the names of the artifacts."""
        return sorted(path.name for path in self.artifacts.iterdir())


def fork_event(checkout: Checkout, base: str, **more: object) -> dict[str, Any]:
    """Return what GitHub sends for a stranger's pull request of the checked-out branch."""
    event = checkout.pull_request_event(base)
    event["pull_request"]["head"]["repo"] = {"full_name": "stranger/models"}
    return event | more


def finished_event(checkout: Checkout, conclusion: str, run_id: int) -> dict[str, Any]:
    """Return what GitHub sends when the run of a stranger's pull request has ended."""
    run = {
        "id": run_id, "run_attempt": 1, "event": "pull_request", "conclusion": conclusion,
        "head_sha": checkout.head, "head_branch": "change", "pull_requests": [],
        "head_repository": {"full_name": "stranger/models", "owner": {"login": "stranger"}},
    }  # fmt: skip
    repository = {"full_name": REPOSITORY, "default_branch": "main"}
    return {"action": "completed", "workflow_run": run, "repository": repository}


def index_settings() -> dict[str, str]:
    """Return the variables by which this machine finds its package index."""
    return {name: value for name, value in os.environ.items() if name.startswith(_INDEX)}


def used_by(workflow: Path) -> dict[str, Path]:
    """Return what stands in for each action that a workflow uses, under the name it has there."""
    stands_in = {
        "ci-parity/ci-parity": ROOT,
        "actions/upload-artifact": _STUBS / "upload",
        "actions/download-artifact": _STUBS / "download",
    }
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    used = {step["uses"] for job in jobs for step in job["steps"] if "uses" in step}
    return {
        name: stands_in[name.partition("@")[0]]
        for name in sorted(used)
        if name.partition("@")[0] != "actions/checkout"
    }
