"""What each lock format says beyond name, version and hash."""

from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import PinSet, read_pins
from tests.unit.base.pins.samples import LOCKS, edited, project, write


def read(root: Path, file: str, text: str) -> PinSet:
    """Write and read one file."""
    return read_pins(write(root, file, text), root)


def place(file: str, name: str = "torch") -> str:
    """Return where the package begins in a sample."""
    anchors = (f"\n{name}==", f'\n[[package]]\nname = "{name}"', f'\n[[packages]]\nname = "{name}"',
               f'\n        "{name}": {{')  # fmt: skip
    text = LOCKS[file]
    (start,) = (text.index(anchor) for anchor in anchors if anchor in text)
    return f"{file}:{text.count(chr(10), 0, start) + 2}"


@pytest.mark.parametrize("file", LOCKS)
@pytest.mark.parametrize("name", ["torch", "onnxscript", "typing-extensions"])
def test_a_pin_knows_its_line(tmp_path: Path, file: str, name: str) -> None:
    """The line where the package begins."""
    (pin,) = read_pins(project(tmp_path, file, LOCKS[file]), tmp_path)[name]
    assert pin.where == place(file, name)


@pytest.mark.parametrize("file", LOCKS)
def test_the_project_itself_is_no_pin(tmp_path: Path, file: str) -> None:
    """Its own version may move without anything else moving."""
    pins = read_pins(project(tmp_path, file, LOCKS[file]), tmp_path)
    assert "exporter" not in pins


@pytest.mark.parametrize("file", ["pylock.toml", "poetry.lock", "Pipfile.lock"])
@pytest.mark.parametrize("manifest", ["", "[[["])
def test_without_a_manifest_roles_stay_open(tmp_path: Path, file: str, manifest: str) -> None:
    """A lock that does not say who asked for what needs the manifest; a broken one is none."""
    if manifest:
        write(tmp_path, "pyproject.toml", manifest)
        write(tmp_path, "Pipfile", manifest)
    assert {pin.direct for pin in read(tmp_path, file, LOCKS[file]).pins} == {None}


def test_an_unfamiliar_name_is_read_by_its_content(tmp_path: Path) -> None:
    """A converter's lock may be called anything."""
    formats = {file: read(tmp_path, "converter.lock", text).format for file, text in LOCKS.items()}
    assert formats == {
        "requirements.txt": "requirements",
        "uv.lock": "uv.lock",
        "pylock.toml": "pylock",
        "poetry.lock": "poetry.lock",
        "Pipfile.lock": "Pipfile.lock",
    }


def test_sources_of_uv(tmp_path: Path) -> None:
    """Repositories, URLs and folders; members of a workspace ask for what they need."""
    text = """\
version = 1

[[package]]
name = "exporter"
version = "1.0"
source = { editable = "." }
dependencies = [{ name = "tool" }]

[[package]]
name = "helper"
source = { editable = "packages/helper" }
dependencies = [{ name = "direct-url" }]

[[package]]
name = "tool"
version = "0.4"
source = { git = "https://robot@git.example.invalid/tool.git?rev=main#5162632d" }

[[package]]
name = "direct-url"
version = "1.0"
source = { url = "https://files.example.invalid/direct_url-1.0-py3-none-any.whl" }
wheels = [{ filename = "direct_url-1.0-py3-none-any.whl", hash = "sha256:aa" }]
"""
    found = read(tmp_path, "uv.lock", text).pins
    assert [(pin.name, pin.version, pin.source, pin.direct) for pin in found] == [
        ("helper", "", "editable+packages/helper", False),
        ("tool", "0.4", "git+https://git.example.invalid/tool.git?rev=main#5162632d", True),
        (
            "direct-url",
            "1.0",
            "https://files.example.invalid/direct_url-1.0-py3-none-any.whl",
            True,
        ),
    ]


def test_sources_of_pylock(tmp_path: Path) -> None:
    """A commit, a folder, an archive."""
    text = """\
lock-version = "1.0"
created-by = "tool"

[[packages]]
name = "tool"
version = "0.4"
vcs = { type = "git", url = "https://git.example.invalid/tool.git", commit-id = "5162632d" }

[[packages]]
name = "helper"
directory = { path = "packages/helper", editable = true }

[[packages]]
name = "archived"
version = "1.0"
archive = { url = "https://files.example.invalid/a.zip", hashes = { sha256 = "aa", sha512 = "bb" } }
"""
    found = read(tmp_path, "pylock.export.toml", text)
    assert [(pin.name, pin.source, pin.hashes) for pin in found.pins] == [
        ("tool", "git+https://git.example.invalid/tool.git#5162632d", ()),
        ("helper", "editable+packages/helper", ()),
        ("archived", "https://files.example.invalid/a.zip", ("sha256:aa", "sha512:bb")),
    ]


def test_the_first_format_of_poetry(tmp_path: Path) -> None:
    """Hashes stand at the end, groups are categories, a source may be a repository."""
    text = """\
[[package]]
name = "PyYAML"
version = "6.0"
description = ""
category = "main"
optional = false
python-versions = ">=3.6"

[[package]]
name = "pytest"
version = "7.4.0"
category = "dev"
optional = false
python-versions = ">=3.7"

[package.source]
type = "git"
url = "https://git.example.invalid/pytest.git"
reference = "main"
resolved_reference = "5162632d"

[metadata]
lock-version = "1.1"
python-versions = "^3.8"
content-hash = "aa"

[metadata.files]
PyYAML = [
    {file = "PyYAML-6.0.tar.gz", hash = "sha256:bb"},
    {file = "PyYAML-6.0-cp311-linux_x86_64.whl", hash = "sha256:aa"},
]
pytest = []
"""
    yaml, pytest_pin = read(tmp_path, "poetry.lock", text).pins
    assert (yaml.name, yaml.hashes, yaml.marker) == ("pyyaml", ("sha256:aa", "sha256:bb"), "")
    assert pytest_pin.marker == '"dev" in dependency_groups'
    assert pytest_pin.source == "git+https://git.example.invalid/pytest.git#5162632d"


def test_poetry_markers_by_group(tmp_path: Path) -> None:
    """A package that two groups need under two conditions holds under either."""
    text = edited(
        LOCKS["poetry.lock"],
        ('groups = ["main"]\nmarkers = "python_full_version < \\"3.12\\""',
         'groups = ["main", "dev"]\nmarkers = {main = "sys_platform == \\"linux\\"", dev = ""}'),
    )  # fmt: skip
    (pin,) = read(tmp_path, "poetry.lock", text)["typing-extensions"]
    assert pin.marker == '"dev" in dependency_groups or sys_platform == "linux"'


def test_sections_of_pipenv(tmp_path: Path) -> None:
    """Sections are groups; a repository has a ref; a range is no pin."""
    text = """\
{
    "_meta": {"pipfile-spec": 6, "sources": []},
    "default": {
        "tool": {
            "git": "https://git.example.invalid/tool.git",
            "ref": "5162632d"
        },
        "local": {"editable": true, "path": "."},
        "any": {"version": "*"}
    },
    "develop": {
        "any": {"extras": ["x"], "version": "==1.0"}
    }
}
"""
    tool, local, any_version, developed = read(tmp_path, "Pipfile.lock", text).pins
    assert tool.source == "git+https://git.example.invalid/tool.git#5162632d"
    assert local.source == "editable+."
    assert any_version.wanted == "*"
    assert (developed.version, developed.extras) == ("1.0", ("x",))
    assert developed.marker == '"develop" in dependency_groups'
    places = [pin.where for pin in (tool, any_version, developed)]
    assert places == ["Pipfile.lock:4", "Pipfile.lock:9", "Pipfile.lock:12"]


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("uv.lock", "version = 2\n", "version of this uv.lock"),
        ("uv.lock", "", "version of this uv.lock"),
        ("pylock.toml", 'lock-version = "2.0"\n', "lock-version of this pylock"),
        ("poetry.lock", '[metadata]\nlock-version = "3.0"\n', "neither 1.x nor 2.x"),
        ("poetry.lock", "package = []\n", "neither 1.x nor 2.x"),
        ("Pipfile.lock", '{"_meta": {"pipfile-spec": 7}}', "pipfile-spec"),
        ("Pipfile.lock", "{}", "pipfile-spec"),
    ],
)
def test_another_version_of_a_format_is_refused(
    tmp_path: Path, file: str, text: str, what: str
) -> None:
    """What the format will mean tomorrow is not guessed today."""
    with pytest.raises(EvidenceError, match=what) as caught:
        read(tmp_path, file, text)
    assert caught.value.where == f"{file}:1"


@pytest.mark.parametrize(
    ("file", "edit", "what"),
    [
        ("uv.lock", ('name = "torch"\nversion', "version"), "'name' is missing"),
        ("uv.lock", ('name = "torch"\nversion', 'name = "../x"\nversion'), "no name of a project"),
        ("uv.lock", ('version = "2.8.0"', "version = 2"), "'version' is not a text"),
        ("uv.lock", ('wheels = [\n    { url = "https://files.example.invalid/torch',
                     'wheels = "x"\nold = [\n    { url = "https://files.example.invalid/torch'),
         "'wheels' is not a list"),
        ("pylock.toml", ('{ sha256 = "@t1@" }', '"@t1@"'), "'hashes' is not a table"),
        ("poetry.lock", ('version = "2.8.0"\n', ""), "'version' is missing"),
        ("poetry.lock", ('groups = ["main"]\nfiles = [\n    {file = "torch',
                         'groups = [1]\nfiles = [\n    {file = "torch'), "not a list of texts"),
        ("Pipfile.lock", ('"torch": {', '"to rch": {'), "no name of a project"),
        ("Pipfile.lock", ('"version": "==2.8.0"', '"version": 2'), "not a text"),
    ],
)  # fmt: skip
def test_an_entry_of_another_shape_is_refused(
    tmp_path: Path, file: str, edit: tuple[str, str], what: str
) -> None:
    """With the line of the package at fault."""
    with pytest.raises(EvidenceError, match=what) as caught:
        read(tmp_path, file, edited(LOCKS[file], edit))
    assert caught.value.where == place(file)
