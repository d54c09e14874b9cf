"""What holds for the package as a whole: what it imports and when, how large its parts are."""

import ast
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import ci_parity
from ci_parity.base.process import run
from ci_parity.github.actions import ActionInputs, read_inputs

PACKAGE = Path(ci_parity.__file__).parent
ROOT = PACKAGE.parent
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [path.relative_to(PACKAGE).as_posix() for path in MODULES]
HEAVY = (
    "numpy", "onnx", "onnxruntime", "requests", "rich", "jsonschema", "docker", "yaml", "cattrs",
    "ml_dtypes", "uv", "packaging",
)  # fmt: skip
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[Function]:
    """Yield every function and method of a module, inner ones too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """Return the lines of a function without its docstring and decorators."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def imports(path: Path) -> Iterator[str]:
    """Yield the full name of every module that a module imports, wherever it does."""
    yield from imports_of(parsed(path))


def imports_of(tree: ast.Module) -> Iterator[str]:
    """Yield the full name of every module that a syntax tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(path: Path) -> Iterator[str]:
    """Yield the dotted name of everything a module calls by name."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield ast.unparse(node.func)


# Start-up.


@pytest.mark.parametrize(
    "arguments",
    [None, ["--help"], ["--version"], ["check", "--help"], ["diff", "--help"], ["log", "--help"],
     ["fixtures", "import", "--help"], ["no-such-command"]],
    ids=str,
)  # fmt: skip
def test_the_command_line_starts_light(arguments: list[str] | None) -> None:
    """Neither importing it nor asking for help loads what only a run needs."""
    code = (
        "import sys; import ci_parity.cli\n"
        f"arguments = {arguments!r}\n"
        "if arguments is not None: ci_parity.cli.run(arguments)\n"
        f"print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = run([sys.executable, "-I", "-c", code], env={}, timeout_s=60, cwd=ROOT)
    assert done.stdout.decode().splitlines()[-1].strip() == "loaded:", done.stderr.decode()


# Size.


def test_no_module_is_long() -> None:
    """A reader keeps one in mind."""
    lines = {
        name: len(path.read_text(encoding="utf-8").splitlines())
        for name, path in zip(NAMES, MODULES, strict=True)
    }
    assert {name: count for name, count in lines.items() if count > MAX_MODULE_LINES} == {}


def test_no_function_is_long() -> None:
    """Parsers included, docstrings not counted."""
    lines = {
        f"{name}: {function.name}": length(function)
        for name, path in zip(NAMES, MODULES, strict=True)
        for function in functions(path)
    }
    assert {name: count for name, count in lines.items() if count > MAX_FUNCTION_LINES} == {}


# Doors.


def test_other_programs_are_started_through_one_door() -> None:
    """Argument lists, a chosen environment and a time limit are looked after there.

    The script of a reproduction runs elsewhere, without us.
    """
    starters = {"subprocess", "os.system", "os.popen", "os.exec", "pty", "multiprocessing"}
    found = {
        name
        for name, path in zip(NAMES, MODULES, strict=True)
        if starters & {*imports(path), *calls(path)}
    }
    assert found == {"base/process.py", "localise/handout/reproduce.py"}


def test_printing_is_done_at_the_edge() -> None:
    """Everything else returns text or logs; a library that prints breaks a report."""
    printers = {"print", "click.echo", "click.secho", "echo", "sys.stdout.write"}
    found = {name for name, path in zip(NAMES, MODULES, strict=True) if printers & set(calls(path))}
    assert found
    allowed = {"github/actions.py", "localise/handout/reproduce.py"}
    assert {name for name in found if not name.startswith("cli/")} <= allowed


WORKERS = sorted((PACKAGE / "run" / "workers").glob("*.py"))
HANDED_OUT = sorted((PACKAGE / "localise" / "handout").glob("*.py"))


@pytest.mark.parametrize("path", WORKERS + HANDED_OUT, ids=lambda path: path.stem)
def test_workers_run_on_old_interpreters(path: Path) -> None:
    """Their syntax is that of Python 3.8, which environments of old runtimes have."""
    assert ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def foreign(path: Path) -> set[str]:
    """Return what a module imports beside the standard library when it runs.

    What type checkers alone read is never imported.
    """
    tree = parsed(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    return {name.partition(".")[0] for name in imports_of(tree)} - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", WORKERS, ids=lambda path: path.stem)
def test_workers_import_nothing_of_ours(path: Path) -> None:
    """The standard library, NumPy, their runtime, and the files beside them that all share."""
    runtime = path.stem.removesuffix("_worker")
    shared = {"numpy", "wire", "no_network", "parent"}
    allowed = {*shared, runtime} | ({"ml_dtypes"} if runtime == "onnx" else set())
    assert foreign(path) <= allowed


@pytest.mark.parametrize("path", HANDED_OUT, ids=lambda path: path.stem)
def test_what_is_handed_out_imports_nothing_of_ours(path: Path) -> None:
    """The standard library, NumPy, one file the other, and one of them the runtimes."""
    runtimes = {"onnxruntime", "openvino", "tract", "onnx", "ml_dtypes"}
    allowed = {"numpy", "results", "runtimes"} | (runtimes if path.stem == "runtimes" else set())
    assert foreign(path) <= allowed


# The action.


def action() -> dict[str, Any]:
    """Return action.yml."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return loaded


def test_the_actions_inputs_are_those_that_are_read() -> None:
    """By name, each described."""
    inputs = action()["inputs"]
    assert set(inputs) == {field.name for field in dataclasses.fields(ActionInputs)}
    assert all(entry["description"].endswith(".") for entry in inputs.values())
    assert not any(entry["required"] for entry in inputs.values())


def test_the_actions_defaults_are_those_of_the_reader() -> None:
    """A workflow that says nothing gets the same from both; two are expressions of GitHub."""
    defaults = {name: entry["default"] for name, entry in action()["inputs"].items()}
    assert defaults.pop("github_token") == "${{ github.token }}"
    assert defaults.pop("job_container") == "${{ job.container.id }}"
    environ = {f"INPUT_{name.upper()}": value for name, value in defaults.items()}
    assert read_inputs(environ) == ActionInputs() == read_inputs({})


def keys_of(node: ast.AST) -> set[str]:
    """Return the constant keys of the mappings below a node, not of those inside them."""
    if isinstance(node, ast.Dict):
        return {ast.literal_eval(key) for key in node.keys if key}
    return {key for child in ast.iter_child_nodes(node) for key in keys_of(child)}


def written_outputs() -> set[str]:
    """Return the names of the outputs that the action's modules write, or return to be written."""
    keys: set[str] = set()
    for node in ast.walk(parsed(PACKAGE / "cli" / "action.py")):
        call = isinstance(node, ast.Call) and ast.unparse(node.func) == "_outputs"
        named = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
        if call or named == "_NO_VERDICT":
            keys |= keys_of(node)
    parts = ("action_fanout.py", "action_release.py")
    for node in (node for name in parts for node in ast.walk(parsed(PACKAGE / "cli" / name))):
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_outputs"):
            returned = [part for part in node.body if isinstance(part, ast.Return)]
            keys |= {key for part in returned for key in keys_of(part)}
    return keys


def test_the_actions_outputs_are_those_that_are_written() -> None:
    """By name, each described."""
    outputs = action()["outputs"]
    assert set(outputs) == written_outputs()
    assert all(entry["description"].endswith(".") for entry in outputs.values())
