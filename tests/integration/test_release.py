"""`ci-parity release` on real repositories, logs and stores: what goes out, and what does not."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.records.release import EntryKind
from ci_parity.release import acts
from tests.support.released import Releasing, releasing
from tests.unit.release.keys import private_pem

Output = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releasing:
    """Return a deployment of which nothing is validated."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    return releasing(tmp_path / "user")


def release(made: Releasing, *words: object) -> int:
    """Run `ci-parity release`."""
    return run(["release", "--root", str(made.root), *map(str, words)])


def test_a_validated_bundle_goes_out_kept_recorded_and_pointed_to(
    made: Releasing, tmp_path: Path, capsys: Output
) -> None:
    """In the store, by one line, under the channel's name; the store alone gives it back."""
    made.validate()
    assert release(made) == 0
    assert made.kinds() == ["validated", "released"]
    pointer = made.pointer()
    assert pointer is not None
    assert (pointer.seq, pointer.bundle, pointer.log) == (1, made.digest(), "linear")
    told = capsys.readouterr().out
    assert "files sent, 0 there already" in told
    assert "channel default is at record 1" in told
    out = tmp_path / "back.tar"
    assert run(["bundle", "build", "--root", str(made.root), "--out", str(out)]) == 0


def test_53_a_rerun_is_the_same_release(made: Releasing, capsys: Output) -> None:
    """One line, one set of objects, and nothing sent twice."""
    made.validate()
    for _ in range(3):
        assert release(made) == 0
    assert made.kinds() == ["validated", "released"]
    kept = [line for line in capsys.readouterr().out.splitlines() if line.startswith("kept in ")]
    assert "0 files sent" in kept[-1]


def test_50_an_unsigned_release_says_so(
    made: Releasing, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """And a signed one does not."""
    made.validate()
    assert release(made) == 0
    assert "unsigned: no key here signs the log's checkpoint" in capsys.readouterr().out
    monkeypatch.setenv("CI_PARITY_SIGNING_KEY", private_pem().decode())
    assert release(made) == 0
    assert "unsigned: no key" not in capsys.readouterr().out


def test_what_was_validated_again_is_not_released_again(made: Releasing) -> None:
    """A week later the same bundle is out already."""
    made.validate()
    assert release(made) == 0
    made.validate()
    assert release(made) == 0
    assert made.kinds() == ["validated", "released", "validated"]


@pytest.mark.parametrize("kind", [EntryKind.BLOCKED, EntryKind.INCONCLUSIVE])
def test_what_is_not_proven_is_refused(made: Releasing, kind: EntryKind, capsys: Output) -> None:
    """Nothing is kept, nothing recorded."""
    made.validate(kind)
    assert release(made) == 1
    assert "no validated record for exported on cpu" in capsys.readouterr().out
    assert made.kinds() == [kind.value]
    assert not (made.root / "store").exists()


def test_proof_of_another_channel_is_none(made: Releasing) -> None:
    """What holds for edge-test was not shown for this channel."""
    made.validate(channel="edge-test")
    assert release(made) == 1
    assert made.pointer() is None


def test_another_byte_is_another_bundle(made: Releasing, capsys: Output) -> None:
    """The proof is of what was validated, and of nothing that came after."""
    made.validate()
    made.repository.write("LICENSE", "edited\n")
    assert release(made) == 1
    assert "no validated record" in capsys.readouterr().out


def test_54_an_older_commit_that_ends_last_is_not_released_over_a_newer_one(
    made: Releasing, capsys: Output
) -> None:
    """Both are validated, the newer one is out: the older one's job is told so, and fails."""
    made.validate()
    older = made.repository.git("rev-parse", "HEAD")
    newer = made.next_state()
    made.validate()
    assert release(made) == 0
    made.repository.git("checkout", "--quiet", older)
    assert release(made) == 1
    assert "its commit does not descend from" in capsys.readouterr().out
    pointer = made.pointer()
    assert pointer is not None
    assert pointer.bundle == newer


def test_54_a_rerun_of_an_older_release_does_not_pass_for_what_is_out(
    made: Releasing, capsys: Output
) -> None:
    """Its line stands, and a newer one came after: whoever publishes next must not publish this."""
    made.validate()
    older = made.repository.git("rev-parse", "HEAD")
    assert release(made) == 0
    newer = made.next_state()
    made.validate()
    assert release(made) == 0
    made.repository.git("checkout", "--quiet", older)
    assert release(made) == 1
    assert "does not descend" in capsys.readouterr().out
    pointer = made.pointer()
    assert pointer is not None
    assert pointer.bundle == newer
    assert made.kinds().count("released") == 2


def test_ancestry_that_cannot_be_told_is_inconclusive(made: Releasing, tmp_path: Path) -> None:
    """A checkout of one commit knows nothing of the one released last."""
    made.validate()
    assert release(made) == 0
    made.next_state()
    made.validate()
    shallow = tmp_path / "shallow"
    made.repository.git("clone", "--quiet", "--depth=1", made.root.as_uri(), str(shallow))
    for name in ("release-log.jsonl", "store"):
        (made.root / name).rename(shallow / name)
    found = Releasing(repository=replace(made.repository, root=shallow))
    assert release(found) == 3
    assert found.kinds() == ["validated", "released", "validated"]


def test_40_a_target_taken_out_on_a_branch_is_still_required(
    made: Releasing, capsys: Output
) -> None:
    """The base branch says what must be proven; once it has it no more, it is not asked for."""
    edge = '  edge: {runtime: "current"}\n'
    made.repository.replace("ci-parity.yml", "targets:\n", f"targets:\n{edge}")
    made.repository.commit("two targets")
    made.repository.git("checkout", "--quiet", "-b", "change")
    made.repository.replace("ci-parity.yml", edge, "")
    made.repository.commit("one target less")
    made.validate()
    assert release(made) == 1
    assert "no validated record for exported on edge" in capsys.readouterr().out
    made.repository.git("branch", "--quiet", "--force", "main", "change")
    assert release(made) == 0


def test_a_revoked_bundle_stays_in(made: Releasing, capsys: Output) -> None:
    """Also where it is what is out: whoever asks is told, and nothing moves."""
    line = made.validate()
    assert release(made) == 0
    acts.revoke(made.log, line.entry.bundle, "wrong labels")
    assert release(made) == 1
    assert "revoked by record 2" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(made: Releasing, capsys: Output) -> None:
    """It says what would be, with the exit code of that."""
    assert release(made, "--dry-run") == 1
    made.validate()
    assert release(made, "--dry-run") == 0
    assert "it may be released, and nothing was written" in capsys.readouterr().out
    assert made.kinds() == ["validated"]
    assert not (made.root / "store").exists()


def test_an_archive_is_released_by_its_digest(made: Releasing, tmp_path: Path) -> None:
    """The digest is that of the job that validated; any other is refused before anything else."""
    made.validate()
    archive = tmp_path / "b.tar"
    assert run(["bundle", "build", "--root", str(made.root), "--out", str(archive)]) == 0
    assert release(made, archive, "--digest", f"sha256:{'0' * 64}") == 4
    assert made.kinds() == ["validated"]
    assert release(made, archive, "--digest", f"sha256:{made.digest()}") == 0
    assert made.kinds() == ["validated", "released"]


def test_a_bundle_of_another_deployment_is_refused(made: Releasing, tmp_path: Path) -> None:
    """It belongs to another stream."""
    archive = tmp_path / "b.tar"
    assert run(["bundle", "build", "--root", str(made.root), "--out", str(archive)]) == 0
    made.repository.replace("ci-parity.yml", "deployment: linear", "deployment: other")
    assert release(made, archive) == 2


def test_without_a_store_it_says_what_is_missing(made: Releasing, capsys: Output) -> None:
    """The line is written all the same; there are no bytes to go back to."""
    made.repository.replace("ci-parity.yml", ', store: "file:store"', "")
    made.validate()
    assert release(made) == 0
    assert "nothing to roll back to but what the log says" in capsys.readouterr().out
    assert made.kinds() == ["validated", "released"]
    assert run(["rollback", "--root", str(made.root)]) == 2
    assert "nothing to roll back to" in capsys.readouterr().err


def test_without_a_log_nothing_is_released(made: Releasing, capsys: Output) -> None:
    """Nothing says what was validated."""
    text = (made.root / "ci-parity.yml").read_text()
    made.repository.write("ci-parity.yml", re.sub(r"release: .*\n", "", text))
    assert release(made) == 2
    assert "there is no release log" in capsys.readouterr().err


def test_bytes_that_rotted_in_the_store_are_sent_again(made: Releasing) -> None:
    """A release reads back what it rests on."""
    made.validate()
    assert release(made) == 0
    kept = made.object_of("model.onnx")
    kept.chmod(0o644)
    kept.write_bytes(b"rotten" + kept.read_bytes()[6:])
    assert release(made) == 0
    assert kept.read_bytes() == (made.root / "model.onnx").read_bytes()
