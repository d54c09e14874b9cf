"""Proof of where each node ran, on real runtimes: assigned, profiled, refused, and asked for."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from onnx import TensorProto, helper

from ci_parity.base.process import worker_environment
from ci_parity.cli import run
from ci_parity.report.json_v1 import schema
from ci_parity.run.protocol import WorkerProcess
from ci_parity.run.runtime import prepare
from tests.integration.support.diff_command import Result, diff, environments
from tests.support.models import save
from tests.support.user_repository import UserRepository, linear_repository

pytestmark = pytest.mark.network

NEWEST, PROFILED = "onnxruntime==1.32.0", "onnxruntime==1.20.1"
OPENVINO, NATIVE = "onnxruntime-openvino==1.24.1", "openvino==2026.4.1"
WEBGPU, CUDA = "onnxruntime-webgpu==1.27.0", "onnxruntime-gpu==1.27.0"
CPU, OV = "CPUExecutionProvider", "OpenVINOExecutionProvider"
LIMIT_S = 120.0


def port(name: str) -> dict[str, tuple[int, list[str | int]]]:
    """Return the only input, or output, of a model."""
    return {name: (TensorProto.FLOAT, ["n", 3])}


def partly_taken(path: Path) -> Path:
    """Save y = 2 x + 0 * hardmax(-x), of float32[n, 3]; OpenVINO takes no Hardmax."""
    scale, none = (
        helper.make_tensor(name, TensorProto.FLOAT, [1], [value])
        for name, value in (("two", 2.0), ("none", 0.0))
    )
    nodes = [
        helper.make_node("Neg", ["x"], ["negative"], name="negate"),
        helper.make_node("Hardmax", ["negative"], ["one_hot"], name="pick"),
        helper.make_node("Mul", ["one_hot", "none"], ["nothing"], name="drop"),
        helper.make_node("Mul", ["x", "two"], ["double"], name="double"),
        helper.make_node("Add", ["double", "nothing"], ["y"], name="sum"),
    ]
    return save(path, nodes, port("x"), port("y"), [scale, none], opset=13)


def save_fusable(path: Path) -> Path:
    """Save y = 2 x by way of an Identity, which every optimization takes out."""
    two = helper.make_tensor("two", TensorProto.FLOAT, [3], [2.0] * 3)
    nodes = [
        helper.make_node("Identity", ["x"], ["same"], name="same"),
        helper.make_node("Mul", ["same", "two"], ["y"], name="double"),
    ]
    return save(path, nodes, port("x"), port("y"), [two], opset=13)


def not_taken(path: Path) -> Path:
    """Save a model of which OpenVINO takes nothing."""
    node = helper.make_node("Hardmax", ["x"], ["y"], name="pick")
    return save(path, [node], port("x"), port("y"), opset=13)


def asked(runtime: str, provider: str, model: Path) -> Mapping[str, Any]:
    """Return what the worker of a runtime says of where a model's nodes run."""
    folder = model.parent
    np.arange(6, dtype=np.float32).tofile(folder / "x.bin")
    record = {"name": "x", "kind": "tensor", "dtype": "float32", "shape": [2, 3], "file": "x.bin"}
    argv = prepare(runtime, cache=environments()).argv
    with WorkerProcess(argv, env=worker_environment(), cwd=folder) as worker:
        assert "placement" in worker.request("hello", timeout_s=LIMIT_S)["verbs"]
        return worker.request(
            "placement", timeout_s=LIMIT_S, model=str(model), provider=provider, inputs=[record],
            input_folder=str(folder), folder=str(folder),
        )  # fmt: skip


def counts(said: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return the nodes by provider and operator."""
    return {(one["provider"], one["op_type"]): one["count"] for one in said["operators"]}


@pytest.mark.parametrize(("runtime", "method"), [(NEWEST, "assignment"), (PROFILED, "profile")])
def test_onnxruntime_tells_of_every_node(runtime: str, method: str, tmp_path: Path) -> None:
    """By its own record, and before 1.24 by the profile of a run; neither leaves a file."""
    said = asked(runtime, CPU, partly_taken(tmp_path / "model.onnx"))
    operators = {"Neg": 1, "Hardmax": 1, "Mul": 2, "Add": 1}
    assert counts(said) == {(CPU, op): count for op, count in operators.items()}
    assert (said["method"], said["memcpy"]) == (method, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "x.bin"]


def test_nodes_that_openvino_does_not_take_are_listed(tmp_path: Path) -> None:
    """By operator and name, each on the provider that it was assigned to."""
    said = asked(OPENVINO, OV, partly_taken(tmp_path / "model.onnx"))
    assert counts(said)[CPU, "Hardmax"] == 1
    assert any(provider == OV for provider, _ in counts(said))
    names = [one["names"] for one in said["operators"] if one["op_type"] == "Hardmax"]
    assert names == [["pick"]]


def test_openvino_itself_runs_all_on_one_device(tmp_path: Path) -> None:
    """The operators of what it compiled, in its own words; of AUTO it says nothing."""
    said = asked(NATIVE, "CPU", partly_taken(tmp_path / "model.onnx"))
    assert (said["method"], said["memcpy"]) == ("device", 0)
    assert {provider for provider, _ in counts(said)} == {"CPU"}
    assert sum(counts(said).values()) >= 2
    with pytest.raises(Exception, match="AUTO does not say"):
        asked(NATIVE, "AUTO", tmp_path / "model.onnx")


# What a diff makes of it.


def on_provider(folder: Path, model: Path, runtime: str, provider: str) -> Result:
    """Compare a runtime on a provider with the newest on the CPU."""
    np.savez(folder / "x.npz", x=np.arange(6, dtype=np.float32).reshape(2, 3))
    sides = ("--baseline-runtime", NEWEST, "--candidate-runtime", runtime)
    words = (*sides, "--candidate-provider", provider, "--inputs", str(folder / "x.npz"))
    return diff(folder, str(model), *words, "--no-localise")


def test_a_report_lists_what_ran_elsewhere(tmp_path: Path) -> None:
    """Nothing fails where nothing is asked for; what the runtime fell back from is a warning."""
    result = on_provider(tmp_path, partly_taken(tmp_path / "model.onnx"), OPENVINO, OV)
    assert result.code == 0
    (placed,) = result.report["placements"]
    assert (placed["requested"], placed["providers"]) == (OV, [OV, CPU])
    assert (placed["method"], placed["memcpy"]) == ("assignment", 0)
    assert 0 < placed["nodes_requested"] < placed["nodes"]
    elsewhere = {one["op_type"] for one in placed["operators"] if one["provider"] == CPU}
    assert "Hardmax" in elsewhere
    assert {one["kind"] for one in placed["warnings"]} >= {"fallback"}
    (warned,) = [f for f in result.report["findings"] if f["id"] == "placement.fallback"]
    assert warned["advisory"]


def test_a_provider_that_ran_nothing_never_passes(tmp_path: Path) -> None:
    """It is there and in use, and the CPU did everything."""
    result = on_provider(tmp_path, not_taken(tmp_path / "model.onnx"), OPENVINO, OV)
    assert result.code == 1
    assert {f["id"] for f in result.failures} == {"placement.nothing"}
    assert "1 Hardmax ('pick') on CPUExecutionProvider" in result.failures[0]["evidence"]


def test_an_adapter_that_does_not_start_never_passes(tmp_path: Path) -> None:
    """WebGPU without a GPU: the words are the runtime's own."""
    model = partly_taken(tmp_path / "model.onnx")
    result = on_provider(tmp_path, model, WEBGPU, "WebGpuExecutionProvider")
    assert result.code == 1
    assert {f["id"] for f in result.failures} <= {"load.error", "provider.missing"}
    assert "ulkan" in result.failures[0]["evidence"]


def test_cuda_without_its_libraries_never_passes(tmp_path: Path) -> None:
    """The library that is missing is named; the CPU that stood in for it is no excuse."""
    model = partly_taken(tmp_path / "model.onnx")
    result = on_provider(tmp_path, model, CUDA, "CUDAExecutionProvider")
    assert result.code == 1
    assert {f["id"] for f in result.failures} <= {"load.error", "provider.missing"}
    assert re.search(r"lib(cu|nv)\w+\.so", result.failures[0]["evidence"])


def test_of_the_cpu_alone_the_graph_is_told(tmp_path: Path) -> None:
    """Where the nodes ran is trivial; what was made of them is not."""
    result = on_provider(tmp_path, partly_taken(tmp_path / "model.onnx"), PROFILED, CPU)
    (placed,) = result.report["placements"]
    assert (placed["method"], placed["operators"], placed["nodes"]) == ("cpu", [], None)
    ran = placed["executed"]
    assert (ran["nodes"], ran["kernels"], ran["why_not"]) == (5, 5, "")
    assert {one["takes"] for one in ran["operators"]} == {"float32"}


def test_what_a_provider_compiled_tells_no_types(tmp_path: Path) -> None:
    """The kernels beside it do."""
    result = on_provider(tmp_path, partly_taken(tmp_path / "model.onnx"), OPENVINO, OV)
    (placed,) = result.report["placements"]
    found = {one["op_type"]: one["takes"] for one in placed["executed"]["operators"]}
    assert found["(compiled)"] == ""
    assert found["Hardmax"] == "float32"


def halved(path: Path) -> Path:
    """Save y = elu(elu(x)) on float16, for which the CPU has no kernel."""
    nodes = [
        helper.make_node("Elu", [given], [name], name=name)
        for given, name in (("x", "a"), ("a", "y"))
    ]
    half: dict[str, tuple[int, list[str | int]]] = {"x": (TensorProto.FLOAT16, ["n", 3])}
    return save(path, nodes, half, {"y": half["x"]}, opset=13)


def test_the_precision_that_was_computed_in_is_not_that_of_the_file(tmp_path: Path) -> None:
    """A float16 model runs on the CPU as float32, between casts; unoptimized there are more."""
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3), np.float16))
    model = str(halved(tmp_path / "model.onnx"))
    plain = ("--candidate-option", "graph_optimization_level=disable_all")
    words = ("--baseline-runtime", NEWEST, "--inputs", str(tmp_path / "x.npz"), "--no-localise")
    result = diff(tmp_path, model, *words, *plain)
    (placed,) = result.report["placements"]
    ran = {(one["op_type"], one["takes"]): one["count"] for one in placed["executed"]["operators"]}
    assert ran["Elu", "float32"] == 2
    assert ran["Cast", "float32"] >= 1
    assert ("Elu", "float16") not in ran
    assert placed["executed"]["original"] == [{"op_type": "Elu", "count": 2}]


# What a check makes of it, by what its config asks for.


def target(placement: str) -> str:
    """Return the target of a config."""
    asked = f", placement: {placement}" if placement else ""
    return f'cpu: {{runtime: "{OPENVINO}", provider: {OV}{asked}}}'


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserRepository:
    """Return a repository whose model OpenVINO takes in part, on a branch off main."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(environments()))
    made = linear_repository(tmp_path / "user")
    partly_taken(made.root / "model.onnx")
    made.replace("ci-parity.yml", 'cpu: {runtime: "current"}', target(""))
    text = (made.root / "ci-parity.yml").read_text(encoding="utf-8")
    made.write("ci-parity.yml", text.partition("release:")[0])
    made.commit("on OpenVINO")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def checked(repository: UserRepository, *words: str) -> tuple[int, Mapping[str, Any]]:
    """Run a check; return its exit status and its report, which fits the published schema."""
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder), *words])
    report: Mapping[str, Any] = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("check-v1"))
    return code, report


def failures(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the evidence of every binding finding that failed."""
    found = report["findings"]
    failed = [f for f in found if f["outcome"] == "fail" and not f["advisory"]]
    return {finding["id"]: finding["evidence"] for finding in failed}


def test_a_check_asks_what_its_config_asks(repository: UserRepository) -> None:
    """A policy that comes later is judged by what was kept, without running anything again."""
    assert checked(repository, "--force")[0] == 0
    before = target("")
    for placement, wanted in (
        ("{cpu_allowed: [Neg, Hardmax, Mul, Add], min_share: 10%, max_memcpy: 0}", set()),
        ('{min_share: "95%"}', {"placement.share"}),
        ("{cpu_allowed: [Neg]}", {"placement.operators"}),
    ):
        repository.replace("ci-parity.yml", before, target(placement))
        repository.commit(placement)
        code, report = checked(repository)
        assert "judged again" in report["summary"]
        assert (code, set(failures(report))) == (int(bool(wanted)), wanted)
        before = target(placement)
    assert "Hardmax ('pick')" in failures(report)["placement.operators"]


def test_what_is_asked_cannot_be_loosened_in_silence(repository: UserRepository) -> None:
    """The baseline's limit counts as well."""
    repository.replace("ci-parity.yml", target(""), target('{min_share: "95%"}'))
    repository.commit("strict")
    repository.git("branch", "--force", "main", "HEAD")
    repository.replace("ci-parity.yml", "95%", "10%")
    repository.commit("loose")
    code, report = checked(repository)
    assert (code, set(failures(report))) == (1, {"placement.share"})
    warned = [f["evidence"] for f in report["findings"] if f["id"] == "policy.loosened"]
    assert any("placement.cpu.min_share: 95% → 10%, looser" in words for words in warned)


def test_a_change_of_what_runs_is_a_warning_or_fails(repository: UserRepository) -> None:
    """Another optimization makes other kernels of the same file; the types hold on both sides."""
    save_fusable(repository.root / "model.onnx")
    asked = "placement: {precision: [float32]}"
    before = f"cpu: {{{asked}}}"
    repository.replace("ci-parity.yml", target(""), before)
    repository.commit("a model to fuse")
    repository.git("branch", "--force", "main", "HEAD")
    plain = "session_options: {graph_optimization_level: disable_all}"
    after = f"cpu: {{{asked}, {plain}}}"
    repository.replace("ci-parity.yml", before, after)
    repository.commit("without optimizations")
    code, report = checked(repository)
    found = {one["id"]: one for one in report["findings"]}
    assert (code, failures(report)) == (0, {})
    assert found["placement.precision"]["outcome"] == "pass"
    assert found["placement.graph"]["advisory"]
    assert "Identity 0 → 1" in found["placement.graph"]["evidence"]
    strict = after.replace("[float32]", "[float16], changes: fail")
    repository.replace("ci-parity.yml", after, strict)
    repository.commit("changes fail")
    code, report = checked(repository)
    assert (code, set(failures(report))) == (1, {"placement.graph", "placement.precision"})
