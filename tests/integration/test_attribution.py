"""After several changes at once the one that carries the failure is named, on real runtimes.

Each mix joins a fault of the corpus, or a planted one, with changes that do nothing. The runtimes
are those that the corpus itself runs on.
"""

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.corpus.catalogue import Case, cases
from tests.integration.support.diff_command import Result, diff, lacks_wheels

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        platform.machine().lower() not in {"x86_64", "amd64"},
        reason="the corpus was observed on x86-64: kernels of other processors lack some faults",
    ),
]

CASES = {case.name: case for case in cases()}
Edit = Callable[[onnx.ModelProto], None]
OFF, ALL = "graph_optimization_level=disable_all", "graph_optimization_level=enable_all"
SWITCHED = ((OFF,), (ALL,))
HARMLESS = ((), ("enable_mem_pattern=false",))


def renamed(model: onnx.ModelProto) -> None:
    """Give every node another name: other bytes, the same meaning."""
    for number, node in enumerate(model.graph.node):
        node.name = f"again_{number}"


def scaled(index: int, factor: float) -> Edit:
    """Return the edit that multiplies a float initializer."""

    def edit(model: onnx.ModelProto) -> None:
        floats = [i for i in model.graph.initializer if i.data_type == TensorProto.FLOAT]
        values = numpy_helper.to_array(floats[index]) * np.float32(factor)
        floats[index].CopyFrom(numpy_helper.from_array(values, floats[index].name))

    return edit


def stamped(opset: int, ir_version: int) -> Edit:
    """Return the edit that asks for a newer operator set, and so for a newer runtime."""

    def edit(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = opset
        model.ir_version = ir_version

    return edit


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A corpus case with further changes; `runtimes` and `options` are baseline and candidate."""

    case: str
    conclusion: str
    causes: tuple[str, ...]
    edit: Edit | None = None
    runtimes: tuple[str, str] = ("", "")
    options: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()))
    untried: tuple[str, ...] = ()

    def __str__(self) -> str:
        axes = ["model"] * (self.edit is not None)
        axes += ["runtime"] * (len(set(self.versions)) > 1)
        axes += ["options"] * (self.options[0] != self.options[1])
        return f"{self.case}: {' + '.join(axes)}"

    @property
    def versions(self) -> tuple[str, ...]:
        """The onnxruntime of each side, those of the case where the mix names none."""
        case = CASES[self.case]
        pairs = zip(self.runtimes, (case.baseline.version, case.candidate.version), strict=True)
        return tuple(given or known for given, known in pairs)


RUNTIME, MODEL, OPTIONS = ("runtime",), ("model",), ("session options",)
MIXES = (
    # The runtime is at fault.
    Mix(case="avgpool19-ceil-include-pad", conclusion="all", causes=RUNTIME, edit=renamed),
    Mix(case="cast-f32-i32-bool", conclusion="all", causes=RUNTIME, options=HARMLESS),
    Mix(case="log-subnormal", conclusion="all", causes=RUNTIME, edit=renamed, options=HARMLESS),
    Mix(case="topk-nan-order", conclusion="all", causes=RUNTIME, edit=renamed),
    Mix(case="tree-shared-leaf-dag", conclusion="all", causes=RUNTIME, options=HARMLESS),
    Mix(case="tree-binary-single-id", conclusion="all", causes=RUNTIME, edit=renamed,
        options=HARMLESS),
    Mix(case="labelencoder-string-cse", conclusion="all", causes=RUNTIME, edit=renamed),
    Mix(case="prelu-nan", conclusion="all", causes=RUNTIME, options=HARMLESS),
    Mix(case="int-div-by-zero", conclusion="all", causes=RUNTIME, edit=renamed),
    # The session options are.
    Mix(case="layernorm-fusion-precision", conclusion="all", causes=OPTIONS,
        runtimes=("1.24.4", "1.26.0"), options=SWITCHED),
    Mix(case="pad-avgpool-fusion", conclusion="all", causes=OPTIONS, edit=renamed,
        options=SWITCHED),
    Mix(case="qdq-resize-linear", conclusion="all", causes=OPTIONS, edit=renamed,
        options=SWITCHED),
    Mix(case="cast-mul-one-invalid-graph", conclusion="all", causes=OPTIONS, edit=renamed,
        runtimes=("1.31.1", "1.32.0"), options=SWITCHED),
    Mix(case="qlinearconv-per-channel-output", conclusion="all", causes=OPTIONS, edit=renamed,
        options=SWITCHED),
    # The model is.
    Mix(case="ok-cnn-upgrade", conclusion="all", causes=MODEL, edit=scaled(0, 1.05)),
    Mix(case="ok-transformer-optimization", conclusion="all", causes=MODEL, edit=scaled(3, 1.3),
        runtimes=("1.31.1", "1.32.0"), options=SWITCHED),
    # Two of them are, each on its own or only together.
    Mix(case="layernorm-fusion-precision", conclusion="shares", causes=MODEL + OPTIONS,
        edit=scaled(2, 1.05), options=SWITCHED),
    Mix(case="pad-avgpool-fusion-upgrade", conclusion="together", causes=RUNTIME + OPTIONS,
        options=SWITCHED),
    Mix(case="pad-avgpool-fusion-upgrade", conclusion="together", causes=RUNTIME + OPTIONS,
        edit=renamed, options=SWITCHED),
    # The baseline's runtime cannot load the candidate's model.
    Mix(case="tree-shared-leaf-dag", conclusion="all", causes=RUNTIME, edit=stamped(22, 10),
        untried=MODEL),
)  # fmt: skip


def run_mix(mix: Mix, folder: Path) -> Result:
    """Run both sides of a mix, or skip it and say what is missing."""
    case: Case = CASES[mix.case]
    requirements = [f"onnxruntime=={version}" for version in mix.versions]
    for requirement in requirements:
        if missing := lacks_wheels(requirement):
            pytest.skip(missing)
    model, inputs = case.build(folder)
    models = [model, model]
    if mix.edit is not None:
        changed = onnx.load(model)
        mix.edit(changed)
        models[1] = folder / "candidate.onnx"
        onnx.save(changed, models[1])
    words = [*map(str, models), "--inputs", str(inputs)]
    sides = ("baseline", "candidate")
    for side, requirement, options in zip(sides, requirements, mix.options, strict=True):
        words += [f"--{side}-runtime", requirement]
        for option in ("intra_op_num_threads=1", *options):
            words += [f"--{side}-option", option]
    return diff(folder, *words)


def attributed(result: Result) -> Mapping[str, Any]:
    """Return the one cause of a result that failed."""
    assert result.code == 1
    (found,) = result.report["attributions"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("mix", MIXES, ids=str)
def test_the_change_that_carries_the_failure_is_named(mix: Mix, tmp_path: Path) -> None:
    """It, no other, and in words; what could not be tried alone is said."""
    found = attributed(run_mix(mix, tmp_path))
    assert (found["conclusion"], tuple(found["causes"])) == (mix.conclusion, mix.causes)
    swaps = {swap["axis"]: swap for swap in found["swaps"]}
    assert len(swaps) == len(str(mix).split(" + "))
    for axis in found["causes"]:
        assert axis in found["sentence"]
    if "runtime" in found["causes"]:
        assert f"onnxruntime {'→'.join(mix.versions)}" in found["sentence"]
    unknown = {axis for axis, swap in swaps.items() if swap["alone"] == "inconclusive"}
    assert unknown == set(mix.untried)
    for axis in unknown:
        assert "cannot load the model" in swaps[axis]["note"]
        assert f"{axis} could not be swapped alone" in found["sentence"]


def test_there_are_enough_mixes() -> None:
    """Twenty, of which some mix three axes, and every kind of conclusion that can be had."""
    assert len(MIXES) == 20
    assert sum(str(mix).count(" + ") == 2 for mix in MIXES) >= 4
    assert {mix.conclusion for mix in MIXES} == {"all", "shares", "together"}


def test_the_only_change_is_said_without_another_run(tmp_path: Path) -> None:
    """There is nothing to swap."""
    mix = Mix(case="prelu-nan", conclusion="only change", causes=RUNTIME)
    found = attributed(run_mix(mix, tmp_path))
    assert found["sentence"] == "runtime onnxruntime 1.27.0→1.26.0: the only change"
    assert found["cases"] == []
