"""Files that ask rather than lock: pyproject.toml and conda's environment.yml."""

from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import PinSet, read_pins
from tests.unit.base.pins.samples import write

PYPROJECT = """\
[project]
name = "exporter"
dependencies = [
    "torch>=2,<3",
    "onnxscript==0.7.0; python_version >= '3.10'",
]

[project.optional-dependencies]
GPU_all = ["onnxruntime-gpu>=1.27"]

[dependency-groups]
dev = ["pytest", { include-group = "lint" }]
lint = ["ruff==0.9.0"]
"""
POETRY = """\
[tool.poetry]
name = "exporter"

[tool.poetry.dependencies]
python = "^3.11"
torch = "^2.8"
PyYAML = "6.0"
numpy = [
    { version = "<2.1", python = "<3.12" },
    { version = ">=2.1", python = ">=3.12" },
]
onnxscript = { git = "https://robot:secret@git.example.invalid/onnxscript.git", tag = "v0.7" }
helper = { path = "../helper", develop = true }
onnx = { version = "*", extras = ["reference"], markers = "sys_platform == 'linux'", python = "*" }
old = { version = "~1.2", python = "~3.9" }
cuda = { version = "1.*", source = "wheels" }

[tool.poetry.group.dev.dependencies]
pytest = "8.3.0"

[tool.poetry.dev-dependencies]
mypy = "1.14"
"""
CONDA = """\
name: export
channels: [conda-forge, pytorch]
dependencies:
  - python=3.11
  - pytorch::pytorch==2.8.0
  - numpy=2.3.0=py311h1234
  - onnx >=1.17,<2
  - pip
  - pip:
      - onnxscript==0.7.0
      - -r more.txt
      - --extra-index-url https://wheels.example.invalid/cu128
"""


def read(root: Path, file: str, text: str) -> PinSet:
    """Write and read one file."""
    return read_pins(write(root, file, text), root)


def test_ranges_are_no_pins(tmp_path: Path) -> None:
    """What pyproject.toml asks for is a range, unless it says ==."""
    found = read(tmp_path, "pyproject.toml", PYPROJECT).pins
    assert [(pin.name, pin.version, pin.specifier, pin.marker, pin.where) for pin in found] == [
        ("torch", "", "<3,>=2", "", "pyproject.toml:4"),
        ("onnxscript", "0.7.0", "==0.7.0", 'python_version >= "3.10"', "pyproject.toml:5"),
        ("onnxruntime-gpu", "", ">=1.27", 'extra == "gpu-all"', "pyproject.toml:9"),
        ("pytest", "", "", '"dev" in dependency_groups', "pyproject.toml:12"),
        ("ruff", "0.9.0", "==0.9.0", '"lint" in dependency_groups', "pyproject.toml:13"),
    ]
    assert {pin.direct for pin in found} == {True}


def test_poetry_has_a_language_of_its_own(tmp_path: Path) -> None:
    """A caret is kept as written; a bare version is exact; Python's range becomes a marker."""
    found = {
        (pin.name, pin.specifier): (pin.version, pin.marker, pin.source, pin.where[-3:])
        for pin in read(tmp_path, "pyproject.toml", POETRY).pins
    }
    old, new = 'python_full_version < "3.12"', 'python_full_version >= "3.12"'
    assert found == {
        ("torch", "^2.8"): ("", "", "", "l:6"),
        ("pyyaml", "==6.0"): ("6.0", "", "", "l:7"),
        ("numpy", "<2.1"): ("", old, "", "l:8"),
        ("numpy", ">=2.1"): ("", new, "", "l:8"),
        ("onnxscript", ""): ("", "", "git+https://git.example.invalid/onnxscript.git#v0.7", ":12"),
        ("helper", ""): ("", "", "editable+../helper", ":13"),
        ("onnx", ""): ("", 'sys_platform == "linux"', "", ":14"),
        ("old", "~1.2"): ("", "python ~3.9", "", ":15"),
        ("cuda", "1.*"): ("", "", "registry+wheels", ":16"),
        ("pytest", "==8.3.0"): ("8.3.0", '"dev" in dependency_groups', "", ":19"),
        ("mypy", "==1.14"): ("1.14", '"dev" in dependency_groups', "", ":22"),
    }


def test_a_marker_that_cannot_be_evaluated_holds(tmp_path: Path) -> None:
    """A condition in another language does not make a pin disappear."""
    found = read(tmp_path, "pyproject.toml", POETRY).resolve("old")
    assert found is not None
    assert found.specifier == "~1.2"


def test_conda(tmp_path: Path) -> None:
    """The pip list is read as requirements; conda's own pins keep channel and build."""
    write(tmp_path, "more.txt", "ml-dtypes==0.5.0\n")
    pins = read(tmp_path, "environment.yml", CONDA)
    assert [(pin.name, pin.version, pin.specifier, pin.source, pin.where) for pin in pins.pins] == [
        ("python", "", "=3.11", "conda+", "environment.yml:4"),
        ("pytorch", "2.8.0", "==2.8.0", "conda+pytorch", "environment.yml:5"),
        ("numpy", "2.3.0", "==2.3.0", "conda+py311h1234", "environment.yml:6"),
        ("onnx", "", ">=1.17,<2", "conda+", "environment.yml:7"),
        ("pip", "", "", "conda+", "environment.yml:8"),
        ("onnxscript", "0.7.0", "==0.7.0", "", "environment.yml:10"),
        ("ml-dtypes", "0.5.0", "==0.5.0", "", "more.txt:1"),
    ]
    assert pins.settings == (
        "channel conda-forge",
        "channel pytorch",
        "--extra-index-url https://wheels.example.invalid/cu128",
    )


@pytest.mark.parametrize(
    ("file", "text", "what", "where"),
    [
        ("pyproject.toml", "[project]\ndependencies = 'torch'\n", "not a list", "pyproject.toml:1"),
        ("pyproject.toml", "[project]\ndependencies = ['to rch']\n", "not a requirement",
         "pyproject.toml:2"),
        ("pyproject.toml", "[project]\nx =\n", "malformed TOML", "pyproject.toml:2"),
        ("pyproject.toml", "[tool.poetry.dependencies]\n'a b' = '1'\n", "no name of a project",
         "pyproject.toml:1"),
        ("pyproject.toml", "[tool.poetry.dependencies]\na = 1\n", "not a table",
         "pyproject.toml:1"),
        ("environment.yml", "dependencies:\n  - 'git+https://x'\n", "not a conda package",
         "environment.yml:2"),
        ("environment.yml", "dependencies:\n  - pip:\n    - torch==\n", "not a requirement",
         "environment.yml:3"),
        ("environment.yml", "dependencies:\n  - a: [\n", "malformed YAML", "environment.yml:3"),
        ("environment.yml", "a: 1\na: 2\n", "duplicate key", "environment.yml:2"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, file: str, text: str, what: str, where: str
) -> None:
    """With the line at fault."""
    with pytest.raises(EvidenceError, match=what) as caught:
        read(tmp_path, file, text)
    assert caught.value.where == where
