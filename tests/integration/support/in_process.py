"""A runner that runs the action's entry in this process: an environment in, what is left out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_parity.cli.action import run_action
from tests.support.github_server import GitHubServer
from tests.support.user_repository import UserRepository


class Runner:
    """What a runner gives the action, and what it finds afterwards."""

    def __init__(self, repository: UserRepository, server: GitHubServer, scratch: Path) -> None:
        self.repository = repository
        self.server = server
        self.output = scratch / "output"
        self.summary = scratch / "summary"
        self.event = scratch / "event.json"
        self.run_id = 100

    def next_run(self) -> None:
        """Begin another run of the workflow."""
        self.run_id += 1

    def pull_request(self, token: str = "write-token", **inputs: str) -> int:
        """Run as the next workflow run of the pull request."""
        return self.start("pull_request", self._pull_request_event(), token, inputs)

    def push(self, ref: str = "refs/heads/main", **inputs: str) -> int:
        """Run as the next workflow run of a push."""
        event = {
            "before": self.repository.git("rev-parse", "HEAD~1"),
            "after": self.repository.git("rev-parse", "HEAD"),
            "ref": ref,
            "repository": {"full_name": "acme/models", "default_branch": "main"},
        }
        return self.start("push", event, "write-token", inputs, ref=ref)

    def start(
        self, name: str, event: Mapping[str, Any], token: str, inputs: Mapping[str, str],
        ref: str = "refs/pull/7/merge",
    ) -> int:  # fmt: skip
        """Run the action with an event and inputs; a part of a run belongs to the one begun."""
        if inputs.get("mode", "check") == "check":
            self.next_run()
        self.output.write_text("")
        self.summary.write_text("")
        self.event.write_text(json.dumps(event))
        return run_action(
            {
                "GITHUB_ACTIONS": "true",
                "GITHUB_EVENT_NAME": name,
                "GITHUB_EVENT_PATH": str(self.event),
                "GITHUB_REPOSITORY": "acme/models",
                "GITHUB_API_URL": self.server.url,
                "GITHUB_SERVER_URL": self.server.url,
                "GITHUB_WORKSPACE": str(self.repository.root),
                "GITHUB_RUN_ID": str(self.run_id),
                "GITHUB_RUN_ATTEMPT": "1",
                "GITHUB_SHA": self.repository.git("rev-parse", "HEAD"),
                "GITHUB_REF": ref,
                "GITHUB_ACTOR": "someone",
                "GITHUB_OUTPUT": str(self.output),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                "INPUT_GITHUB_TOKEN": token,
                **{f"INPUT_{key.upper()}": value for key, value in inputs.items()},
            }
        )

    def outputs(self) -> dict[str, str]:
        """Return the outputs as a runner reads them."""
        lines = iter(self.output.read_text().splitlines())
        found = {}
        for line in lines:
            name, _, delimiter = line.partition("<<")
            value = []
            for part in lines:
                if part == delimiter:
                    break
                value.append(part)
            found[name] = "\n".join(value)
        return found

    def _pull_request_event(self) -> dict[str, Any]:
        repository = {"full_name": "acme/models"}
        return {
            "number": 7,
            "repository": {**repository, "default_branch": "main"},
            "pull_request": {
                "number": 7,
                "head": {"sha": self.repository.git("rev-parse", "HEAD"), "repo": repository},
                "base": {"sha": self.repository.git("rev-parse", "main"), "repo": repository},
            },
        }
