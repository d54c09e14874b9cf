"""What bumps bring: from the table, from wheel metadata, held against hosts and models."""

import json
from collections import defaultdict
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path

import onnxruntime
import pytest
from onnx import TensorProto, helper
from packaging.version import Version

from ci_parity.detect import releases
from ci_parity.detect.foresight import Foresight, ModelNeeds, foresee
from ci_parity.detect.host import host_facts, relevant
from ci_parity.detect.releases import release, wheel_metadata_facts
from ci_parity.records.facts import Facts
from tests.fakes.host_tree import HostTree
from tests.fakes.nvml import FakeGpu, FakeNvml, failing_nvml

GPU_126, GPU_127 = "onnxruntime-gpu==1.26.0", "onnxruntime-gpu==1.27.0"
# The headers of published wheels, in their own spellings of NVIDIA's requirements.
METADATA_126 = """\
Metadata-Version: 2.4
Name: onnxruntime-gpu
Version: 1.26.0
Requires-Python: >=3.11
Requires-Dist: flatbuffers
Requires-Dist: numpy>=1.21.6
Provides-Extra: cuda
Requires-Dist: nvidia-cuda-nvrtc-cu12~=12.0; extra == "cuda"
Requires-Dist: nvidia-cuda-runtime-cu12~=12.0; extra == "cuda"
Requires-Dist: nvidia-curand-cu12~=10.0; extra == "cuda"
Requires-Dist: nvidia-cudnn-cu12~=9.0; extra == "cudnn"

The text.
Requires-Python: >=9
"""
METADATA_131 = METADATA_126.replace("1.26.0", "1.31.1").replace("-cu12~=12.0", "~=13.0")
METADATA_131 = METADATA_131.replace("cudnn-cu12", "cudnn-cu13")
METADATA_118 = """\
Name: onnxruntime
Version: 1.18.1
Requires-Dist: numpy <2.0,>=1.21.6
Requires-Dist: packaging
"""


def gpu_host(tmp_path: Path, driver: str, nvml: FakeNvml | None = None) -> Facts:
    """Return the facts of a host with one NVIDIA GPU."""
    tree = HostTree(tmp_path / "root")
    tree.nvidia(driver)
    return host_facts(tree.sources(nvml or FakeNvml(driver=driver)))


def ids(found: tuple[Foresight, ...], *, blocking: bool | None = None) -> list[str]:
    """Return the ids, of the blocking or the other ones where asked."""
    return [item.id for item in found if blocking in (None, item.blocking)]


def test_the_flagship_bump_is_said_before_anything_runs(tmp_path: Path) -> None:
    """One digit in a lock moves CUDA and the driver floor, and this host is below it."""
    found = foresee(GPU_126, GPU_127, gpu_host(tmp_path, "550.54.15"), "3.11")
    assert ids(found) == ["runtime.cuda", "host.driver"]
    assert found[0].sentence == (
        "onnxruntime-gpu 1.26.0 → 1.27.0 moves CUDA 12.8 → 13.0 and the driver floor 525 → 580"
    )
    assert not found[0].blocking
    assert found[1].blocking
    assert "550.54.15, below the floor 580 of CUDA 13.0" in found[1].sentence
    assert found[1].remedy.startswith("upgrade the driver to 580 or newer")
    assert found[1].remedy.endswith("or stay at onnxruntime-gpu 1.26.0")
    assert all("(20" in item.evidence for item in found)


def test_a_host_above_the_floor_is_only_told(tmp_path: Path) -> None:
    """The move is said; nothing blocks it."""
    found = foresee(GPU_126, GPU_127, gpu_host(tmp_path, "580.65.06"), "3.11")
    assert ids(found) == ["runtime.cuda"]


def test_a_cpu_target_has_no_driver_to_upgrade(tmp_path: Path) -> None:
    """Facts that the target cannot feel are not held against it."""
    host = relevant(gpu_host(tmp_path, "550.54.15"), "CPUExecutionProvider")
    assert ids(foresee(GPU_126, GPU_127, host, "3.11"), blocking=True) == []


def test_a_compatibility_library_lifts_the_floor(tmp_path: Path) -> None:
    """An old driver with NVIDIA's newer libcuda in front of it can run the newer CUDA."""
    host = gpu_host(tmp_path, "550.54.15", FakeNvml(cuda=13000))
    found = foresee(GPU_126, GPU_127, host, "3.11")
    assert ids(found, blocking=True) == []
    assert "a library that speaks CUDA 13.0" in found[1].sentence


def test_a_host_whose_driver_was_not_read_is_said_to_be_unchecked(tmp_path: Path) -> None:
    """No driver on record is neither above nor below a floor."""
    host = host_facts(HostTree(tmp_path).sources(failing_nvml(9)))
    found = foresee(GPU_126, GPU_127, host, "3.11")
    assert ids(found) == ["runtime.cuda", "host.driver"]
    assert "unchecked" in found[1].sentence
    assert not found[1].blocking


def test_a_gpu_that_the_wheel_has_no_kernels_for_blocks(tmp_path: Path) -> None:
    """CUDA 13 left Volta behind."""
    volta = FakeGpu(product="Tesla V100-SXM2-16GB", capability=(7, 0))
    host = gpu_host(tmp_path, "580.65.06", FakeNvml(driver="580.65.06", gpus=[FakeGpu(), volta]))
    found = foresee(GPU_126, GPU_127, host, "3.11")
    assert ids(found, blocking=True) == ["host.compute"]
    assert found[-1].sentence.startswith("GPU 1 (Tesla V100-SXM2-16GB) has compute capability 7.0")


def test_without_a_baseline_only_what_blocks_is_said(tmp_path: Path) -> None:
    """A first run moves nothing, but its host may still be below the floor."""
    found = foresee("", GPU_127, gpu_host(tmp_path, "550.54.15"), "3.11")
    assert ids(found) == ["host.driver"]
    assert "stay at" not in found[0].remedy


@pytest.mark.parametrize(
    ("before", "after", "python", "expected", "blocking"),
    [
        ("onnxruntime==1.20.1", "onnxruntime==1.20.2", "3.11", [], []),
        ("onnxruntime==1.18.1", "onnxruntime==1.19.2", "3.11", ["runtime.numpy"], []),
        ("onnxruntime==1.20.1", "onnxruntime==1.21.1", "3.11", ["runtime.opset"], []),
        (
            "onnxruntime==1.23.2",
            "onnxruntime==1.24.4",
            "3.12.1",
            ["runtime.python", "runtime.opset"],
            [],
        ),
        (
            "onnxruntime==1.23.2",
            "onnxruntime==1.24.4",
            "3.10.14",
            ["host.python", "runtime.opset"],
            ["host.python"],
        ),
        ("onnxruntime==1.19.2", "onnxruntime==1.20.1", "3.9", ["host.python"], ["host.python"]),
        ("onnxruntime==1.24.1", "onnxruntime==1.23.2", "3.14", ["host.python"], ["host.python"]),
        (
            "onnxruntime-gpu==1.18.1",
            "onnxruntime-gpu==1.19.2",
            "3.11",
            ["runtime.cuda", "runtime.cudnn", "runtime.numpy"],
            [],
        ),
        ("onnxruntime==1.31.1", "onnxruntime-gpu==1.31.1", "3.11", [], []),
        ("onnxruntime==1.32.0", "onnxruntime==1.99.0", "3.11", ["runtime.unknown"], []),
        (
            "onnxruntime-openvino==1.22.0",
            "onnxruntime-openvino==1.23.0",
            "3.7",
            ["runtime.opset"],
            [],
        ),
    ],
)
def test_each_move_is_said(
    before: str, after: str, python: str, expected: list[str], blocking: list[str]
) -> None:
    """Python floor and ceiling, NumPy's ABI, opsets, CUDA; what is not known is not guessed."""
    found = foresee(before, after, {}, python)
    assert set(expected) <= set(ids(found))
    assert set(ids(found)) - set(expected) <= {"runtime.opset"}
    assert ids(found, blocking=True) == blocking


@pytest.mark.parametrize(
    "requirement", ["", "numpy==2.0", "onnxruntime>=1.20", "not a requirement!", "openvino==2025.1"]
)
def test_what_pins_no_onnxruntime_has_no_foresight(requirement: str) -> None:
    """A range or another package is not guessed at."""
    assert foresee("onnxruntime==1.20.1", requirement, {}, "3.11") == ()


def test_a_downgrade_says_that_newer_models_will_not_load() -> None:
    """The newest opset falls, with a remedy."""
    found = foresee("onnxruntime==1.32.0", "onnxruntime==1.31.1", {}, "3.11")
    assert ids(found) == ["runtime.opset"]
    assert found[0].sentence == (
        "onnxruntime 1.32.0 → 1.31.1 moves the newest opset 28 → 26, IR version 14 → 13; "
        "a model above it will not load"
    )
    assert found[0].remedy


@pytest.mark.parametrize(
    ("need", "expected", "blocking"),
    [
        (ModelNeeds(opset=21, ir_version=10), [], False),
        (ModelNeeds(opset=22, ir_version=10), ["model.opset"], True),
        (ModelNeeds(opset=21, ir_version=11), ["model.ir"], True),
        (ModelNeeds(opset=6, ir_version=3), ["model.opset"], False),
    ],
)
def test_models_are_held_against_the_candidate(
    need: ModelNeeds, expected: list[str], blocking: bool
) -> None:
    """A model above what the runtime loads cannot run; one below is not promised."""
    found = foresee("onnxruntime==1.20.0", "onnxruntime==1.20.1", {}, "3.11", models=(need, need))
    assert ids(found) == expected
    assert all(item.blocking is blocking for item in found)


def test_wheel_metadata_is_read() -> None:
    """Both spellings of NVIDIA's packages, the Python floor and NumPy's cap."""
    assert wheel_metadata_facts(METADATA_126) == {
        "name": "onnxruntime-gpu", "version": "1.26.0", "python_from": "3.11", "cuda": "12",
        "cudnn": "9",
    }  # fmt: skip
    assert wheel_metadata_facts(METADATA_131) == {
        "name": "onnxruntime-gpu", "version": "1.31.1", "python_from": "3.11", "cuda": "13",
        "cudnn": "9",
    }  # fmt: skip
    assert wheel_metadata_facts(METADATA_118)["numpy"] == "1"
    assert wheel_metadata_facts("Requires-Dist: ???\n") == {}


def test_metadata_fills_what_the_table_does_not_know() -> None:
    """A release newer than the table still has its CUDA major and Python floor."""
    text = METADATA_131.replace("1.31.1", "1.99.0").replace("13", "14").replace(">=3.11", ">=3.13")
    found = foresee(
        "onnxruntime-gpu==1.31.1", "onnxruntime-gpu==1.99.0", {}, "3.11",
        metadata=wheel_metadata_facts(text),
    )  # fmt: skip
    assert ids(found) == ["runtime.unknown", "runtime.cuda", "host.python"]
    assert "moves CUDA 13.0 → 14" in found[1].sentence
    assert "METADATA of the wheel" in found[1].evidence


@pytest.mark.parametrize(
    ("requirement", "text"), [(GPU_126, METADATA_126), ("onnxruntime-gpu==1.31.1", METADATA_131)]
)
def test_the_table_agrees_with_published_metadata(requirement: str, text: str) -> None:
    """Metadata of covered releases adds nothing; where it would differ, it wins."""
    assert release(requirement, wheel_metadata_facts(text)) == release(requirement, {})
    other = release(requirement, {**wheel_metadata_facts(text), "cuda": "99"})
    assert other is not None
    assert other.value("cuda") == "99"


def test_every_row_has_source_and_date_and_no_release_two_answers() -> None:
    """The table is evidence: complete, ordered, without contradiction."""
    table = json.loads(Path(releases.__file__).with_name("runtime_table.json").read_text())
    spans: dict[tuple[str, str], list[tuple[Version, Version]]] = defaultdict(list)
    for row in table["releases"]:
        assert row["source"]
        assert row["date"]
        span = Version(row["since"]), Version(row["through"])
        assert span[0] <= span[1]
        for package in row["packages"]:
            for key in row["facts"]:
                spans[package, key].append(span)
    for known in spans.values():
        for (_, end), (start, _) in pairwise(known):
            assert (end.major, end.minor + 1) == (start.major, start.minor)
    assert all(row["source"] and row["date"] for row in table["drivers"])


def one_node_model(path: Path, opset: int, ir_version: int) -> Path:
    """Save a Relu that states an opset and an IR version."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = ir_version
    path.write_bytes(model.SerializeToString())
    return path


def test_the_table_is_true_of_the_onnxruntime_installed_here(tmp_path: Path) -> None:
    """Its newest opset and IR version load and the next ones do not.

    Where this fails after a bump of onnxruntime, measure the new release and add a row.
    """
    version = distribution("onnxruntime").version
    known = release(f"onnxruntime=={version}", {})
    assert known is not None
    opset, ir = int(known.value("opset")), int(known.value("ir"))
    providers = ["CPUExecutionProvider"]
    accepted = one_node_model(tmp_path / "newest.onnx", opset, ir)
    assert onnxruntime.InferenceSession(accepted, providers=providers)
    for name, bad in (("opset", (opset + 1, ir)), ("ir", (opset, ir + 1))):
        refused = one_node_model(tmp_path / f"{name}.onnx", *bad)
        with pytest.raises(Exception, match=r"(?i)opset|IR version"):
            onnxruntime.InferenceSession(refused, providers=providers)
