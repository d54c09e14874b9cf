"""What a dependency bot changes in each lock format, read as what it is and nothing else."""

import re
from pathlib import Path

import pytest

from ci_parity.base.pins import PinChange, PinChangeKind, compare_pins, read_pins
from tests.unit.base.pins.samples import LOCKS, Edit, edited, project

FORMATS = list(LOCKS)


def changes(tmp_path: Path, file: str, before: str, after: str) -> tuple[PinChange, ...]:
    """Return the differences between two states of a lock."""
    sides = []
    for side, text in (("before", before), ("after", after)):
        root = tmp_path / side
        sides.append(read_pins(project(root, file, text), root))
    return compare_pins(*sides)


def words(found: tuple[PinChange, ...]) -> list[tuple[PinChangeKind, str, str, str, bool | None]]:
    """Return what a reviewer needs of each change."""
    return [(c.kind, c.name, c.was, c.now, c.direct) for c in found]


def without(text: str, name: str) -> str:
    """Return a lock without the block of one package."""
    patterns = (
        rf"{name}==[^#]*(?:    #[^\n]*\n)*",
        rf'\[\[packages?\]\]\nname = "{name}"\n(?:(?!\[\[package|\[metadata\]).*\n)*',
        rf'        "{name}": \{{\n(?:            .*\n)*        \}},\n',
        rf'    \{{ name = "{name}"[^\n]*\n',
        rf"    #   {name}\n",
    )
    shorter = text
    for pattern in patterns:
        shorter = re.sub(pattern, "", shorter)
    assert shorter != text
    return shorter


@pytest.mark.parametrize("file", FORMATS)
def test_a_regenerated_lock_is_no_change(tmp_path: Path, file: str) -> None:
    """Comments, key order of files and blank lines move; the pins do not."""
    text = LOCKS[file]
    again = "\n" + text if file == "Pipfile.lock" else f"\n# regenerated today\n{text}"
    assert changes(tmp_path, file, text, again) == ()


@pytest.mark.parametrize("file", FORMATS)
def test_only_a_hash_changed(tmp_path: Path, file: str) -> None:
    """A file that was replaced under the same version is said to be that."""
    text = LOCKS[file]
    (found,) = changes(tmp_path, file, text, edited(text, ("@o2@", "@o9@")))
    assert (found.kind, found.name, found.version) == (PinChangeKind.HASHES, "onnxscript", "0.7.0")
    assert found.was.startswith("2:")
    assert found.now.startswith("2:")
    assert found.was != found.now
    assert found.direct is True
    assert re.fullmatch(rf"{re.escape(file)}:\d+", found.where)


@pytest.mark.parametrize("file", FORMATS)
def test_a_transitive_package_moved(tmp_path: Path, file: str) -> None:
    """What another package pulls in is told from what somebody asked for."""
    text = LOCKS[file]
    after = edited(text, ("4.15.0", "4.16.0"), ("@y1@", "@y2@"))
    expected = (PinChangeKind.VERSION, "typing-extensions", "4.15.0", "4.16.0", False)
    assert words(changes(tmp_path, file, text, after)) == [expected]


@pytest.mark.parametrize("file", FORMATS)
def test_a_bump_takes_its_files_along(tmp_path: Path, file: str) -> None:
    """A new version has new hashes; that is one change."""
    text = LOCKS[file]
    after = edited(text, ("2.8.0", "2.9.0"), ("@t1@", "@t2@"))
    assert words(changes(tmp_path, file, text, after)) == [
        (PinChangeKind.VERSION, "torch", "2.8.0", "2.9.0", True)
    ]


@pytest.mark.parametrize("file", FORMATS)
def test_a_package_is_gone(tmp_path: Path, file: str) -> None:
    """What was removed is named with the version it had."""
    text = LOCKS[file]
    found = changes(tmp_path, file, text, without(text, "onnxscript"))
    assert (PinChangeKind.REMOVED, "onnxscript", "0.7.0", "", True) in words(found)
    assert {change.name for change in found} == {"onnxscript"}


@pytest.mark.parametrize("file", FORMATS)
def test_a_package_came(tmp_path: Path, file: str) -> None:
    """The same difference, read the other way."""
    text = LOCKS[file]
    found = changes(tmp_path, file, without(text, "onnxscript"), text)
    assert (PinChangeKind.ADDED, "onnxscript", "", "0.7.0", True) in words(found)


@pytest.mark.parametrize("file", FORMATS)
def test_a_marker_changed(tmp_path: Path, file: str) -> None:
    """The same version for other Pythons is a change of its marker alone."""
    text = LOCKS[file]
    edit: Edit = ("3.12'", "3.13'") if "3.12'" in text else ('3.12\\"', '3.13\\"')
    was, now = (f'python_full_version < "3.{minor}"' for minor in (12, 13))
    assert words(changes(tmp_path, file, text, edited(text, edit))) == [
        (PinChangeKind.MARKER, "typing-extensions", was, now, False)
    ]


@pytest.mark.parametrize("file", [name for name in FORMATS if name != "Pipfile.lock"])
def test_one_fork_moved(tmp_path: Path, file: str) -> None:
    """Of two pins under markers, the one that moved is found and the other left in peace."""
    text = LOCKS[file]
    found = changes(tmp_path, file, text, edited(text, ("2.3.0", "2.3.1"), ("@n2@", "@n3@")))
    assert words(found) == [(PinChangeKind.VERSION, "numpy", "2.3.0", "2.3.1", False)]


@pytest.mark.parametrize("file", [name for name in FORMATS if name != "requirements.txt"])
def test_another_index(tmp_path: Path, file: str) -> None:
    """The same versions from another index are changes of their source alone."""
    text = LOCKS[file]
    if file == "poetry.lock":
        index = '[package.source]\ntype = "legacy"\nurl = "https://a.example.invalid/"\n\n'
        text = re.sub(r"(?<=\n\n)(?=\[metadata\]|\[\[package\]\]\nname = \"[ot])", index, text)
    after = edited(text, ("https://", "https://user:secret@mirror."))
    found = changes(tmp_path, file, text, after)
    assert {change.kind for change in found} == {PinChangeKind.SOURCE}
    assert {change.name for change in found} >= {"numpy", "torch"}
    assert "secret" not in str(found)


def test_an_index_of_a_requirements_file(tmp_path: Path) -> None:
    """An option that changes where packages come from is a difference of its own."""
    text = LOCKS["requirements.txt"]
    after = f"--extra-index-url https://robot:secret@wheels.example.invalid/cu128\n{text}"
    (found,) = changes(tmp_path, "requirements.txt", text, after)
    assert (found.kind, found.name) == (PinChangeKind.SETTING, "--extra-index-url")
    assert (found.was, found.now) == ("", "https://wheels.example.invalid/cu128")


def test_a_commit_moved(tmp_path: Path) -> None:
    """A package from a repository has no new version, only another commit."""
    line = "onnxscript @ git+https://git.example.invalid/onnxscript.git@{}\n"
    sides = [line.format(commit * 40) for commit in "ab"]
    (found,) = changes(tmp_path, "requirements.txt", *sides)
    assert (found.kind, found.name) == (PinChangeKind.SOURCE, "onnxscript")
    assert found.was.endswith("a" * 40)
    assert found.now.endswith("b" * 40)


def test_another_lock_format_with_the_same_pins(tmp_path: Path) -> None:
    """A team that moves from one format to another changes no version and no hash."""
    roots = [tmp_path / file for file in ("pylock.toml", "uv.lock")]
    sides = [read_pins(project(root, root.name, LOCKS[root.name]), root) for root in roots]
    kinds = {change.kind for change in compare_pins(*sides)}
    assert kinds == set()
