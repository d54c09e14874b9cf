"""The product as its users run it: the container action, built from this tree, in a workflow.

act is the runner, the loopback server is GitHub, a bare repository is the remote that holds the
release log. A step hands the checkout to a user that is not root, as a self-hosted runner has it;
the last step records what the action left behind. Built environments are kept in the test cache.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_parity.records.release import EntryKind, LogLine
from ci_parity.release.store import open_log
from tests.integration.support.act_log import StepRun
from tests.integration.support.act_runner import ActRun, run_act
from tests.integration.support.cache import cache_dir
from tests.integration.support.product_repo import (
    BASELINE_RUNTIME,
    CANDIDATE_RUNTIME,
    LOG_BRANCH,
    PULL_REQUEST,
    REPOSITORY,
    ROOT,
    Checkout,
    make_checkout,
)
from tests.support.github_server import GitHubServer

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.usefixtures("base_image")]

CACHE_IN_CONTAINER = Path("/var/cache/ci-parity")
PUBLISHED = "ci-parity/ci-parity@v1"
OWNER = 12345
WORKFLOW = f"""\
on: [pull_request, push]
jobs:
  parity:
    runs-on: [self-hosted]
    steps:
      - uses: actions/checkout@v7
      - run: chown -R {OWNER}:{OWNER} .
      - id: parity
        uses: ./
      - if: always()
        run: |
          find . "$HOME" -mindepth 1 ! -user {OWNER} -o -mindepth 1 ! -group {OWNER} \\
            > "$CI_PARITY_TEST_RECORD/foreign"
          cp -R ci-parity-report "$CI_PARITY_TEST_RECORD" || true
"""


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    """Serve an empty pull request."""
    with GitHubServer(pulls=[(REPOSITORY, PULL_REQUEST)]) as server:
        yield server


def run(
    checkout: Checkout, event_name: str, event: dict[str, Any], github: GitHubServer, *,
    run_id: int = 1, token: str = "write-token", cache: Path | None = None,
    workflow: Path | None = None,
) -> ActRun:  # fmt: skip
    """Run the checkout's workflow, or a given one, for one event."""
    cache = cache or cache_dir() / "action-environments"
    cache.mkdir(exist_ok=True)
    return run_act(
        checkout.root, event_name, event, api_url=github.url, token=token, workflow=workflow,
        extra_mounts={cache: CACHE_IN_CONTAINER, checkout.remote: checkout.remote},
        local_repositories={PUBLISHED: ROOT}, env={"GITHUB_RUN_ID": str(run_id)},
    )  # fmt: skip


def test_good_bump(tmp_path: Path, github: GitHubServer) -> None:
    """x."""
    checkout = make_checkout(tmp_path, WORKFLOW, action=True)
    base = checkout.head
    checkout.branch("change")
    checkout.bump_runtime()
    checkout.commit("bump onnxruntime")
    import time
    for i in range(3):
        t=time.time()
        done = run(checkout, "pull_request", checkout.pull_request_event(base), github, run_id=i+1)
        print("took", time.time()-t)
    print(done.log)
    print(done.steps)
    print(done.recorded.keys())
    print(done.recorded["foreign"].decode())
    print(github.bodies()[0])
    assert 0
