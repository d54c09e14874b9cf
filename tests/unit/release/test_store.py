"""A log is opened by its name in the config, or the name is refused."""

from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.release.audit import audit_log
from ci_parity.release.branch_log import BranchLog
from ci_parity.release.file_log import FileLog
from ci_parity.release.store import open_log
from tests.unit.release.samples import ORIGIN, entry, log_of


@pytest.mark.parametrize("name", ["ci-parity-log", "logs/edge.v1", "v1.2", "a", "log#1", "x_y"])
def test_opens_a_branch(tmp_path: Path, name: str) -> None:
    """A branch is named after its prefix; nothing is asked of git yet."""
    log = open_log(f"branch:{name}", tmp_path)
    assert isinstance(log, BranchLog)
    assert log.label == f"branch {name} of origin"


@pytest.mark.parametrize(
    "name",
    ["", " ", "-f", "--force", "a..b", "a//b", "/a", "a/", ".a", "a/.b", "a.", "a.lock", "a b",
     "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a@{1}", "a\n", "ä", "x.lock/y"],
)  # fmt: skip
def test_refuses_what_git_or_a_shell_would_read_otherwise(tmp_path: Path, name: str) -> None:
    """A branch's name is plain, and never an option or an expression."""
    with pytest.raises(ConfigError):
        open_log(f"branch:{name}", tmp_path)


@pytest.mark.parametrize("spec", ["file:release-log.jsonl", "release-log.jsonl", "logs/../r.jsonl"])
def test_opens_a_file_below_the_root(tmp_path: Path, spec: str) -> None:
    """A path needs no prefix."""
    log = open_log(spec, tmp_path)
    assert isinstance(log, FileLog)
    assert log.label.startswith(f"file {tmp_path}")


def test_opens_an_absolute_path(tmp_path: Path) -> None:
    """Who writes an absolute path means to leave the root."""
    assert isinstance(open_log(f"file:{tmp_path}/log.jsonl", tmp_path / "root"), FileLog)


@pytest.mark.parametrize("spec", ["../log.jsonl", "file:../log.jsonl", "a/../../log.jsonl"])
def test_refuses_a_relative_path_that_leaves_the_root(tmp_path: Path, spec: str) -> None:
    """A config cannot reach outside its repository by accident."""
    with pytest.raises(ConfigError, match="leaves"):
        open_log(spec, tmp_path)


def test_refuses_a_link_that_leaves_the_root(tmp_path: Path) -> None:
    """Links are followed before the path is judged."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "logs").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="leaves"):
        open_log("logs/log.jsonl", root)


@pytest.mark.parametrize("spec", ["", "file:", " ", "file:a\nb", "a\x00b"])
def test_refuses_what_is_no_path(tmp_path: Path, spec: str) -> None:
    """Nothing, blanks and control characters name no file."""
    with pytest.raises(ConfigError, match="not a path"):
        open_log(spec, tmp_path)


def test_refuses_a_folder(tmp_path: Path) -> None:
    """A log is one file."""
    with pytest.raises(ConfigError, match="folder"):
        open_log(".", tmp_path)


@pytest.mark.parametrize("spec", ["gs://bucket/log", "https://x/log", "git:log", "Branch:log"])
def test_refuses_an_unknown_kind(tmp_path: Path, spec: str) -> None:
    """A store that does not exist is not taken for a file's name."""
    with pytest.raises(ConfigError, match="unknown kind"):
        open_log(spec, tmp_path)


def test_51_auditing_reports_the_torn_end_that_reading_passes_over(tmp_path: Path) -> None:
    """What `log verify` is for: every byte of the file."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_of(entry(0), entry(1)) + b'{"channel"')
    log = open_log("log.jsonl", tmp_path)
    assert len(log.read()) == 2
    with pytest.raises(EvidenceError, match="torn last line"):
        audit_log(log.snapshot(), where=log.label)


def test_an_origin_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    """A log copied from another repository is refused where the origin is pinned."""
    (tmp_path / "log.jsonl").write_bytes(log_of(entry(0)))
    assert len(open_log("log.jsonl", tmp_path, origin=ORIGIN).read()) == 1
    with pytest.raises(EvidenceError, match="belongs to the log"):
        open_log("log.jsonl", tmp_path, origin="git.example/acme/other").read()
