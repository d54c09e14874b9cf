"""Files written to break their reader: refused with their place, in bounded time."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import PinSet, read_images, read_pins
from ci_parity.base.pins.text import MAX_BYTES
from tests.unit.base.pins.samples import LOCKS, attempt, filled

SIZE = 200_000
BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{level + 1}: &a{level + 1} [*a{level}, *a{level}]\n" for level in range(60)
)
HOSTILE = [
    ("uv.lock", "x = " + "[" * SIZE, "nested too deeply"),
    ("uv.lock", "version = 1\n" + "x = " + "{a = " * SIZE, "nested too deeply"),
    ("uv.lock", "a." * SIZE + "a = 1", "more than 100 parts"),
    ("uv.lock", 'version = 1\n"a"' + ' . "a"' * SIZE + " = 1", "more than 100 parts"),
    ("uv.lock", "x = " + "9" * SIZE, "malformed TOML"),
    ("uv.lock", "version = 1\n" + '[[package]]\nname = "a"\nversion = "1"\n' * 5000, "5000 times"),
    ("Pipfile.lock", '{"a":' * SIZE, "nested too deeply"),
    ("Pipfile.lock", '{"a": 1, "a": 2}', "duplicate key"),
    ("Pipfile.lock", '{"a": "\\ud800"}', "malformed JSON"),
    ("Pipfile.lock", '{\n"a": NaN}', "malformed JSON"),
    ("environment.yml", "[" * SIZE, "nested too deeply"),
    ("environment.yml", "- " * SIZE, "nested too deeply"),
    ("environment.yml", BOMB, "too many or too deeply nested"),
    ("environment.yml", "a: &a [*a]", "too many or too deeply nested"),
    ("environment.yml", 'a: "\\ud800"', "half a character"),
    ("environment.yml", "x" * 600_000, "larger than 512 KiB"),
    ("requirements.txt", "a" * (2 * 1024 * 1024), "more than 1 MiB"),
    ("requirements.txt", "a==" + "1." * SIZE, "over 10000 characters"),
    ("requirements.txt", "a==1; " + "(" * 5000, "not a requirement"),
    ("requirements.txt", "a==1\n" * 30_000, "more than 20000 requirements"),
    ("requirements.txt", "-r " + "x" * 5000, "cannot include"),
    ("requirements.txt", "-r " + "a/../" * 2000 + "b.txt", "no such file"),
]


@pytest.mark.parametrize(("file", "text", "what"), HOSTILE)
def test_a_hostile_text_is_refused_in_time(tmp_path: Path, file: str, text: str, what: str) -> None:
    """Neither the parser nor our own patterns take more than linear time."""
    (tmp_path / file).write_text(text, encoding="utf-8")
    start = time.perf_counter()
    with pytest.raises(EvidenceError, match=what) as caught:
        read_pins(Path(file), tmp_path)
    assert time.perf_counter() - start < 30
    assert caught.value.where.startswith(file)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("requirements.txt", " " * SIZE + "#"),
        ("requirements.txt", "\\\n" * SIZE),
        ("requirements.txt", "#" * SIZE),
        ("requirements.txt", "a @ https://x/" + "?" * 9000),
        ("requirements.txt", "a @ https://x/?" + "&a=b" * 2000),
        ("requirements.txt", "-e x" + "#egg=a" * 100_000),
        ("requirements.txt", "-e " + "a://x@" * 100_000),
        ("requirements.txt", "a==1 # via " + "x," * SIZE),
        ("pyproject.toml", "[tool.poetry.dependencies]\na = {python = '" + ">=3," * SIZE + "'}"),
        (
            "pylock.toml",
            "lock-version = '1.0'\n[[packages]]\nname = 'a'\nmarker = '" + "(" * SIZE + "'",
        ),
    ],
)
def test_a_wearisome_text_is_read_in_time(tmp_path: Path, file: str, text: str) -> None:
    """Odd, but within the format."""
    (tmp_path / file).write_text(text, encoding="utf-8")
    start = time.perf_counter()
    read_pins(Path(file), tmp_path)
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize(
    ("data", "what", "line"),
    [
        ("torch==2.8.0\n".encode("utf-16"), "UTF-16", ""),
        ("torch==2.8.0\n".encode("utf-16-le"), "not a text file", ":1"),
        ("torch==2.8.0\n".encode("utf-32"), "UTF-16 or UTF-32", ""),
        (b"a==1\nb==2\0\n", "not a text file", ":2"),
        (b"a==1\n\n# caf\xe9\n", "not UTF-8", ":3"),
    ],
)
def test_other_encodings_are_refused(tmp_path: Path, data: bytes, what: str, line: str) -> None:
    """With the line where the text stops being UTF-8."""
    (tmp_path / "requirements.txt").write_bytes(data)
    with pytest.raises(EvidenceError, match=what) as caught:
        read_pins(Path("requirements.txt"), tmp_path)
    assert caught.value.where == f"requirements.txt{line}"
    assert caught.value.remedy == "save it as UTF-8"


def test_an_oversized_file_is_refused(tmp_path: Path) -> None:
    """Before it is parsed."""
    (tmp_path / "requirements.txt").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(EvidenceError, match="larger than 20 MiB"):
        read_pins(Path("requirements.txt"), tmp_path)


def test_includes_do_not_multiply(tmp_path: Path) -> None:
    """Thirty files that include their successor twice are read once each."""
    for level in range(30):
        (tmp_path / f"r{level}.txt").write_text(f"-r r{level + 1}.txt\n" * 2 + f"p{level}==1\n")
    (tmp_path / "r30.txt").write_text("last==1\n")
    assert len(read_pins(Path("r0.txt"), tmp_path)) == 31


def test_an_endless_chain_of_includes_is_refused(tmp_path: Path) -> None:
    """Files that each include another one."""
    for level in range(300):
        (tmp_path / f"r{level}.txt").write_text(f"-r r{level + 1}.txt\n")
    with pytest.raises(EvidenceError, match=r"too many or too large"):
        read_pins(Path("r0.txt"), tmp_path)


@pytest.mark.parametrize("file", ["../outside.txt", "link.txt", "folder/outside.txt", "loop.txt"])
def test_nothing_outside_the_repository_is_read(tmp_path: Path, file: str) -> None:
    """Neither by a path nor through a link, be it to a file, to a folder or to itself."""
    root = tmp_path / "repository"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("secret==1\n")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "folder").symlink_to(tmp_path)
    (root / "loop.txt").symlink_to("loop.txt")
    for path in (Path(file), root / file):
        with pytest.raises(EvidenceError, match=r"leaves the repository|not a usable path|no such"):
            read_pins(path, root)


def test_a_link_inside_the_repository_is_followed(tmp_path: Path) -> None:
    """Messages name the link, as the config does."""
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "cpu.txt").write_text("torch==2.8.0\n")
    (tmp_path / "requirements.txt").symlink_to("locks/cpu.txt")
    (pin,) = read_pins(Path("requirements.txt"), tmp_path).pins
    assert pin.where == "requirements.txt:1"


def test_a_device_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe has no end."""
    os.mkfifo(tmp_path / "requirements.txt")
    with pytest.raises(EvidenceError, match="no such file"):
        read_pins(Path("requirements.txt"), tmp_path)


@settings(deadline=None)
@given(st.sampled_from(sorted(LOCKS)), st.data())
def test_a_torn_lock_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, file: str, data: st.DataObject
) -> None:
    """Bytes cut out, doubled or replaced never crash a reader."""
    text = filled(LOCKS[file])
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    middle = data.draw(
        st.sampled_from(["", text[start:end] * 2, "[", "{", '"', "\n[[package]]\n", "= 1"])
    )
    root = tmp_path_factory.mktemp("repository")
    (root / file).write_text(text[:start] + middle + text[end:], encoding="utf-8")
    found = attempt(lambda: read_pins(Path(file), root))
    assert isinstance(found, PinSet) or found.where.startswith(file)


@settings(deadline=None)
@given(st.text(st.sampled_from(list("FROMARG =$:{}@<-\\\n#a1/`\"'")), max_size=120))
def test_any_dockerfile_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """No text crashes the reader of images."""
    root = tmp_path_factory.mktemp("repository")
    (root / "Dockerfile").write_text(f"FROM base\n{text}", encoding="utf-8")
    found = attempt(lambda: read_images(Path("Dockerfile"), root))
    if isinstance(found, EvidenceError):
        assert found.where.startswith("Dockerfile")
    else:
        assert found[0].repository == "base"
