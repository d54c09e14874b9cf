"""Every axis alone, several at once, none, and baselines that cannot be read, on real histories."""

import json
import shutil
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
    optimization: {recipe: quantize.yml, requires: tools/quantize.lock}
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
    made.write("tools/quantize.lock", "onnxruntime==1.31.1\nonnxsim==0.4.36\n")
    (made.root / "int8").mkdir()
    (made.root / "int8" / "model.onnx").write_bytes((made.root / "model.onnx").read_bytes())
    made.commit("every axis")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def detected(repository: UserRepository, *arguments: str) -> dict[str, Any]:
    """Run `detect` and return its report; it fits its schema."""
    out = repository.root / "ci-parity-report" / "detect.json"
    out.parent.mkdir(exist_ok=True)
    argv = ["detect", "--root", str(repository.root), "--json", str(out), *arguments]
    assert run(argv) == 0
    report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("detect-v1"))
    return report


def changes(repository: UserRepository, *arguments: str) -> list[dict[str, Any]]:
    """Run `detect` and return its changes."""
    found: list[dict[str, Any]] = detected(repository, *arguments)["changes"]["changes"]
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


def tool(repository: UserRepository) -> None:
    """Bump the package that quantizes."""
    repository.replace("tools/quantize.lock", "onnxruntime==1.31.1", "onnxruntime==1.32.0")


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
        (
            [tool],
            {("optimization", "cpu", "int8"), ("optimization", "gpu", "int8")},
            "onnxruntime 1.31.1 → 1.32.0 (tools/quantize.lock)",
        ),
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


def no_git(repository: UserRepository) -> list[str]:
    """Take the history away."""
    shutil.rmtree(repository.root / ".git")
    return []


def no_default_branch(repository: UserRepository) -> list[str]:
    """Have no branch that others leave from."""
    repository.git("branch", "--delete", "--force", "main")
    return []


def gone(repository: UserRepository) -> list[str]:  # noqa: ARG001 - one of a table
    """Ask for a commit that a force-push took away."""
    return ["--base", "f" * 40]


def shallow(repository: UserRepository) -> list[str]:
    """Lack the base commit, with no remote to fetch it from."""
    base = repository.git("rev-parse", "main")
    repository.commit("second")
    (repository.root / ".git" / "shallow").write_text(repository.git("rev-parse", "HEAD") + "\n")
    repository.git("branch", "--delete", "--force", "main")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    return ["--base", base]


def adopted(repository: UserRepository) -> list[str]:
    """Have no deployment at the base commit."""
    repository.git("checkout", "--quiet", "main")
    repository.git("rm", "--quiet", "ci-parity.yml")
    repository.commit("before adoption")
    repository.git("checkout", "--quiet", "-B", "change")
    repository.write("ci-parity.yml", CONFIG)
    repository.commit("adopted")
    return []


def base_of(repository: UserRepository, name: str, text: str) -> list[str]:
    """Have another file at the base commit, and the right one after it."""
    content = (repository.root / name).read_bytes()
    repository.git("checkout", "--quiet", "main")
    repository.write(name, text)
    repository.commit("broken")
    repository.git("checkout", "--quiet", "-B", "change")
    (repository.root / name).write_bytes(content)
    repository.commit("mended")
    return []


def broken_config(repository: UserRepository) -> list[str]:
    """Have a config at the base commit that is none."""
    return base_of(repository, "ci-parity.yml", "version: 2\n")


def pointer(repository: UserRepository) -> list[str]:
    """Have a Git LFS pointer for a model at the base commit."""
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    return base_of(repository, "model.onnx", text)


def broken_lock(repository: UserRepository) -> list[str]:
    """Have a lock at the base commit that cannot be read."""
    return base_of(repository, "converter.lock", "-r converter.lock\n")


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (no_git, "not a git repository"),
        (no_default_branch, "no default branch"),
        (gone, "commit ffffffffffff is not usable"),
        (shallow, "is not usable"),
        (adopted, "no deployment at commit"),
        (broken_config, "no deployment at commit"),
        (pointer, "is not usable"),
        (broken_lock, "is not usable"),
    ],
)
def test_without_a_baseline_everything_runs(
    repository: UserRepository, trouble: Callable[[UserRepository], list[str]], reason: str
) -> None:
    """No difference is made up, every pair is planned, and the report says why."""
    report = detected(repository, *trouble(repository))
    source = report["changes"]["source"]
    assert source["kind"] == "none"
    assert reason in source["reason"]
    assert report["changes"]["changes"] == []
    assert len(report["changes"]["to_run"]) == len(EVERYWHERE)
