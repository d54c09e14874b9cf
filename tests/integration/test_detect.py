"""Every axis alone, several at once, none, and baselines that cannot be read, on real histories."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest

from ci_parity.cli import run
from ci_parity.report.json_v1 import schema
from tests.support.models import scale_initializer
from tests.support.user_repository import UserRepository, linear_repository

CONFIG = """\
version: 1
deployment: linear
variants:
  exported:
    path: model.onnx
    converter: {requires: converter.lock, command: [python, tools/export.py, --out, model.onnx]}
  int8:
    path: int8/model.onnx
    from: exported
    optimization: quantize.yml
targets:
  cpu: {runtime: "onnxruntime==1.31.1"}
  gpu:
    runtime: onnxruntime-gpu==1.26.0
    provider: CUDAExecutionProvider
    variants: [int8]
    runs_on: [self-hosted, gpu]
fixtures: fixtures
"""

PINS = "torch==2.8.0 --hash=sha256:{0}\nonnxscript==0.7.0 --hash=sha256:{1}\n"


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a deployment with every axis in it on main, and a branch."""
    made = linear_repository(tmp_path / "user")
    made.write("ci-parity.yml", CONFIG)
    made.write("converter.lock", PINS.format("a" * 64, "b" * 64))
    made.write("tools/export.py", "from tools import graph\n\n\ndef main():\n    graph.build()\n")
    made.write("tools/graph.py", "def build():\n    return 1\n")
    made.write("tools/__init__.py", "")
    made.write("quantize.yml", "bits: 8\n")
    (made.root / "int8").mkdir()
    (made.root / "int8" / "model.onnx").write_bytes((made.root / "model.onnx").read_bytes())
    made.commit("every axis")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def changes(repository: UserRepository, *arguments: str) -> list[dict[str, Any]]:
    """Run `detect` and return its changes; the report fits its schema."""
    out = repository.root / "ci-parity-report" / "detect.json"
    out.parent.mkdir(exist_ok=True)
    argv = ["detect", "--root", str(repository.root), "--json", str(out), *arguments]
    assert run(argv) == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("detect-v1"))
    found: list[dict[str, Any]] = report["changes"]["changes"]
    return found


def plan(repository: UserRepository, *arguments: str) -> dict[str, Any]:
    """Run `plan` and return it; it fits its schema."""
    out = repository.root / "ci-parity-report" / "plan.json"
    out.parent.mkdir(exist_ok=True)
    argv = ["plan", "--root", str(repository.root), "--json", str(out), *arguments]
    assert run(argv) == 0
    report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("plan-v1"))
    return report


def weight(repository: UserRepository) -> None:
    """Change a weight."""
    scale_initializer(repository.root / "model.onnx", repository.root / "model.onnx", 1.01)


def metadata(repository: UserRepository) -> None:
    """Change a doc string of the quantized model."""
    path = repository.root / "int8" / "model.onnx"
    model = onnx.load(path)
    model.doc_string = "another"
    onnx.save(model, path)


def bump(repository: UserRepository) -> None:
    """Bump one target's runtime."""
    repository.replace("ci-parity.yml", "onnxruntime==1.31.1", "onnxruntime==1.32.0")


def option(repository: UserRepository) -> None:
    """Set a session option."""
    repository.replace(
        "ci-parity.yml",
        '"onnxruntime==1.31.1"}',
        '"onnxruntime==1.31.1", session_options: {intra_op_num_threads: 2}}',
    )


def recipe(repository: UserRepository) -> None:
    """Change the quantization recipe."""
    repository.write("quantize.yml", "bits: 4\n")


def pin(repository: UserRepository) -> None:
    """Bump a package of the converter."""
    repository.replace("converter.lock", "torch==2.8.0", "torch==2.9.0")


def pin_hash(repository: UserRepository) -> None:
    """Change only the hash of a pin."""
    repository.write("converter.lock", PINS.format("a" * 64, "c" * 64))


def comment(repository: UserRepository) -> None:
    """Add a comment to a module the export script imports."""
    repository.replace("tools/graph.py", "return 1", "return 1  # one")


def script(repository: UserRepository) -> None:
    """Change what that module does."""
    repository.replace("tools/graph.py", "return 1", "return 2")


def reference(repository: UserRepository) -> None:
    """Drop a stored reference."""
    (repository.root / "fixtures" / "one" / "output_0.pb").unlink()


def policy(repository: UserRepository) -> None:
    """Loosen the tolerance."""
    repository.write("ci-parity.yml", CONFIG + "policy: {tolerance: {rtol: 0.1}}\n")


def renamed(repository: UserRepository) -> None:
    """Rename a model file."""
    repository.git("mv", "int8/model.onnx", "int8/other.onnx")
    repository.replace("ci-parity.yml", "int8/model.onnx", "int8/other.onnx")


def unrelated(repository: UserRepository) -> None:
    """Change files that no model depends on."""
    repository.write("README.md", "words")
    repository.write("tools/serve.py", "print('hello')\n")


Where = set[tuple[str, str, str]]
EVERYWHERE = [("cpu", "exported"), ("cpu", "int8"), ("gpu", "int8")]


@pytest.mark.parametrize(
    ("edits", "expected", "sentence"),
    [
        ([], set(), ""),
        ([unrelated], set(), ""),
        ([renamed], set(), ""),
        ([weight], {("model", "cpu", "exported")}, "weights of 1 of 1 initializers changed"),
        ([metadata], {("model", "cpu", "int8"), ("model", "gpu", "int8")}, "only"),
        ([bump], {("runtime", "cpu", "exported"), ("runtime", "cpu", "int8")}, ""),
        ([option], {("optimization", "cpu", "exported"), ("optimization", "cpu", "int8")}, ""),
        ([recipe], {("optimization", "cpu", "int8"), ("optimization", "gpu", "int8")}, ""),
        ([pin], {("converter", "cpu", "exported")}, "torch 2.8.0 → 2.9.0"),
        ([pin_hash], {("converter", "cpu", "exported")}, "only the hash of onnxscript 0.7.0"),
        ([comment], {("converter", "cpu", "exported")}, "pins equal"),
        ([script], {("converter", "cpu", "exported")}, "tools/graph.py"),
        ([reference], {("fixtures", *pair) for pair in EVERYWHERE}, ""),
        ([policy], {("policy", *pair) for pair in EVERYWHERE}, ""),
        (
            [weight, bump, pin],
            {
                ("model", "cpu", "exported"),
                ("runtime", "cpu", "exported"),
                ("runtime", "cpu", "int8"),
                ("converter", "cpu", "exported"),
            },
            "torch 2.8.0 → 2.9.0",
        ),
    ],
    ids=lambda value: "+".join(e.__name__ for e in value) if isinstance(value, list) else "",
)
def test_each_axis_moves_alone(
    repository: UserRepository,
    edits: list[Callable[[UserRepository], None]],
    expected: Where,
    sentence: str,
) -> None:
    """An edit is seen on its own axis, on the pairs it concerns, and explained."""
    for edit in edits:
        edit(repository)
    repository.commit("change")
    found = changes(repository)
    assert {(c["axis"], c["target"], c["variant"]) for c in found} == expected
    if sentence:
        assert any(sentence in said for c in found for said in c["sentences"]), found


def test_only_what_is_concerned_is_planned(repository: UserRepository) -> None:
    """A bump of one target's runtime plans that target on its runner and skips the other."""
    repository.replace("ci-parity.yml", "onnxruntime-gpu==1.26.0", "onnxruntime-gpu==1.27.0")
    repository.commit("gpu")
    planned = plan(repository, "--shards", "2")
    assert planned["run"] is True
    assert [(leg["target"], leg["runs_on"], leg["shard"]) for leg in planned["include"]] == [
        ("gpu", ["self-hosted", "gpu"], 1),
        ("gpu", ["self-hosted", "gpu"], 2),
    ]
    assert planned["skipped"] == [
        {"target": "cpu", "variant": "exported"},
        {"target": "cpu", "variant": "int8"},
    ]


def test_nothing_to_plan(repository: UserRepository) -> None:
    """An unrelated change plans an empty matrix; force plans all of it."""
    unrelated(repository)
    repository.commit("words")
    assert plan(repository)["run"] is False
    assert plan(repository)["include"] == []
    assert len(plan(repository, "--force")["include"]) == 2
