"""The release log as an object in S3: many writers, kills, lost answers, and no line lost."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError, EvidenceError, InfrastructureError, PublishError
from ci_parity.release.audit import audit_log
from ci_parity.release.chain import verify
from ci_parity.release.objects.object_log import CHECKPOINT_KEY, LOG_KEY, ObjectLog
from ci_parity.release.objects.s3_bucket import open_s3
from ci_parity.release.signing import find_signing_key, read_public_key
from ci_parity.release.store import open_log
from tests.integration.support.s3_server import PROJECT, S3Server
from tests.unit.release.keys import write_keys
from tests.unit.release.objects import sha
from tests.unit.release.samples import digest, entry

WRITERS = 6
ROUNDS = int(os.environ.get("CI_PARITY_TEST_LOG_ROUNDS", "2"))
SEED = int(os.environ.get("CI_PARITY_TEST_LOG_SEED", "20261201"))
KILLED, LONGEST_LIFE_S = 0.4, 2.0
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, "s3fs"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Return one server for all tests of this module."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def server(served: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Return the server without faults, and its address and credentials in the environment."""
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    served.fail()
    yield served
    served.fail()


def prefix_of(scratch: Path) -> str:
    """Return the test's own prefix."""
    return f"logs/{sha(str(scratch).encode())[:8]}"


def opened(scratch: Path, key: Path | None = None) -> ObjectLog:
    """Return the log of a test; it waits for nothing."""
    place = open_s3("models", prefix_of(scratch), label=f"s3://models/{prefix_of(scratch)}")
    signing = find_signing_key(key, {}) if key else None
    return ObjectLog(place, key=signing, sleep=lambda _: None)


def _append(scratch: Path, key: Path, environment: dict[str, str], number: int) -> None:
    """Append one entry; the work of one writer."""
    os.environ.update(environment)
    place = open_s3("models", prefix_of(scratch), label="s3://models")
    ObjectLog(place, key=find_signing_key(key, {})).append(entry(number))


def test_a_log_begins_and_grows(server: S3Server, tmp_path: Path) -> None:
    """It bears the name of its bucket and prefix; a rerun finds its line and writes none."""
    log = open_log(f"s3://models/{prefix_of(tmp_path)}", tmp_path)
    assert log.read() == ()
    assert log.stored() is None
    first, second = log.append(entry(0)), log.append(entry(1))
    assert [first.seq, second.seq] == [0, 1]
    server.fail()
    assert log.append(replace(entry(0), finished_at="2026-11-30T11:00:00Z")) == first
    assert not server.asked("PUT", LOG_KEY)
    assert log.read() == (first, second)
    data = log.stored()
    assert data is not None
    assert f'"log":"models/{prefix_of(tmp_path)}"'.encode() in data
    assert log.home() == f"s3://models/{prefix_of(tmp_path)}/{LOG_KEY}"
    assert log.snapshot().checkpoint is None


@pytest.mark.parametrize("kind", ["before", "after"])
def test_52_a_line_is_written_once_whatever_is_answered(
    server: S3Server, tmp_path: Path, kind: str
) -> None:
    """The first line and a later one; the answer to the request that set them is lost."""
    log = opened(tmp_path)
    for number in range(2):
        server.fail({"kind": kind, "status": 500, "method": "PUT", "part": LOG_KEY})
        assert log.append(entry(number)).seq == number
    assert [line.entry for line in log.read()] == [entry(0), entry(1)]


def test_51_52_53_writers_killed_before_a_server_that_loses_answers(
    server: S3Server, tmp_path: Path
) -> None:
    """Every entry stands once, in an unbroken chain under a signed checkpoint."""
    key, public = write_keys(tmp_path)
    dice = random.Random(SEED)  # noqa: S311 - a test's dice, with its seed
    kills = 0
    for number in range(ROUNDS):
        left = set(range(WRITERS * number, WRITERS * (number + 1)))
        server.fail(
            {"kind": "after", "status": 500, "method": "PUT", "part": LOG_KEY, "count": 2},
            {"kind": "before", "status": 503, "method": "PUT", "part": LOG_KEY},
        )
        while left:
            writers = {
                n: _FORKS.Process(target=_append, args=(tmp_path, key, server.environment, n))
                for n in sorted(left)
            }
            for writer in writers.values():
                writer.start()
            for writer in writers.values():
                if dice.random() < KILLED:
                    time.sleep(dice.uniform(0, LONGEST_LIFE_S / 3))
                    writer.kill()
            for writer in writers.values():
                writer.join()
                assert writer.exitcode in (0, -signal.SIGKILL), f"seed {SEED}"
                kills += writer.exitcode != 0
            left = {n for n, writer in writers.items() if writer.exitcode}
    assert kills > 0
    log = opened(tmp_path, key)
    data = log.stored()
    assert data is not None
    lines = verify(data, origin=None)
    numbers = range(WRITERS * ROUNDS)
    assert sorted(line.entry.idempotency for line in lines) == sorted(
        entry(n).idempotency for n in numbers
    )
    # The last writers may have been killed between the log and its checkpoint.
    log.append(entry(len(numbers)))
    audit = audit_log(log.snapshot(), where="s3", key=read_public_key(public))
    assert audit.outcome.exit_code == 0


def test_a_guard_sees_the_lines_that_are_there_at_each_try(
    server: S3Server, tmp_path: Path
) -> None:
    """Of two that act on the same state the slower one is asked again, and may be refused."""
    log = opened(tmp_path)
    log.append(entry(0))
    seen: list[int] = []

    def guard(lines: object) -> None:
        assert isinstance(lines, tuple)
        seen.append(len(lines))
        if len(seen) == 1:
            opened(tmp_path).append(entry(1))
        else:
            raise EvidenceError("not any more")

    with pytest.raises(EvidenceError, match="not any more"):
        log.append(entry(2), guard)
    assert seen == [1, 2]
    assert len(log.read()) == 2
    assert server.asked("PUT", LOG_KEY)


@pytest.mark.parametrize("harm", ["edit", "cut", "empty"])
def test_an_edited_log_is_never_continued(server: S3Server, tmp_path: Path, harm: str) -> None:
    """Whoever may write to the bucket can break the log, and not have it go on as if whole."""
    key, _ = write_keys(tmp_path)
    log = opened(tmp_path, key)
    for number in range(3):
        log.append(entry(number))
    data = log.stored()
    assert data is not None
    changed = {
        "edit": data.replace(digest("bundle 1").encode(), digest("bundle 9").encode()),
        "cut": b"".join(data.splitlines(keepends=True)[:2]),
        "empty": b"",
    }[harm]
    server.write(f"{prefix_of(tmp_path)}/{LOG_KEY}", changed)
    with pytest.raises(EvidenceError):
        log.append(entry(3))
    assert log.stored() == changed


def test_a_checkpoint_is_never_ahead_of_the_log(server: S3Server, tmp_path: Path) -> None:
    """The log is set first; a checkpoint that fails leaves the older one until the next line."""
    key, public = write_keys(tmp_path)
    log = opened(tmp_path, key)
    log.append(entry(0))
    server.fail({"kind": "before", "status": 500, "method": "PUT", "part": CHECKPOINT_KEY,
                 "count": 99})  # fmt: skip
    with pytest.raises(PublishError):
        log.append(entry(1))
    server.fail()
    snapshot = log.snapshot()
    assert snapshot.checkpoint is not None
    assert snapshot.checkpoint.split(b"\n")[1] == b"1"
    assert log.append(entry(1)).seq == 1
    log.append(entry(2))
    audit = audit_log(log.snapshot(), where="s3", key=read_public_key(public))
    assert audit.outcome.exit_code == 0


def test_a_server_without_conditions_is_refused(server: S3Server, tmp_path: Path) -> None:
    """Two writers would lose a line there, and nobody would know."""
    server.fail({"kind": "unconditional", "method": "PUT", "count": 99})
    with pytest.raises(PublishError, match="takes no notice of conditions") as caught:
        opened(tmp_path).append(entry(0))
    assert "branch:" in caught.value.remedy
    server.fail()
    assert opened(tmp_path).stored() is None


@pytest.mark.usefixtures("server")
def test_no_bucket_is_no_log_not_yet_begun(tmp_path: Path) -> None:
    """It is an error to read as well as to write."""
    log = open_log("s3://nosuchbucket/a", tmp_path)
    with pytest.raises(InfrastructureError, match="does not exist"):
        log.read()
    with pytest.raises(PublishError, match="does not exist"):
        log.append(entry(0))


def test_an_address_with_a_secret_is_refused_unseen(tmp_path: Path) -> None:
    """As for the store."""
    with pytest.raises(ConfigError) as caught:
        open_log("s3://key:s3cret@models", tmp_path)
    assert "s3cret" not in str(caught.value)
    assert caught.value.where == "release.log: s3://…"


def test_commands_take_it(server: S3Server, tmp_path: Path) -> None:
    """`log show` and `log verify` by the same name as the config's."""
    opened(tmp_path).append(entry(0))
    for words in (["log", "show"], ["log", "verify"]):
        done = subprocess.run(
            [sys.executable, "-m", "ci_parity", *words, "--log",
             f"s3://models/{prefix_of(tmp_path)}"],
            cwd=PROJECT, text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "edge-prod" in done.stdout or "1 lines" in done.stdout
    assert server.asked("GET", LOG_KEY)
