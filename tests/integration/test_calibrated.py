"""The calibrated tolerance on real runtimes: harmless changes pass, small faults fail.

Published models for float32; a small network, made by hand, for what float16 and int8 cost.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.integration.support.coarse_nets import float_model, int8_model, net, pictures, save
from tests.integration.support.diff_command import Result, diff, lacks_wheels
from tests.integration.support.published_models import (
    PublishedModel,
    float_weights,
    perturbed,
    published_models,
)

pytestmark = pytest.mark.network

OLD = "onnxruntime==1.20.1"
NEW = "onnxruntime==1.32.0"
NAMES = ("magika", "silero-vad", "ppocr-cls")
HARMLESS = {
    "twelve releases": ["--baseline-runtime", OLD, "--candidate-runtime", NEW],
    "twelve releases back": ["--baseline-runtime", NEW, "--candidate-runtime", OLD],
    "optimization": [
        "--baseline-runtime", NEW, "--baseline-option", "graph_optimization_level=disable_all",
    ],
    "threads": [
        "--baseline-runtime", NEW, "--baseline-option", "intra_op_num_threads=1",
        "--candidate-option", "intra_op_num_threads=2",
    ],
}  # fmt: skip
NEEDS_OLD = pytest.mark.skipif(bool(lacks_wheels(OLD)), reason=lacks_wheels(OLD))
PAIRS = [
    pytest.param(name, marks=[NEEDS_OLD] if OLD in words else [])
    for name, words in HARMLESS.items()
]


@pytest.fixture(scope="module")
def models() -> Mapping[str, PublishedModel]:
    """Return the models by name, downloaded once."""
    return {model.name: model for model in published_models()}


def written(folder: Path, cases: tuple[Mapping[str, np.ndarray], ...]) -> list[str]:
    """Write cases as `.npz` files and return the words that hand them to a diff."""
    words = []
    for number, feeds in enumerate(cases):
        path = folder / f"case{number}.npz"
        np.savez(path, allow_pickle=False, **feeds)
        words += ["--inputs", str(path)]
    return words


def rules(result: Result) -> set[str]:
    """Return the first word of every float output's rule."""
    outputs = [o for o in result.report["outputs"] if o["dtype"].startswith("float")]
    assert outputs
    return {output["rule"].partition(":")[0] for output in outputs}


# float32.


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", NAMES)
def test_a_harmless_change_passes(
    name: str, pair: str, models: Mapping[str, PublishedModel], tmp_path: Path
) -> None:
    """Every output is judged by its own noise, of which it uses no more than the limit."""
    model = models[name]
    result = diff(tmp_path, str(model.path), *HARMLESS[pair], *written(tmp_path, model.cases))
    assert result.failures == []
    assert result.code == 0
    assert rules(result) == {"calibrated"}


def caught(model: PublishedModel, factor: float, folder: Path) -> list[bool]:
    """Return whether scaling a weight by `factor` fails, for six weights from first to last.

    Those that do not change a single bit of an output, as a bias of zeros, are left out.
    """
    weights = len(float_weights(onnx.load(model.path).graph))
    found = []
    for index in sorted({int(i) for i in np.linspace(0, weights - 1, 6)}):
        place = folder / str(index)
        place.mkdir()
        perturbed(model.path, place / "candidate.onnx", factor, index)
        words = [str(model.path), str(place / "candidate.onnx"), "--baseline-runtime", NEW]
        result = diff(place, *words, *written(place, model.cases))
        assert rules(result) == {"calibrated"}
        assert {finding["id"] for finding in result.failures} <= {"output.values"}
        if any(output["mismatched"] for output in result.report["outputs"]):
            found.append(result.code == 1)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_off_by_a_thousandth_fails(
    name: str, models: Mapping[str, PublishedModel], tmp_path: Path
) -> None:
    """Whichever of them it is."""
    found = caught(models[name], 1.001, tmp_path)
    assert all(found)
    assert len(found) >= 5


@pytest.mark.parametrize("name", NAMES)
def test_most_weights_off_by_a_ten_thousandth_fail(
    name: str, models: Mapping[str, PublishedModel], tmp_path: Path
) -> None:
    """Some of them do less than rounding does."""
    found = caught(models[name], 1.0001, tmp_path)
    assert sum(found) > len(found) / 2


# float16 and int8.


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return the small network by precision, and with faults."""
    folder = tmp_path_factory.mktemp("nets")
    good = net()
    wrong = replace(good, weights={**good.weights, "c3": good.weights["c3"] * np.float32(1.02)})
    made = {
        "float32": float_model(good), "float16": float_model(good, TensorProto.FLOAT16),
        "int8": int8_model(good), "float16 fault": float_model(wrong, TensorProto.FLOAT16),
        "int8 clipped": int8_model(good, clip=0.2), "int8 fault": int8_model(
            replace(good, weights={**good.weights, "c3": good.weights["c3"] * np.float32(1.2)})
        ),
    }  # fmt: skip
    return {name: save(model, folder / f"{name}.onnx") for name, model in made.items()}


def compared(folder: Path, *words: str | Path) -> Result:
    """Return a diff over the pictures."""
    inputs = written(folder, tuple({"x": x} for x in pictures()))
    return diff(folder, *(str(word) for word in words), *inputs)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_a_coarse_model_is_itself_on_another_runtime(
    precision: str, pair: str, nets: Mapping[str, Path], tmp_path: Path
) -> None:
    """Also where int8 kernels take the place of dequantized floats."""
    result = compared(tmp_path, nets[precision], *HARMLESS[pair])
    assert result.failures == []
    assert result.code == 0
    assert rules(result) == {"calibrated"}
    assert all(f"{precision}, " in output["rule"] for output in result.report["outputs"]
               if output["mismatched"])  # fmt: skip


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_a_conversion_passes(precision: str, nets: Mapping[str, Path], tmp_path: Path) -> None:
    """Against float32 at the precision it was converted to: its noise is what conversion costs."""
    result = compared(tmp_path, nets["float32"], nets[precision], "--baseline-runtime", NEW)
    assert result.failures == []
    assert result.code == 0
    assert all(
        output["rule"].endswith(f"{precision}, 8 seeds") for output in result.report["outputs"]
    )


@pytest.mark.parametrize("fault", ["float16 fault", "int8 clipped", "int8 fault"])
def test_a_conversion_that_went_wrong_fails(
    fault: str, nets: Mapping[str, Path], tmp_path: Path
) -> None:
    """A layer off by 2 % in float16, or 20 % in int8; a range that cuts off most of it."""
    result = compared(tmp_path, nets["float32"], nets[fault], "--baseline-runtime", NEW)
    assert result.code == 1
    assert {finding["id"] for finding in result.failures} == {"output.values"}


def test_noise_that_is_kept_judges_as_before(nets: Mapping[str, Path], tmp_path: Path) -> None:
    """The second diff measures nothing and says the same."""
    words = (nets["float32"], nets["float16"], "--baseline-runtime", NEW)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, again = (compared(tmp_path / name, *words) for name in ("a", "b"))
    numbers = [
        [(o["case"], o["limit"], o["required"], o["rule"]) for o in result.report["outputs"]]
        for result in (first, again)
    ]
    assert numbers[0] == numbers[1]
