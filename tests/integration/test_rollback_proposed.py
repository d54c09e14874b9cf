"""Rollbacks by pull request, on real repositories with a remote and the loopback GitHub.

Proposed is barred, pushed and opened, and not rolled back; merged, it is recorded and the pointer
moves. Whatever breaks in between, there is one record, one branch and one pull request.
"""

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.digest import sha256_bytes
from ci_parity.cli import run
from ci_parity.records.release import EntryKind
from tests.support.github_server import Fault, GitHubServer
from tests.support.proposed import REPOSITORY, Proposing, proposing
from tests.support.user_repository import empty_repository

Output = pytest.CaptureFixture[str]
BRANCH = "ci-parity-rollback/linear/default/3"
PROPOSED = ["validated", "released", "validated", "released", "revoked"]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    """Serve a repository with a pull request of somebody else's."""
    with GitHubServer(pulls=[(REPOSITORY, 7)]) as running:
        yield running


@pytest.fixture
def at(tmp_path: Path, server: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> Proposing:
    """Return a deployment of which two states were released, the second is out."""
    return proposing(tmp_path, server, monkeypatch)


def first(at: Proposing) -> str:
    """Return the digest of the bundle that was released first."""
    return at.made.lines()[0].entry.bundle


def out(at: Proposing) -> tuple[int, str]:
    """Return which record the channel's pointer names, and its bundle."""
    pointer = at.made.pointer()
    assert pointer is not None
    return pointer.seq, pointer.bundle


def seen(at: Proposing) -> tuple[object, ...]:
    """Return everything that others can see."""
    return at.made.lines(), at.made.pointer(), at.branches(), at.titles()


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_a_merge_makes_a_proposal_a_rollback(at: Proposing, how: str, capsys: Output) -> None:
    """Barred at once, out only after the merge; asked twice, nothing is done twice."""
    bad, before = at.made.digest(), seen(at)
    assert at.rollback("--dry-run") == 0
    told = capsys.readouterr().out
    assert "M 'LICENSE'" in told
    assert "a pull request would be opened" in told
    assert seen(at) == before

    assert at.rollback("--reason", "labels were swapped") == 0
    proposed = seen(at)
    assert at.made.kinds() == PROPOSED
    assert at.made.lines()[-1].entry.findings_failed == ("labels were swapped",)
    assert out(at) == (3, bad)
    assert at.titles() == [f"Roll linear back to sha256:{first(at)[:16]}"]
    assert "labels were swapped" in at.body()
    assert at.show(BRANCH, "LICENSE") == "licence 1"
    assert at.git("rev-list", "--count", f"main..{BRANCH}") == "1"
    assert run(["release", "--root", str(at.made.root)]) == 1
    capsys.readouterr()
    assert at.rollback("--dry-run") == 0
    assert "pull request #8" in capsys.readouterr().out
    assert at.rollback("--reason", "other words") == 0
    assert seen(at) == proposed

    at.merge(BRANCH, how)
    assert at.made.digest() == first(at)
    for _ in range(2):
        assert at.rollback() == 0
        assert at.made.kinds() == [*PROPOSED, "rolled_back"]
        assert out(at) == (5, first(at))
    assert at.titles() == proposed[3]


def test_the_checks_of_a_proposal_compare_with_the_bundle_that_comes_back(
    at: Proposing, capsys: Output
) -> None:
    """What is revoked is no baseline: the branch is unchanged since the last good state."""
    assert at.rollback() == 0
    at.made.repository.git("fetch", "--quiet", "origin")
    at.made.repository.git("checkout", "--quiet", f"origin/{BRANCH}")
    capsys.readouterr()
    assert run(["check", "--root", str(at.made.root), "--base", "origin/main"]) == 0
    told = capsys.readouterr().out
    assert "PARITY UNCHANGED" in told
    assert "release log record 1" in told


def test_a_release_of_what_came_back_ends_it_too(at: Proposing) -> None:
    """The log says that it is out; a rollback after that does nothing, and goes no further."""
    assert at.rollback() == 0
    at.merge(BRANCH)
    assert at.put_out() == first(at)
    kinds = [*PROPOSED, "validated", "released"]
    assert at.made.kinds() == kinds
    assert at.rollback() == 0
    assert at.made.kinds() == kinds
    assert out(at) == (6, first(at))
    assert at.branches() == [BRANCH, "main"]


def test_an_older_bundle_is_proposed_on_the_same_branch(
    at: Proposing, server: GitHubServer
) -> None:
    """`--to` changes what is proposed; merged, the branch says which one it was."""
    at.made.next_state()
    at.put_out()
    branch = "ci-parity-rollback/linear/default/5"
    assert at.rollback() == 0
    assert at.show(branch, "LICENSE") == "licence 2"
    assert at.rollback("--to", first(at)) == 0
    assert at.show(branch, "LICENSE") == "licence 1"
    assert at.titles() == [f"Roll linear back to sha256:{first(at)[:16]}"]
    assert at.made.kinds().count("revoked") == 1
    assert server.count("POST") == 1
    at.merge(branch)
    assert at.rollback() == 0
    assert out(at)[1] == first(at)


def test_cases_and_licences_of_the_other_bundle_go_and_nothing_else(at: Proposing) -> None:
    """A file that only the config names may serve another deployment."""
    repository = at.made.repository
    repository.write("NOTICE", "a notice\n")
    repository.write("requirements.txt", "onnxruntime==1.32.0\n")
    repository.write("app.py", "print()\n")
    repository.replace("ci-parity.yml", '"current"', "{requires: requirements.txt}")
    repository.replace("ci-parity.yml", 'store: "file:store"', 'store: "file:./store"')
    repository.commit("a notice, a lock and a program")
    at.put_out()
    repository.write("app.py", "print(1)\n")
    repository.commit("a change that is no part of the bundle")
    at.push()
    assert at.rollback() == 0
    branch = "ci-parity-rollback/linear/default/5"
    changed = at.git("diff", "--name-status", "main", branch).split()
    assert changed == ["D", "NOTICE", "M", "ci-parity.yml"]
    assert "`release.store`: `file:store`, and `file:./store`" in at.body()


def test_a_repository_with_git_lfs_keeps_its_pointers(at: Proposing) -> None:
    """The branch has a pointer where the bundle has the model; it is the same one, and stays."""
    repository, model = at.made.repository, at.made.root / "model.onnx"
    sha256, size = sha256_bytes(model.read_bytes()), model.stat().st_size
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    blob = repository.git_with(pointer, "hash-object", "-w", "--stdin")
    repository.write(".gitattributes", "*.onnx filter=lfs diff=lfs merge=lfs -text\n")
    repository.git("add", ".gitattributes")
    repository.git("update-index", "--cacheinfo", f"100644,{blob},model.onnx")
    repository.git("commit", "--quiet", "--message", "large files")
    at.push()
    assert at.rollback() == 0
    assert at.git("diff", "--name-status", "main", BRANCH).split() == ["M", "LICENSE"]
    assert f"oid sha256:{sha256}" in at.show(BRANCH, "model.onnx")


def test_a_deployment_below_the_top_of_its_repository(at: Proposing, tmp_path: Path) -> None:
    """Its files come back in its folder, and no other is touched."""
    shutil.rmtree(at.made.root / ".git")
    top = empty_repository(tmp_path)
    top.write("LICENSE", "of the whole\n")
    top.git("add", "LICENSE", at.made.root.name)
    top.git("commit", "--quiet", "--message", "one repository for all")
    whole = replace(at, remote=tmp_path / "whole.git")
    top.git("init", "--quiet", "--bare", "--initial-branch=main", str(whole.remote))
    top.git("remote", "add", "origin", str(whole.remote))
    top.git("push", "--quiet", "origin", "main")
    at.server.remote = whole.tip
    assert whole.rollback() == 0
    changed = whole.git("diff", "--name-status", "main", BRANCH).split()
    assert changed == ["M", f"{at.made.root.name}/LICENSE"]
    whole.merge(BRANCH)
    assert whole.rollback() == 0
    assert out(whole) == (5, first(whole))


def test_56_a_branch_that_would_not_have_the_bundle_is_not_proposed(
    at: Proposing, capsys: Output
) -> None:
    """Its digest is computed from the tree; nothing is written for one that differs."""
    repository = at.made.repository
    kept = (at.made.root / "ci-parity.yml").read_text()
    repository.write("NOTICE", "would be part of it\n")
    repository.write("ci-parity.yml", "nonsense: true\n")
    repository.commit("a config that cannot be read")
    at.push()
    repository.write("ci-parity.yml", kept)
    before = seen(at)
    assert at.rollback() == 4
    assert "they differ in 'NOTICE'" in capsys.readouterr().err
    assert seen(at) == before


def test_what_somebody_pushed_to_the_branch_is_kept(at: Proposing, capsys: Output) -> None:
    """A commit with other content is not written over; one that keeps the files is fine."""
    assert at.rollback() == 0
    repository = at.made.repository
    repository.git("fetch", "--quiet", "origin")
    repository.git("checkout", "--quiet", "-b", "mine", f"origin/{BRANCH}")
    repository.write("LICENSE", "mine\n")
    repository.commit("by hand")
    repository.git("push", "--quiet", "origin", f"HEAD:{BRANCH}")
    repository.git("checkout", "--quiet", "main")
    before = seen(at)
    assert at.rollback() == 6
    assert "commits of others" in capsys.readouterr().err
    assert seen(at) == before
    assert at.show(BRANCH, "LICENSE") == "mine"


def hook(at: Proposing, name: str, script: str) -> None:
    """Install a hook on the remote."""
    path = at.remote / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_52_a_push_of_a_proposal_whose_answer_is_lost(at: Proposing) -> None:
    """The remote dies after it has moved the branch: that is found, and it goes on."""
    once = '[ "$1" = committed ] && [ ! -e died ] && touch died && kill -9 $PPID; exit 0'
    hook(at, "reference-transaction", once)
    assert at.rollback() == 0
    assert (at.remote / "died").exists()
    assert at.made.kinds() == PROPOSED
    assert len(at.titles()) == 1


def test_a_push_that_rules_forbid_is_said_and_run_again(at: Proposing, capsys: Output) -> None:
    """What is out is barred all the same; once the push may be, the rest follows."""
    hook(at, "pre-receive", "echo protected >&2; exit 1")
    assert at.rollback() == 6
    assert "did not take the branch" in capsys.readouterr().err
    assert at.made.kinds() == PROPOSED
    assert at.titles() == []
    (at.remote / "hooks" / "pre-receive").unlink()
    assert at.rollback() == 0
    assert at.made.kinds() == PROPOSED
    assert len(at.titles()) == 1


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(method="GET", path="/pulls", status=401, body="{}", times=9), 6),
        (Fault(method="POST", status=403, body='{"message": "not permitted to create"}'), 6),
        (Fault(method="POST", status=422, body='{"message": "Validation Failed"}'), 6),
        (Fault(method="POST", cut="connection", commit=True), 0),
    ],
    ids=["may not look", "may not open", "refused", "opened, and not said"],
)
def test_whatever_github_answers_it_is_run_again(
    at: Proposing, server: GitHubServer, fault: Fault, code: int
) -> None:
    """Who may not even look has written nothing; later ones find what is there."""
    before = seen(at)
    server.fail(replace(fault))
    assert at.rollback() == code
    if fault.method == "GET":
        assert seen(at) == before
    server.faults.clear()
    assert at.rollback() == 0
    assert at.made.kinds() == PROPOSED
    assert at.branches() == [BRANCH, "main"]
    assert len(at.titles()) == 1


def _doomed(words: list[str], root: str, step: int, environ: Mapping[str, str]) -> None:
    """Run a command, and die before its n-th change that others can see."""
    os.environ.update(environ)
    left = [step]

    def strike(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, flags = arguments[0], arguments[-1]
            below = isinstance(path, str) and path.startswith(root)
            counts = below and isinstance(flags, int) and bool(flags & os.O_APPEND)
        elif event == "subprocess.Popen":
            counts = "push" in list(arguments[1])  # type: ignore[call-overload]
        else:
            sent = arguments[-1] if event == "http.client.send" else b""
            counts = isinstance(sent, bytes) and sent.startswith((b"POST ", b"PATCH "))
        left[0] -= counts
        if counts and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(strike)
    raise SystemExit(run(words))


def test_51_a_proposal_killed_anywhere_is_run_again(
    tmp_path: Path, server: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the record, the push and the pull request: the rerun ends where one run would."""
    dead = []
    for step in range(1, 9):
        at = proposing(tmp_path / f"step{step}", server, monkeypatch)
        server.texts.clear()
        for key in [key for key in server.heads if key[1] > 7]:
            server.heads[key] = replace(server.heads[key], state="closed")
        words = ["rollback", "--root", str(at.made.root), "--reason", "why"]
        doomed = _FORKS.Process(
            target=_doomed, args=(words, str(at.made.root), step, dict(os.environ))
        )
        doomed.start()
        doomed.join()
        assert out(at)[0] == 3
        assert EntryKind.ROLLED_BACK not in {line.entry.kind for line in at.made.lines()}
        if doomed.exitcode == 0:
            break
        assert doomed.exitcode == -signal.SIGKILL
        dead.append((at.made.kinds()[4:], BRANCH in at.branches(), len(at.titles())))
        assert run(words) == 0
        assert at.made.kinds() == PROPOSED
        assert at.branches() == [BRANCH, "main"]
        assert len(at.titles()) == 1
    assert dead == [([], False, 0), (["revoked"], False, 0), (["revoked"], True, 0)]


def _run(words: list[str], environ: Mapping[str, str]) -> None:
    os.environ.update(environ)
    raise SystemExit(run(words))


def test_two_proposals_at_once_are_one(at: Proposing) -> None:
    """Both say that it is done; one record, one branch, one pull request."""
    words = ["rollback", "--root", str(at.made.root)]
    racing = [_FORKS.Process(target=_run, args=(words, dict(os.environ))) for _ in range(2)]
    for process in racing:
        process.start()
    for process in racing:
        process.join()
    assert [process.exitcode for process in racing] == [0, 0]
    assert at.made.kinds() == PROPOSED
    assert at.branches() == [BRANCH, "main"]
    assert len(at.titles()) == 1
