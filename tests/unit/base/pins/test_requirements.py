"""Requirements files as pip reads them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import Pin, PinSet, read_pins
from ci_parity.base.pins.requirement_lines import logical_lines
from tests.unit.base.pins.samples import attempt, write


def pins_of(root: Path, text: str, file: str = "requirements.txt") -> PinSet:
    """Return the pins of a requirements file."""
    return read_pins(write(root, file, text), root)


def only(root: Path, text: str) -> Pin:
    """Return the one pin of a text."""
    (pin,) = pins_of(root, text).pins
    return pin


@pytest.mark.parametrize(
    ("line", "name", "version", "specifier"),
    [
        ("torch==2.8.0", "torch", "2.8.0", "==2.8.0"),
        ("Torch == 2.8.0  # pinned", "torch", "2.8.0", "==2.8.0"),
        ("torch===2.8.0", "torch", "2.8.0", "===2.8.0"),
        ("torch==2.8.0+cu128", "torch", "2.8.0+cu128", "==2.8.0+cu128"),
        ("ruamel_yaml.clib==0.2.12", "ruamel-yaml-clib", "0.2.12", "==0.2.12"),
        ("torch", "torch", "", ""),
        ("torch>=2,<3", "torch", "", "<3,>=2"),
        ("torch==2.8.*", "torch", "", "==2.8.*"),
        ("torch (>=2.0)", "torch", "", ">=2.0"),
        ("torch==2.08", "torch", "2.8", "==2.08"),
        ("torch==2.8.0\\\n", "torch", "2.8.0", "==2.8.0"),
        ("torch==2.\\\n8.0", "torch", "2.8.0", "==2.8.0"),
        ("torch==2.8.0 --config-settings x=y", "torch", "2.8.0", "==2.8.0"),
        ("\ufefftorch==2.8.0", "torch", "2.8.0", "==2.8.0"),
        ("torch==2.8.0\r\n", "torch", "2.8.0", "==2.8.0"),
    ],
)
def test_a_requirement(tmp_path: Path, line: str, name: str, version: str, specifier: str) -> None:
    """Names are normalised; only an exact version is a pin."""
    pin = only(tmp_path, line)
    assert (pin.name, pin.version, pin.specifier) == (name, version, specifier)
    assert pin.where == "requirements.txt:1"


def test_hashes_markers_and_extras(tmp_path: Path) -> None:
    """Continued lines are one requirement; its place is the first of them."""
    text = """
# leading comment
uvicorn[standard, http2]==0.30.1 ; sys_platform != 'win32' and python_version >= "3.9" \\
    --hash=sha256:bb \\
    --hash sha256:aa \\
    # via -r requirements.in
"""
    pin = only(tmp_path, text)
    assert pin.extras == ("http2", "standard")
    assert pin.marker == 'sys_platform != "win32" and python_version >= "3.9"'
    assert pin.hashes == ("sha256:aa", "sha256:bb")
    assert pin.direct is True
    assert pin.where == "requirements.txt:3"


@pytest.mark.parametrize(
    ("line", "name", "version", "source"),
    [
        ("torch @ https://files.example.invalid/torch-2.8.0-cp312-none-any.whl", "torch", "2.8.0",
         "https://files.example.invalid/torch-2.8.0-cp312-none-any.whl"),
        ("torch@https://u:p@files.example.invalid/torch-2.8.0.tar.gz", "torch", "2.8.0",
         "https://files.example.invalid/torch-2.8.0.tar.gz"),
        ("https://files.example.invalid/My_Pkg-1.0-py3-none-any.whl", "my-pkg", "1.0",
         "https://files.example.invalid/My_Pkg-1.0-py3-none-any.whl"),
        ("git+https://git.example.invalid/org/onnxscript.git@v0.7", "onnxscript", "",
         "git+https://git.example.invalid/org/onnxscript.git@v0.7"),
        ("git+ssh://git@git.example.invalid/x.git@feature/y#egg=Pkg&subdirectory=z", "pkg", "",
         "git+ssh://git.example.invalid/x.git@feature/y#egg=Pkg&subdirectory=z"),
        ("-e git+https://git.example.invalid/x.git@main#egg=pkg", "pkg", "",
         "editable+git+https://git.example.invalid/x.git@main#egg=pkg"),
        ("-e ./exporter", "exporter", "", "editable+./exporter"),
        ("--editable=exporter/", "exporter", "", "editable+exporter/"),
        ("-e .", ".", "", "editable+."),
        ("./wheels/torch-2.8.0-py3-none-any.whl ; python_version < '4'", "torch", "2.8.0",
         "./wheels/torch-2.8.0-py3-none-any.whl"),
        ("torch-2.8.0-py3-none-any.whl", "torch", "2.8.0", "torch-2.8.0-py3-none-any.whl"),
        ("pkg @ https://files.example.invalid/${TOKEN}/pkg-1.zip?sig=abc", "pkg", "1",
         "https://files.example.invalid/${TOKEN}/pkg-1.zip?sig=…"),
    ],
)  # fmt: skip
def test_a_location(tmp_path: Path, line: str, name: str, version: str, source: str) -> None:
    """URLs, repositories and folders keep their address, without credentials."""
    pin = only(tmp_path, line)
    assert (pin.name, pin.version, pin.source) == (name, version, source)


def test_options_are_settings(tmp_path: Path) -> None:
    """What changes where packages come from is kept; hashes and includes are not settings."""
    text = """
-i https://robot:secret@index.example.invalid/simple
--extra-index-url=https://wheels.example.invalid/cu128
--pre
--no-binary :all:
--require-hashes
--unknown-flag
torch==2.8.0 --config-settings="--build=fast"
"""
    assert pins_of(tmp_path, text).settings == (
        "--index-url https://index.example.invalid/simple",
        "--extra-index-url https://wheels.example.invalid/cu128",
        "--pre",
        "--no-binary :all:",
        "--require-hashes",
        "--unknown-flag",
        "--config-settings torch --build=fast",
    )


def test_annotations_tell_direct_from_transitive(tmp_path: Path) -> None:
    """pip-compile's and uv's comments, in one line and in several; elsewhere it stays open."""
    text = """
a==1
    # via -r requirements.in
b==1      # via a
c==1
    # via
    #   -c constraints.txt
    #   a
    #   b
d==1
    # via
    #   a
    #   exporter (pyproject.toml)
e==1
# via -r requirements.in
f==1
    # via exporter
"""
    roles = {pin.name: pin.direct for pin in pins_of(tmp_path, text).pins}
    assert roles == {"a": True, "b": False, "c": False, "d": True, "e": None, "f": True}


def test_includes_and_constraints(tmp_path: Path) -> None:
    """Included files count from their own folder; a constraint pins without asking."""
    write(tmp_path, "deps/base.txt", "-r more.txt\n-c limits.txt\nnumpy==2.3.0\n")
    write(tmp_path, "deps/more.txt", "\n\nonnx==1.19.0\n")
    write(tmp_path, "deps/limits.txt", "torch==2.8.0\n")
    found = pins_of(tmp_path, "-r deps/base.txt\n--requirement deps/more.txt\ntorch\n")
    assert [(pin.name, pin.version, pin.constraint, pin.where) for pin in found.pins] == [
        ("onnx", "1.19.0", False, "deps/more.txt:3"),
        ("torch", "2.8.0", True, "deps/limits.txt:1"),
        ("numpy", "2.3.0", False, "deps/base.txt:3"),
        ("torch", "", False, "requirements.txt:3"),
    ]
    resolved = found.resolve("torch")
    assert resolved is not None
    assert resolved.version == "2.8.0"


def test_a_relative_root_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository may be given from where the command stands; includes and names start there."""
    write(tmp_path, "deps/base.txt", "-r more.txt\n")
    write(tmp_path, "deps/more.txt", "onnx==1.19.0\n")
    monkeypatch.chdir(tmp_path / "deps")
    for path in (Path("deps/base.txt"), tmp_path / "deps" / "base.txt"):
        assert [pin.where for pin in read_pins(path, Path("..")).pins] == ["deps/more.txt:1"]


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("\ntorch==\n", "not a requirement", "requirements.txt:2"),
        ("torch==${VERSION}", "not a requirement", "requirements.txt:1"),
        ("torch 2.8", "not a requirement", "requirements.txt:1"),
        ("--hash=sha256:aa sha256:bb", "belongs to no option", "requirements.txt:1"),
        ("torch --config-settings='x", "options cannot be read", "requirements.txt:1"),
        ("-r https://example.invalid/r.txt", "not in the repository", "requirements.txt:1"),
        ("-r missing.txt", "no such file", "requirements.txt:1"),
        ("-r ../outside.txt", "leaves the repository", "requirements.txt:1"),
        ("-c /etc/hostname", "leaves the repository", "requirements.txt:1"),
        ("-r requirements.txt", "includes itself", "requirements.txt"),
        ("-r .", "no such file", "requirements.txt:1"),
        ("-r", "no such file", "requirements.txt:1"),
        ("-e", "neither a project nor a path", "requirements.txt:1"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, what: str, where: str) -> None:
    """With the line at fault; a variable is said not to be expanded."""
    root = tmp_path / "repository"
    write(tmp_path, "outside.txt", "torch==1\n")
    with pytest.raises(EvidenceError, match=what) as caught:
        pins_of(root, text)
    assert caught.value.where == where
    assert ("not expanded" in caught.value.remedy) == ("$" in text)


@pytest.mark.parametrize(
    "text",
    [
        "pkg x @ https://robot:secret@files.example.invalid/x.zip",
        "pkg @ https://robot:secret@[/x.zip extra words",
        "--pre https://robot:secret@index.example.invalid/simple",
        "-r https://robot:secret@files.example.invalid/r.txt",
    ],
)
def test_a_refusal_tells_no_secret(tmp_path: Path, text: str) -> None:
    """Its words end in a public log."""
    with pytest.raises(EvidenceError) as caught:
        pins_of(tmp_path, text)
    assert "secret" not in str(caught.value)


def test_a_circle_of_includes_is_refused(tmp_path: Path) -> None:
    """Over several files too."""
    write(tmp_path, "a.txt", "-r b.txt\n")
    write(tmp_path, "b.txt", "-r a.txt\n")
    with pytest.raises(EvidenceError, match="includes itself"):
        read_pins(Path("a.txt"), tmp_path)


def test_a_line_that_pip_installs_is_no_comment(tmp_path: Path) -> None:
    """Python ends lines where an editor shows none; what stands behind counts."""
    found = pins_of(tmp_path, "torch==2.8.0 # harmless\u2028evil==1.0\x0cother==2.0\n")
    assert list(found) == ["torch", "evil", "other"]


def test_a_hash_sign_in_a_url_is_no_comment(tmp_path: Path) -> None:
    """Only white space before it makes it one."""
    assert only(tmp_path, "https://example.invalid/x.zip#egg=pkg # note").name == "pkg"


NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
VERSIONS = st.from_regex(
    r"[1-9][0-9]?(\.[1-9][0-9]?){0,3}((a|b|rc)[1-9]|\.post[1-9])?", fullmatch=True
)


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, VERSIONS), max_size=8), st.sampled_from(["\n", "\r\n", " \\\n\n"]))
def test_names_and_versions_come_back(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[str, str]], end: str
) -> None:
    """What is written as NAME==VERSION is read as that, whatever ends its line."""
    root = tmp_path_factory.mktemp("repository")
    text = "".join(f"{name}=={version}{end}" for name, version in wanted)
    (root / "requirements.txt").write_text(text, encoding="utf-8", newline="")
    found = read_pins(Path("requirements.txt"), root)
    expected = {(name.lower().replace("_", "-").replace(".", "-"), v) for name, v in wanted}
    assert {(_folded(pin.name), pin.version) for pin in found.pins} == {
        (_folded(name), version) for name, version in expected
    }


def _folded(name: str) -> str:
    while "--" in name:
        name = name.replace("--", "-")
    return name


@settings(deadline=None)
@given(
    st.text(st.characters(codec="utf-8"), max_size=200)
    | st.text("-r ec=;#\\\"'@[]<>~!ab1.:/\n\t", max_size=80)
)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """No text crashes the reader."""
    root = tmp_path_factory.mktemp("repository")
    (root / "requirements.txt").write_text(text, encoding="utf-8", newline="")
    found = attempt(lambda: read_pins(Path("requirements.txt"), root))
    if isinstance(found, EvidenceError):
        assert found.where.startswith("requirements.txt")
    else:
        assert all(pin.name and pin.where for pin in found.pins)


@settings(deadline=None)
@given(st.text("a #\\\n\r\t'=", max_size=60))
def test_lines_keep_their_numbers(text: str) -> None:
    """Logical lines come in order, each begins at a line of the text, and none is empty."""
    lines = list(logical_lines(text))
    numbers = [line.number for line in lines]
    assert all(line.text for line in lines)
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= len(text.splitlines()) for number in numbers)
