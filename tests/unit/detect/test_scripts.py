"""The files a converter runs: what its command names, and what that imports from the repository."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.detect import scripts
from ci_parity.detect.scripts import Script, find_scripts
from ci_parity.detect.syntax import code_digest, imported_names, parse

TREE = {
    "tools/__init__.py": "",
    "tools/export.py": "import torch\nfrom tools import _model\nfrom .layers.conv import Conv\n",
    "tools/_model.py": "if True:\n    import shapes\nelse:\n    import importlib\n",
    "tools/shapes.py": "import importlib\nimportlib.import_module('late')\n",
    "tools/layers/__init__.py": "from . import norm\n",
    "tools/layers/conv.py": "from ..helper import pad\nfrom ...beyond import x\n",
    "tools/layers/norm.py": "import tools.export\n",
    "tools/helper.py": "",
    "tools/unused.py": "",
    "src/late.py": "def f():\n    from exporter import *\n",
    "src/exporter/__init__.py": "",
    "src/exporter/unused.py": "",
    "torch_notes.txt": "",
}
FOLLOWED = [
    "src/exporter/__init__.py", "src/late.py", "tools/__init__.py", "tools/_model.py",
    "tools/export.py", "tools/helper.py", "tools/layers/__init__.py", "tools/layers/conv.py",
    "tools/layers/norm.py", "tools/shapes.py",
]  # fmt: skip


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write a repository."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def names(root: Path, *command: str) -> list[str]:
    """Return the paths a command leads to."""
    return [script.path for script in find_scripts(command, root)]


@pytest.mark.parametrize(
    "command",
    [
        ("python", "tools/export.py", "{out}"),
        ("python3", "-u", "./tools/../tools/export.py"),
        ("uv", "run", "--with", "torch", "tools/export.py"),
        ("env", "PYTHONPATH=tools:src", "python", "-m", "tools.export"),
        ("python", "--script=tools/export.py"),
        ("tools/export.py",),
    ],
)
def test_all_imports_from_the_repository_are_followed(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Packages on the way, relative, conditional, late and literal ones, in circles; no others."""
    assert names(tree(tmp_path, TREE), *command) == FOLLOWED


def test_a_relative_root_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository may be given from where the command stands."""
    monkeypatch.chdir(tree(tmp_path, TREE) / "src")
    assert [s.path for s in find_scripts(["python", "tools/export.py"], Path(".."))] == FOLLOWED


def test_a_module_is_searched_from_the_root(tmp_path: Path) -> None:
    """`-m` does not put the script's folder on Python's path."""
    root = tree(tmp_path, TREE | {"late.py": ""})
    found = names(root, "python", "-m", "tools.export")
    assert "tools/shapes.py" not in found
    assert names(tree(tmp_path, {"pkg/__init__.py": "", "pkg/__main__.py": "import late\n"}),
                 "python", "-m", "pkg") == [
        "late.py", "pkg/__init__.py", "pkg/__main__.py"
    ]  # fmt: skip


def test_inline_code_and_folders(tmp_path: Path) -> None:
    """`-c` imports as a script at the top would; a folder runs its __main__."""
    root = tree(tmp_path, {"a.py": "", "tool/__main__.py": "import b\n", "tool/b.py": ""})
    assert names(root, "python", "-c", "import a, json") == ["a.py"]
    assert names(root, "python", "-c", "import (") == []
    assert names(root, "python", "tool") == ["tool/__main__.py"]


def test_other_files_of_the_command_count_with_their_bytes(tmp_path: Path) -> None:
    """A shell script and a config are hashed, not parsed; what they start is not known."""
    root = tree(tmp_path, {"export.sh": "python tools/x.py", "export.yml": "opset: 17"})
    found = find_scripts(["bash", "export.sh", "--config=export.yml", "-v", "missing.yml"], root)
    assert [(script.path, script.code, script.problem) for script in found] == [
        ("export.sh", "", ""),
        ("export.yml", "", ""),
    ]


def test_programs_are_no_scripts(tmp_path: Path) -> None:
    """Neither an interpreter outside, nor one of a virtual environment inside the repository."""
    root = tree(
        tmp_path, {".venv/pyvenv.cfg": "", ".venv/bin/tool": "#!", "x.py": "", "python": ""}
    )
    (root / ".venv/bin/python").symlink_to("/bin/sh")
    for program in ("/bin/sh", ".venv/bin/python", ".venv/bin/tool", "python", "../python"):
        assert names(root, program, "x.py") == ["x.py"]


def test_a_checkpoint_is_no_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file among the arguments is data."""
    monkeypatch.setattr(scripts, "_MAX_BYTES", 10)
    root = tree(tmp_path, {"x.py": "", "model.pt": "w" * 11, "small.txt": "w"})
    assert names(root, "python", "x.py", "model.pt", "small.txt") == ["small.txt", "x.py"]


def test_a_script_that_does_not_parse_counts_with_its_bytes(tmp_path: Path) -> None:
    """Its imports are not known, and that is said; a missing script is absent."""
    root = tree(tmp_path, {"old.py": "import b\nprint 'x'\n", "b.py": ""})
    broken, gone = find_scripts(["python2", "old.py", "gone.py"], root)[::-1]
    assert (broken.path, broken.code, broken.problem[:7]) == ("old.py", "", "line 2:")
    assert gone == Script(path="gone.py", digest="", problem="no such file")


@pytest.mark.parametrize("link", ["export.py", "helper.py"])
def test_a_link_out_of_the_repository_is_refused(tmp_path: Path, link: str) -> None:
    """Whether the command names it or a script imports it."""
    root = tree(tmp_path / "repository", {"start.py": "import helper\n", "export.py": ""})
    outside = tree(tmp_path, {"outside.py": ""}) / "outside.py"
    (root / link).unlink(missing_ok=True)
    (root / link).symlink_to(outside)
    with pytest.raises(EvidenceError, match="leaves the repository") as caught:
        find_scripts(["python", "export.py", "start.py"], root)
    assert caught.value.where == link


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "../outside"], ["python", "-m", "/etc/passwd"], ["sh", "../outside.py"],
        ["python", "x\0.py"], ["python", "-m", ""], ["-m"], ["python", "y" * 5000],
        ["python", "PYTHONPATH=..:/:\0", "-m", "outside"], ["python", "-c", "\0"], [""],
        ["python", "-c", "from ....... import outside"],
    ],
)  # fmt: skip
def test_nothing_outside_is_read(tmp_path: Path, command: list[str]) -> None:
    """Whatever a command says."""
    tree(tmp_path, {"outside.py": ""})
    assert find_scripts(command, tree(tmp_path / "repository", {"x.txt": ""})) == ()


def test_code_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A converter that imports everything is not read at any cost."""
    monkeypatch.setattr(scripts, "_MAX_SCRIPTS", 3)
    chain = {f"m{number}.py": f"import m{number + 1}\n" for number in range(5)}
    with pytest.raises(EvidenceError, match="more code than can be read"):
        find_scripts(["python", "m0.py"], tree(tmp_path, chain))


CODE = """\
import torch


def export(path: str) -> None:
    torch.onnx.export(None, path, opset=17)
"""


@pytest.mark.parametrize(
    ("edit", "same"),
    [
        (("import torch\n", "# a comment\nimport torch  # another\n"), True),
        (("None, path", "\n        None,\n        path"), True),
        (("opset=17", "opset=0x11"), True),
        (("opset=17", "opset=18"), False),
        (("opset=17", "opset=17.0"), False),
        (("opset=17", "opset=True"), False),
        (("opset=17", "opset='17'"), False),
        (("str)", "int)"), False),
        (("import torch\n", '"""Docs."""\nimport torch\n'), False),
        (("import torch\n", '# /// script\n# dependencies = ["torch==2.8"]\n# ///\nimport torch\n'),
         False),
    ],
)  # fmt: skip
def test_comments_and_layout_are_no_code(edit: tuple[str, str], same: bool) -> None:
    """Inline script metadata are comments that choose what is installed: they are code."""
    digests = [code_digest(parse(t.encode()), t.encode()) for t in (CODE, CODE.replace(*edit))]
    assert (digests[0] == digests[1]) is same


@pytest.mark.parametrize(
    "source",
    [
        b"(" * 100_000, b"-" * 50_000 + b"1", b"a" + b".a" * 50_000, b"1+" * 50_000 + b"1",
        b"x = " + b"9" * 10_000, b"\xff", b"# coding: nonsense\n", b"a\0", b"lambda:" * 9_000,
    ],
)  # fmt: skip
def test_hostile_code_is_not_parsed(source: bytes) -> None:
    """The parser's limits are an answer, not a crash."""
    with pytest.raises(SyntaxError):
        parse(source)


def test_huge_numbers_and_odd_escapes_are_code() -> None:
    """Neither the limit on printing integers nor a warning of the parser stops the digest."""
    source = b"x = 0x" + b"f" * 10_000 + b"\ny = '\\d'\nz = 1j, 1e999, ..., b'', None\n"
    assert len(code_digest(parse(source), source)) == 64


@settings(deadline=None)
@given(st.text(max_size=80) | st.text("import from.as*()'\n ab:=", max_size=80))
def test_any_source_is_read_or_refused(text: str) -> None:
    """No source crashes what reads it, and none is run."""
    source = text.encode("utf-8", "surrogatepass")
    try:
        module = parse(source)
    except SyntaxError:
        return
    assert len(code_digest(module, source)) == 64
    assert all(name.level >= 0 for name in imported_names(module))
