from pathlib import Path

import pytest

from ci_parity.compare.decisions.labels import Labels, read_labels


def written(folder: Path, name: str, data: bytes) -> Labels:
    """Return what is read of a file."""
    (folder / name).write_bytes(data)
    return read_labels(folder / name)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.txt", b"cat\ndog\n", ("cat", "dog")),
        ("a.txt", b"cat\ndog", ("cat", "dog")),
        ("a.txt", b"cat\r\ndog\r\n", ("cat", "dog")),
        ("a.txt", b"cat\n\n \n", ("cat", "", " ")),
        ("a.txt", b"\xef\xbb\xbfcat\n", ("cat",)),
        ("a.txt", "größe\u2028x\n".encode(), ("größe\u2028x",)),
        ("a.txt", b"", ()),
        ("a.json", b'["cat", "dog"]', ("cat", "dog")),
        ("a.json", b'{"1": "dog", "0": "cat"}', ("cat", "dog")),
        ("a.json", b'{"dog": 1, "cat": 0}', ("cat", "dog")),
    ],
)
def test_names_are_read(tmp_path: Path, name: str, data: bytes, expected: tuple[str, ...]) -> None:
    """A line each, a list, or numbers with names in either direction."""
    found = written(tmp_path, name, data)
    assert (found.names, found.problem) == (expected, "")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.txt", b"\xff\xfe", "a.txt is no UTF-8"),
        ("a.json", b"{", "a.json cannot be read"),
        ("a.json", b'"cat"', "neither a list"),
        ("a.json", b"[1, 2]", "neither a list"),
        ("a.json", b'{"1": "dog"}', "neither a list"),
        ("a.json", b'{"cat": 0, "dog": 0}', "neither a list"),
        ("a.json", b'{"0": "cat", "0": "dog"}', "a.json cannot be read"),
    ],
)
def test_what_is_no_list_of_names_gives_none(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    """With the reason, which keeps a decision open."""
    found = written(tmp_path, name, data)
    assert found.names == ()
    assert said in found.problem
    assert found.problem_with(2) == found.problem


def test_files_that_are_none(tmp_path: Path) -> None:
    """Absent, or a folder."""
    assert "does not exist" in read_labels(tmp_path / "none.txt").problem
    assert "does not exist" in read_labels(tmp_path).problem


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    """Before it is decoded."""
    size = 8 * 1024 * 1024
    assert written(tmp_path, "a.txt", b"x" * size).problem == ""
    assert "larger" in written(tmp_path, "a.txt", b"\xff" * (size + 1)).problem


def test_the_number_of_names_is_checked(tmp_path: Path) -> None:
    """Against every number of classes they may stand for; names of the output's own need none."""
    found = written(tmp_path, "a.txt", b"cat\ndog\n")
    assert found.problem_with(2) == found.problem_with(1, 2) == ""
    assert found.problem_with(3, 4) == "a.txt names 2 classes, the output has 3 or 4"
    assert read_labels(None, ("cat",)) == Labels(names=("cat",))
    assert read_labels(None).problem_with(7) == ""
