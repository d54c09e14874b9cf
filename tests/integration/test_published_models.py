"""Published models on the default policy: a runtime upgrade passes, one weight off by 1 % fails.

Speech, text recognition and detection, file types: nothing here was made for this test, except the
faults. Tolerances are the ladder's; docs/tolerances.md has the margins on both sides.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.integration.support.diff_command import diff, lacks_wheels
from tests.integration.support.published_models import (
    PublishedModel,
    perturbed,
    published_models,
)

pytestmark = pytest.mark.network

OLD = "onnxruntime==1.20.1"
NEW = "onnxruntime==1.32.0"
NAMES = (
    "magika", "silero-vad", "silero-vad-half", "silero-vad-ifless", "silero-vad-sequence",
    "ppocr6-det", "ppocr6-rec", "ppocr-cls", "ppocr4-det", "ppocr4-rec", "nudenet",
)  # fmt: skip


@pytest.fixture(scope="module")
def models() -> Mapping[str, PublishedModel]:
    """Return the models by name, downloaded once."""
    return {model.name: model for model in published_models()}


def inputs_of(model: PublishedModel, folder: Path) -> list[str]:
    """Write the cases as `.npz` files and return the words that hand them to a diff."""
    words = []
    for number, feeds in enumerate(model.cases):
        path = folder / f"case{number}.npz"
        np.savez(path, allow_pickle=False, **feeds)
        words += ["--inputs", str(path)]
    return words


def test_every_published_model_is_tested(models: Mapping[str, PublishedModel]) -> None:
    """A model added to the support module needs its name here."""
    assert set(models) == set(NAMES)


@pytest.mark.skipif(bool(lacks_wheels(OLD)), reason=lacks_wheels(OLD))
@pytest.mark.parametrize("name", NAMES)
def test_a_runtime_upgrade_passes(
    name: str, models: Mapping[str, PublishedModel], tmp_path: Path
) -> None:
    """Twelve releases of onnxruntime later every case still passes."""
    model = models[name]
    runtimes = ["--baseline-runtime", OLD, "--candidate-runtime", NEW]
    result = diff(tmp_path, str(model.path), *runtimes, *inputs_of(model, tmp_path))
    assert result.failures == []
    assert result.code == 0
    assert result.report["inputs"] == {"source": "given", "count": len(model.cases)}
    compared = {output["case"] for output in result.report["outputs"]}
    assert compared == {f"case{number}" for number in range(len(model.cases))}


@pytest.mark.parametrize("name", NAMES)
def test_one_weight_off_by_one_per_cent_fails(
    name: str, models: Mapping[str, PublishedModel], tmp_path: Path
) -> None:
    """The fault is in values, and nothing else is said to have changed."""
    model = models[name]
    candidate = tmp_path / "perturbed.onnx"
    perturbed(model.path, candidate)
    words = [str(model.path), str(candidate), "--baseline-runtime", NEW]
    result = diff(tmp_path, *words, *inputs_of(model, tmp_path))
    assert result.code == 1
    assert {finding["id"] for finding in result.failures} == {"output.values"}


def test_a_published_conversion_fault_fails(
    models: Mapping[str, PublishedModel], tmp_path: Path
) -> None:
    """silero-vad 6.2.3 ships a version without `If` that differs at 8 kHz, and only there."""
    model = models["silero-vad"]
    rates = [int(feeds["sr"]) for feeds in model.cases]
    assert rates == [16000, 16000, 8000]
    words = [str(model.path), str(models["silero-vad-ifless"].path), "--baseline-runtime", NEW]
    result = diff(tmp_path, *words, *inputs_of(model, tmp_path))
    assert result.code == 1
    assert {finding["subject"]["case"] for finding in result.failures} == {"case2"}
