"""The release log on a branch: real git, real remotes, real races and lost answers."""

import base64
import multiprocessing
import os
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from ci_parity.base.errors import (
    CiParityError,
    ConfigError,
    EvidenceError,
    InfrastructureError,
    PublishError,
)
from ci_parity.release.branch_log import BranchLog
from ci_parity.release.chain import origin_of, verify
from ci_parity.release.store import open_log
from tests.integration.support.git_http import GitHttpServer
from tests.unit.release.samples import digest, entry, log_of

BRANCH = "ci-parity-log"
FILE = "release-log.jsonl"
BASIC = f"basic {base64.b64encode(b'x-access-token:s3cret-t0ken').decode()}"
_SPAWN = multiprocessing.get_context("spawn")


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run git in a folder and return what it printed."""
    person = ("-c", "user.name=Someone", "-c", "user.email=someone@models.invalid")
    done = subprocess.run(
        ["git", *person, *arguments], cwd=folder, input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.fixture(params=["sha1"])
def remote(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return an empty bare repository."""
    path = tmp_path / "server" / "models.git"
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--bare", f"--object-format={request.param}")
    return path


@pytest.fixture
def clone(tmp_path: Path, remote: Path) -> Path:
    """Return a user's clone with one commit, pushed."""
    path = tmp_path / "clone"
    object_format = git(remote, "rev-parse", "--show-object-format")
    git(tmp_path, "init", "--quiet", f"--object-format={object_format}", str(path))
    git(path, "remote", "add", "origin", str(remote))
    (path / "ci-parity.yml").write_text("version: 1\n")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "Begin")
    git(path, "push", "--quiet", "origin", "HEAD:refs/heads/main")
    return path


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return times and contents of all files below a folder."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def stored(remote: Path) -> bytes:
    """Return the log as the remote holds it."""
    return subprocess.run(
        ["git", "cat-file", "blob", f"{BRANCH}:{FILE}"], cwd=remote, capture_output=True, check=True
    ).stdout


def hook(remote: Path, name: str, script: str) -> None:
    """Install a hook on the server."""
    path = remote / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def put_on_branch(clone: Path, name: str, data: bytes) -> None:
    """Push a branch that holds one file."""
    blob = git(clone, "hash-object", "-w", "--stdin", stdin=data)
    tree = git(clone, "mktree", stdin=f"100644 blob {blob}\t{name}\n".encode())
    commit = git(clone, "commit-tree", tree, "-m", "By hand")
    git(clone, "push", "--quiet", "--force", "origin", f"{commit}:refs/heads/{BRANCH}")


def hasty(clone: Path) -> BranchLog:
    """Return a log whose writer does not wait between tries."""
    return BranchLog(clone, BRANCH, sleep=lambda _: None)


def test_begins_a_log_on_an_orphan_branch(clone: Path, remote: Path) -> None:
    """The first entry makes the branch: one commit, one file, no parent, our name."""
    line = BranchLog(clone, BRANCH).append(entry(1))
    assert line.seq == 0
    assert verify(stored(remote), origin="models") == (line,)
    assert git(remote, "ls-tree", "--name-only", BRANCH) == FILE
    finished = datetime.fromisoformat(line.entry.finished_at)
    log = git(remote, "log", "--format=%an <%ae>|%cn|%at|%P|%B", BRANCH)
    assert log == (
        f"ci-parity <ci-parity@noreply.invalid>|ci-parity|{finished.timestamp():.0f}||"
        f"validated sha256:{digest('bundle 1')}"
    )


def test_a_log_without_a_branch_is_empty(clone: Path) -> None:
    """Only the remote's own word makes a log empty."""
    assert BranchLog(clone, BRANCH).read() == ()
    assert BranchLog(clone, BRANCH).stored() is None


def test_appends_one_commit_for_each_entry(clone: Path, remote: Path) -> None:
    """History grows by one commit a line, each on top of the one before."""
    for number in range(3):
        BranchLog(clone, BRANCH).append(entry(number))
    assert git(remote, "rev-list", "--count", BRANCH) == "3"
    assert [line.entry for line in BranchLog(clone, BRANCH).read()] == [entry(n) for n in range(3)]


def test_leaves_the_users_repository_alone(clone: Path) -> None:
    """Not one file of the clone, its `.git` included, is written, created or touched."""
    before = snapshot(clone)
    BranchLog(clone, BRANCH).append(entry(1))
    BranchLog(clone, BRANCH).read()
    assert snapshot(clone) == before


def test_53_an_entry_stands_once(clone: Path, remote: Path) -> None:
    """A rerun finds its line and makes no commit."""
    first = BranchLog(clone, BRANCH).append(entry(1))
    again = BranchLog(clone, BRANCH).append(entry(1, finished_at="2026-12-24T00:00:00Z"))
    assert again == first
    assert git(remote, "rev-list", "--count", BRANCH) == "1"


def test_refuses_another_entry_under_one_key(clone: Path) -> None:
    """The key of one bundle cannot carry another."""
    BranchLog(clone, BRANCH).append(entry(1))
    with pytest.raises(EvidenceError, match="already stands for another"):
        BranchLog(clone, BRANCH).append(entry(1, bundle=digest("other")))


def test_keeps_other_files_of_the_branch(clone: Path, remote: Path) -> None:
    """A README beside the log survives an append."""
    put_on_branch(clone, FILE, log_of(entry(0)))
    tip = git(remote, "rev-parse", BRANCH)
    blob = git(remote, "hash-object", "-w", "--stdin", stdin=b"The release log\n")
    listing = git(remote, "ls-tree", tip) + f"\n100644 blob {blob}\tREADME.md\n"
    tree = git(remote, "mktree", stdin=listing.encode())
    git(remote, "update-ref", f"refs/heads/{BRANCH}",
        git(remote, "commit-tree", tree, "-p", tip, "-m", "Explain"))  # fmt: skip
    BranchLog(clone, BRANCH).append(entry(1))
    assert git(remote, "ls-tree", "--name-only", BRANCH).split() == ["README.md", FILE]
    assert len(verify(stored(remote), origin=None)) == 2


def test_appends_nothing_to_a_broken_log(clone: Path, remote: Path) -> None:
    """A chain that does not verify is left as it is."""
    put_on_branch(clone, FILE, log_of(entry(0), entry(1)).replace(b"edge-prod", b"edge-test", 1))
    before = git(remote, "rev-parse", BRANCH)
    for act in (BranchLog(clone, BRANCH).read, lambda: BranchLog(clone, BRANCH).append(entry(2))):
        with pytest.raises(EvidenceError, match="does not follow") as caught:
            act()
        assert caught.value.where == f"branch {BRANCH} of origin: record 1"
    assert git(remote, "rev-parse", BRANCH) == before


@pytest.mark.parametrize("data", [b"", log_of(entry(0))[:-1]])
def test_an_emptied_or_torn_log_is_refused(clone: Path, data: bytes) -> None:
    """A commit is whole, so a torn line in one is no crash of ours."""
    put_on_branch(clone, FILE, data)
    with pytest.raises(EvidenceError):
        BranchLog(clone, BRANCH).read()
    with pytest.raises(EvidenceError):
        BranchLog(clone, BRANCH).append(entry(1))


def test_55_a_branch_without_the_log_is_refused(clone: Path) -> None:
    """A branch that someone replaced does not look like a log not yet begun."""
    put_on_branch(clone, "index.html", b"pages")
    for act in (BranchLog(clone, BRANCH).read, lambda: BranchLog(clone, BRANCH).append(entry(2))):
        with pytest.raises(EvidenceError, match=r"does not hold release-log\.jsonl"):
            act()


def test_51_a_remote_that_is_gone_is_an_error(clone: Path, remote: Path) -> None:
    """Reading cannot be done, publishing failed; neither finds an empty log."""
    remote.rename(remote.with_name("moved.git"))
    with pytest.raises(InfrastructureError, match="ls-remote failed"):
        BranchLog(clone, BRANCH).read()
    with pytest.raises(PublishError, match="ls-remote failed") as caught:
        BranchLog(clone, BRANCH).append(entry(1))
    assert "run again" in caught.value.remedy


def test_a_folder_that_is_no_clone_is_refused(tmp_path: Path) -> None:
    """A branch needs a repository with a remote."""
    with pytest.raises(ConfigError, match="no git remote 'origin'"):
        BranchLog(tmp_path, BRANCH).read()
    git(tmp_path, "init", "--quiet")
    with pytest.raises(ConfigError, match="no git remote 'origin'"):
        BranchLog(tmp_path, BRANCH).append(entry(1))


def test_finds_a_relative_remote_from_a_subfolder(clone: Path, remote: Path) -> None:
    """Git reads a relative address from the top of the work tree, and so does the log."""
    git(clone, "remote", "set-url", "origin", "../server/models.git")
    (clone / "deploy" / "ocr").mkdir(parents=True)
    open_log(f"branch:{BRANCH}", clone / "deploy" / "ocr").append(entry(1))
    assert len(verify(stored(remote), origin="models")) == 1


@pytest.mark.parametrize("remote", ["sha256"], indirect=True)
def test_speaks_the_remotes_object_format(clone: Path, remote: Path) -> None:
    """A repository of SHA-256 objects holds a log too."""
    BranchLog(clone, BRANCH).append(entry(1))
    BranchLog(clone, BRANCH).append(entry(2))
    assert len(verify(stored(remote), origin=None)) == 2


def give_away(folder: Path) -> None:
    """Make all of a folder another user's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as in the container")
def test_root_reads_the_settings_of_another_users_clone(clone: Path) -> None:
    """In a container the clone belongs to the runner's user, which git finds dubious."""
    give_away(clone)
    BranchLog(clone, BRANCH).append(entry(1))
    assert len(BranchLog(clone, BRANCH).read()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as in the container")
def test_root_runs_no_hooks_of_another_users_remote(clone: Path, remote: Path) -> None:
    """A remote in a folder runs its own hooks; git's refusal to do so as root is left to stand."""
    give_away(remote)
    with pytest.raises(InfrastructureError, match=r"safe\.directory"):
        BranchLog(clone, BRANCH).read()


def test_runs_no_hook_of_the_user(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A global hook that stops pushes is meant for people."""
    (tmp_path / "home" / "hooks").mkdir(parents=True)
    (tmp_path / "home" / ".gitconfig").write_text(f"[core]\nhooksPath={tmp_path}/home/hooks\n")
    (tmp_path / "home" / "hooks" / "pre-push").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "home" / "hooks" / "pre-push").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert BranchLog(clone, BRANCH).append(entry(1)).seq == 0


def test_a_push_that_rules_forbid_ends_soon(clone: Path, remote: Path) -> None:
    """A branch that stands still while pushes fail was lost to nobody: six tries, not twenty."""
    hook(remote, "pre-receive", 'echo tried >> tries; echo "branch is frozen" >&2; exit 1')
    waits: list[float] = []
    with pytest.raises(PublishError, match="pre-receive hook declined") as caught:
        BranchLog(clone, BRANCH, sleep=waits.append).append(entry(1))
    assert "let the job's token push" in caught.value.remedy
    assert (remote / "tries").read_text().split() == ["tried"] * 6
    assert len(waits) == 6
    assert all(0 <= wait <= 2 for wait in waits)


def test_52_a_push_accepted_but_cut_off_is_one_record(clone: Path, remote: Path) -> None:
    """The server dies between moving the branch and saying so; the line is found, not doubled."""
    once = '[ "$1" = committed ] && [ ! -e died ] && touch died && kill -9 $PPID; exit 0'
    hook(remote, "reference-transaction", once)
    line = hasty(clone).append(entry(1))
    assert (remote / "died").exists()
    assert line.seq == 0
    assert verify(stored(remote), origin=None) == (line,)
    assert git(remote, "rev-list", "--count", BRANCH) == "1"


def test_52_a_push_accepted_but_answered_500_is_one_record(
    clone: Path, remote: Path, server: Callable[..., GitHttpServer]
) -> None:
    """Status 500 after the fact, twice: each entry still stands once."""
    with server(clone, lost_pushes=2):
        for number in range(3):
            hasty(clone).append(entry(number))
    assert [line.entry for line in verify(stored(remote), origin=None)] == [
        entry(number) for number in range(3)
    ]


@pytest.fixture
def server(remote: Path) -> Callable[..., GitHttpServer]:
    """Return how to serve the remote over HTTP and let a clone know address and token."""

    def serve(clone: Path, lost_pushes: int = 0) -> GitHttpServer:
        served = GitHttpServer(remote.parent, BASIC, lost_pushes)
        git(clone, "remote", "set-url", "origin", f"http://{served.address}/models.git")
        key = f"http.http://{served.address}/.extraheader"
        git(clone, "config", "--local", key, f"AUTHORIZATION: {BASIC}")
        return served

    return serve


def test_uses_the_token_that_checkout_left(
    clone: Path, remote: Path, server: Callable[..., GitHttpServer]
) -> None:
    """The extra header in the clone's config opens the remote, sent once a request."""
    with server(clone) as served:
        BranchLog(clone, BRANCH).append(entry(1))
        BranchLog(clone, BRANCH).append(entry(2))
        assert len(BranchLog(clone, BRANCH).read()) == 2
    assert {tuple(sent) for sent in served.seen} == {(BASIC,)}
    assert origin_of(stored(remote)) == "127.0.0.1/models"


def test_uses_a_token_in_an_included_file(
    clone: Path, tmp_path: Path, server: Callable[..., GitHttpServer]
) -> None:
    """Newer checkouts keep the token in a file that the config includes for this `.git` alone."""
    with server(clone) as served:
        key = f"http.http://{served.address}/.extraheader"
        git(clone, "config", "--local", "--unset", key)
        credentials = tmp_path / "credentials.config"
        git(clone, "config", "--file", str(credentials), key, f"AUTHORIZATION: {BASIC}")
        git(clone, "config", "--local", f"includeIf.gitdir:{clone}/.git.path", str(credentials))
        BranchLog(clone, BRANCH).append(entry(1))
    assert {tuple(sent) for sent in served.seen} == {(BASIC,)}


def test_a_refused_token_is_an_error_without_the_token(
    clone: Path, server: Callable[..., GitHttpServer]
) -> None:
    """A log that may not be read does not look empty, and no message holds a secret."""
    with server(clone) as served:
        served.authorization = "basic another"
        url = f"http://user:pa55word@{served.address}/models.git"
        git(clone, "remote", "set-url", "origin", url)
        errors: list[CiParityError] = []
        for act in (BranchLog(clone, BRANCH).read, lambda: hasty(clone).append(entry(1))):
            with pytest.raises((InfrastructureError, PublishError)) as caught:
                act()
            errors.append(caught.value)
    assert [error.exit_code for error in errors] == [5, 6]
    for error in errors:
        assert "pa55word" not in str(error)
        assert BASIC not in str(error)


def test_no_secret_stands_on_a_command_line(
    clone: Path, tmp_path: Path, server: Callable[..., GitHttpServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Command lines are public on a machine; addresses and headers go through the environment."""
    tools = tmp_path / "tools"
    tools.mkdir()
    real = git(clone, "--exec-path")
    (tools / "git").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/lines\nexec {real}/git "$@"\n')
    (tools / "git").chmod(0o755)
    with server(clone) as served:
        url = f"http://x-access-token:s3cret-t0ken@{served.address}/models.git"
        git(clone, "remote", "set-url", "origin", url)
        git(clone, "config", "--local", "--unset-all", f"http.http://{served.address}/.extraheader")
        served.authorization = served.authorization.replace("basic", "Basic")
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
        BranchLog(clone, BRANCH).append(entry(1))
    lines = (tmp_path / "lines").read_text()
    assert "push --quiet" in lines
    assert "s3cret" not in lines


def _append(clone: Path, number: int) -> None:
    BranchLog(clone, BRANCH).append(entry(number))


def test_twelve_writers_lose_and_double_nothing(clone: Path, remote: Path) -> None:
    """Two rounds of twelve processes on one branch: every entry stands once in one chain."""
    for first in (0, 100):
        numbers = range(first, first + 12)
        writers = [_SPAWN.Process(target=_append, args=(clone, number)) for number in numbers]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [writer.exitcode for writer in writers] == [0] * 12
    lines = verify(stored(remote), origin="models")
    expected = {entry(first + number).idempotency for first in (0, 100) for number in range(12)}
    assert {line.entry.idempotency for line in lines} == expected
    assert len(lines) == 24
    assert git(remote, "rev-list", "--count", BRANCH) == "24"
    assert git(remote, "rev-list", "--merges", "--count", BRANCH) == "0"
