"""Many writers on one branch, killed at random points, before a remote that loses answers.

Two rounds; as many as CI_PARITY_TEST_LOG_ROUNDS says, where it is set.
"""

import base64
import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ci_parity.release.audit import audit_log
from ci_parity.release.branch_log import BranchLog
from ci_parity.release.chain import verify
from ci_parity.release.checkpoint import Snapshot
from ci_parity.release.signing import find_signing_key, read_public_key
from tests.integration.support.git_http import GitHttpServer
from tests.unit.release.keys import write_keys
from tests.unit.release.samples import entry

BRANCH = "ci-parity-log"
FILE = "release-log.jsonl"
BASIC = f"basic {base64.b64encode(b'x-access-token:s3cret').decode()}"
WRITERS = 12
ROUNDS = int(os.environ.get("CI_PARITY_TEST_LOG_ROUNDS", "2"))
SEED = int(os.environ.get("CI_PARITY_TEST_LOG_SEED", "20261130"))
# Two in five writers are killed, some before they began and some after they had done.
KILLED, LONGEST_LIFE_S = 0.4, 1.5
LOST_AFTER, LOST_BEFORE = 0.2, 0.05
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


def _append(clone: Path, key: Path, number: int) -> None:
    """Append one entry; the work of one writer."""
    BranchLog(clone, BRANCH, key=find_signing_key(key, {})).append(entry(number))


class Storm:
    """Rounds of writers on one branch of a served repository."""

    def __init__(self, clone: Path, key: Path) -> None:
        self.clone = clone
        self.key = key
        self.kills = 0
        self._dice = random.Random(SEED)  # noqa: S311 - a test's dice, with its seed

    def blow(self, numbers: range) -> None:
        """Let all write at once, kill some, and run those again until each has ended well."""
        left = set(numbers)
        while left:
            writers = {
                number: _FORKS.Process(target=_append, args=(self.clone, self.key, number))
                for number in left
            }
            start = time.monotonic()
            for writer in writers.values():
                writer.start()
            lives = {
                number: self._dice.uniform(0, LONGEST_LIFE_S)
                for number in sorted(left)
                if self._dice.random() < KILLED
            }
            for number, life in sorted(lives.items(), key=lambda pair: pair[1]):
                time.sleep(max(0.0, start + life - time.monotonic()))
                writers[number].kill()
            for number, writer in writers.items():
                writer.join()
                assert writer.exitcode in (0, -signal.SIGKILL), f"seed {SEED}, writer {number}"
                self.kills += writer.exitcode != 0
            left = {number for number, writer in writers.items() if writer.exitcode}


def git(folder: Path, *arguments: str) -> bytes:
    """Run git in a folder and return what it printed."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout


@pytest.fixture
def storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storm:
    """Return a storm over a clone of an empty repository."""
    remote, clone, scratch = (tmp_path / name for name in ("served/models.git", "clone", "scratch"))
    remote.mkdir(parents=True)
    scratch.mkdir()
    git(remote, "init", "--quiet", "--bare")
    git(tmp_path, "init", "--quiet", str(clone))
    # What a killed writer leaves behind lies there.
    monkeypatch.setenv("TMPDIR", str(scratch))
    return Storm(clone, write_keys(tmp_path)[0])


def test_51_52_53_writers_killed_before_a_remote_that_loses_answers(
    storm: Storm, tmp_path: Path
) -> None:
    """No record is lost, doubled or out of the chain; each commit adds one line and is signed."""
    remote = tmp_path / "served" / "models.git"
    faults = (LOST_AFTER, LOST_BEFORE, SEED)
    with GitHttpServer(remote.parent, BASIC, faults=faults) as server:
        git(storm.clone, "remote", "add", "origin", f"http://{server.address}/models.git")
        key = f"http.http://{server.address}/.extraheader"
        git(storm.clone, "config", "--local", key, f"AUTHORIZATION: {BASIC}")
        for number in range(ROUNDS):
            storm.blow(range(WRITERS * number, WRITERS * (number + 1)))
        lost = server.lost
    (tmp_path / "storm.json").write_text(
        json.dumps({"rounds": ROUNDS, "kills": storm.kills, "lost answers": lost})
    )
    commits = git(remote, "rev-list", "--reverse", "--topo-order", BRANCH).decode().split()
    logs = [git(remote, "cat-file", "blob", f"{commit}:{FILE}") for commit in commits]
    lines = verify(logs[-1], origin="127.0.0.1/models")
    assert sorted(line.entry.idempotency for line in lines) == sorted(
        entry(number).idempotency for number in range(WRITERS * ROUNDS)
    )
    assert len(commits) == WRITERS * ROUNDS
    assert git(remote, "rev-list", "--merges", "--count", BRANCH).strip() == b"0"
    assert all(new.startswith(old) for old, new in itertools.pairwise(logs))
    public = read_public_key(tmp_path / "log.pub")
    beside = git(remote, "cat-file", "blob", f"{BRANCH}:release-log.checkpoint")
    found = audit_log(Snapshot(data=logs[-1], checkpoint=beside), where="log", key=public)
    assert found.outcome.exit_code == 0
    assert storm.kills > 0
    assert lost > 0
