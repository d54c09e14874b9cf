"""A fault of one node planted in a published model is named by the search."""

import random
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.integration.support.diff_command import diff
from tests.integration.support.published_models import published_models
from tests.support.planted_faults import named, plant

pytestmark = pytest.mark.network

# Most faults of these models move no output beyond its limit: they do not fail.
MOST_TRIES = 25
WANTED = 2


@pytest.mark.parametrize("name", ["magika", "silero-vad", "ppocr-cls"])
def test_the_node_with_the_fault_is_named(name: str, tmp_path: Path) -> None:
    """Also inside a branch, by where it stands in the model."""
    model = next(model for model in published_models() if model.name == name)
    good, bad, inputs = (tmp_path / file for file in ("good.onnx", "bad.onnx", "inputs.npz"))
    whole = named(onnx.load(model.path))
    onnx.save(whole, good)
    np.savez(inputs, **model.cases[0])  # type: ignore[arg-type]
    draws, found = random.Random(7), 0  # noqa: S311 - seeded draws
    for _ in range(MOST_TRIES):
        planted = plant(whole, draws)
        if planted is None or found == WANTED:
            continue
        onnx.save(planted.model, bad)
        result = diff(tmp_path, str(good), str(bad), "--inputs", str(inputs))
        if result.code != 1:
            continue
        (divergence,) = result.report["divergences"]
        names = {
            (node["origin"] or node["name"]).rpartition("/")[2] for node in divergence["nodes"]
        }
        assert planted.node in names, divergence["sentence"]
        found += 1
    assert found == WANTED
