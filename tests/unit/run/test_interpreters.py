import json
import sys
from pathlib import Path

import pytest

from ci_parity.run import interpreters
from ci_parity.run.interpreters import Interpreter

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    "kept", ["", "{", "[]", "{}", '{"path": 1}', '{"path": "/absent/python", "tag": "3.10 x y"}']
)
def test_a_choice_that_leads_nowhere_is_ours(tmp_path: Path, kept: str) -> None:
    """A torn record, or one of a Python that was removed."""
    record = tmp_path / "choice.python"
    record.write_text(kept, encoding="utf-8")
    assert interpreters.chosen(record) == interpreters.ours()
    assert interpreters.ours().path == sys.executable
    assert interpreters.ours().tag.startswith(f"{HERE} {sys.platform} ")


def test_a_choice_is_kept(tmp_path: Path) -> None:
    """Every later run finds the same Python."""
    other = Interpreter(path=sys.executable, tag="3.10 linux x86_64")
    record = tmp_path / "locks" / "choice.python"
    interpreters.keep(record, other)
    assert interpreters.chosen(record) == other


def entry(version: str, path: str, **other: str) -> dict[str, object]:
    """Return what uv says of a Python."""
    major, minor = (int(part) for part in version.split("."))
    parts = {"major": major, "minor": minor, "patch": 1}
    return {
        "version_parts": parts, "path": path, "implementation": "cpython", "variant": "default",
        **other,
    }  # fmt: skip


def fake_uv(folder: Path, printed: str) -> tuple[str, ...]:
    """Return a program that prints what uv would."""
    script = folder / "uv.py"
    script.write_text(f"print({printed!r})", encoding="utf-8")
    return sys.executable, str(script), "--quiet"


def test_other_pythons_are_the_newest_first(tmp_path: Path) -> None:
    """One of each version, ours and what is too old or no CPython left out."""
    listed = [
        entry("3.99", "/a/python3.99"), entry("3.98", "/a/python3.98"),
        entry("3.98", "/b/python3.98"), entry("3.100", "/a/python3.100"),
        entry("3.97", "/a/pypy", implementation="pypy"),
        entry("3.96", "/a/free", variant="freethreaded"),
        entry("3.7", "/a/python3.7"), entry(HERE, "/a/python"),
    ]  # fmt: skip
    found = interpreters.others(fake_uv(tmp_path, json.dumps(listed)))
    assert [other.path for other in found] == ["/a/python3.100", "/a/python3.99", "/a/python3.98"]
    assert found[0].tag.startswith("3.100 ")


def test_the_pythons_with_wheels_are_read_from_the_words_of_uv() -> None:
    """Those of the package alone, without the odd build; another text tells of none."""
    words = (
        "hint: You require CPython 3.13 (`cp313`), but we only found wheels for `onnxruntime` "
        "(v1.12.1) with the following Python ABI tags: `cp37m`, `cp38`, `cp39`, `cp310`"
    )
    assert interpreters.with_wheels(words, "onnxruntime") == ("3.8", "3.9", "3.10")
    assert interpreters.with_wheels(words, "numpy") == ()
    assert interpreters.with_wheels("another text", "onnxruntime") == ()


@pytest.mark.parametrize("printed", ["", "no json", "{}", '[{"path": "x"}]', "[1]"])
def test_an_answer_that_is_none_is_no_python(tmp_path: Path, printed: str) -> None:
    """Another uv, or none that works: only our Python is left."""
    assert interpreters.others(fake_uv(tmp_path, printed)) == []
