import sys
from pathlib import Path

import pytest

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import ConfigError, InfrastructureError
from ci_parity.run.command import argv_of, command_facts, label_of
from ci_parity.run.runtime import components_of, describe, prepare


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository with a program, a script and a file of tables."""
    folder = tmp_path / "repository"
    for name in ("bin/runner", "tools/run.py", "tables.bin"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    return folder


def test_files_of_the_repository_are_passed_whole(root: Path) -> None:
    """A worker starts elsewhere; words that are no files stay as they are."""
    words = ("bin/runner", "tables.bin", "--table=tables.bin", "tools", "absent.py", "-")
    whole = (str(root / "bin/runner"), str(root / "tables.bin"), *words[2:])
    assert argv_of(words, (root,)) == whole


def test_a_program_is_found_on_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its bare name alone, which then is no file of the repository."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    name = Path(sys.executable).name
    (root / name).write_text("not this one", encoding="utf-8")
    assert argv_of((name, "tools/run.py"), (root,)) == (
        str(Path(sys.executable)), str(root / "tools/run.py"),
    )  # fmt: skip


def test_files_outside_are_words(root: Path) -> None:
    """No argument leads out of the repository, neither by name nor by link."""
    (root.parent / "secret").write_text("s", encoding="utf-8")
    (root / "link").symlink_to(root.parent / "secret")
    words = ("bin/runner", "../secret", "link", "x" * 300, "\0")
    assert argv_of(words, (root,))[1:] == words[1:]
    assert set(command_facts(words, (root,))) == {"library.runner"}


def test_a_program_that_climbs_is_refused(root: Path) -> None:
    """A path of the config stays below its folder."""
    with pytest.raises(ConfigError, match="leaves the deployment's folder"):
        argv_of(("../repository/bin/runner",), (root,))


@pytest.mark.parametrize("word", ["bin/absent", "no-such-program-here"])
def test_a_missing_program_is_said(root: Path, word: str) -> None:
    """With the way out; what it would be is not known."""
    with pytest.raises(InfrastructureError) as caught:
        argv_of((word,), (root,))
    assert "PATH" in caught.value.remedy
    assert command_facts((word,), (root,)) == {}


def test_a_commands_facts_are_its_bytes(root: Path) -> None:
    """Of the program and of every file it is given; environment variables come on top."""
    words = ("bin/runner", "tools/run.py", "tables.bin", "-O")
    assert command_facts(words, (root,)) == {
        "library.runner": sha256_file(root / "bin/runner"),
        "library.tools/run.py": sha256_file(root / "tools/run.py"),
        "library.tables.bin": sha256_file(root / "tables.bin"),
    }
    facts = components_of('command:["bin/runner"]', root, (root,))
    assert facts["library.runner"] == sha256_file(root / "bin/runner")
    assert "environment.ORT_DISABLE_TELEMETRY" in facts


def test_a_program_behind_a_link_is_known_by_its_bytes(root: Path) -> None:
    """A link to another program is another program."""
    (root / "bin/other").symlink_to(root / "tables.bin")
    facts = command_facts(("bin/other",), (root,))
    assert facts == {"library.other": sha256_file(root / "tables.bin")}


def test_a_commit_precedes_the_checkout(root: Path, tmp_path: Path) -> None:
    """What a baseline's commit holds is taken from there, what was built from the checkout."""
    commit = tmp_path / "commit"
    (commit / "tools").mkdir(parents=True)
    (commit / "tools/run.py").write_text("older", encoding="utf-8")
    words = ("bin/runner", "tools/run.py")
    assert argv_of(words, (commit, root)) == (
        str(root / "bin/runner"), str(commit / "tools/run.py"),
    )  # fmt: skip


def test_a_launch_has_the_digest_of_its_files(root: Path) -> None:
    """Another script is another environment; the label is what a reader would type."""
    runtime = 'command:["bin/runner","tools/run.py","a b"]'
    first = prepare(runtime, cache=root, roots=(root,))
    (root / "tools/run.py").write_text("changed", encoding="utf-8")
    second = prepare(runtime, cache=root, roots=(root,))
    assert first.argv == second.argv
    assert first.environment != second.environment
    assert first.label == "bin/runner tools/run.py 'a b'"
    assert describe(runtime) == runtime


def test_a_long_label_is_shortened() -> None:
    """A comment has columns."""
    assert len(label_of(("runner", *("word",) * 100))) < 100
