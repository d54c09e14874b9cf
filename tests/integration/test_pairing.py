"""Pairs on published models: copies pair completely, optimized ones without a wrong pair.

A pair is wrong if its tensors differ, on a case, by more than rounding.
"""

from functools import cache
from pathlib import Path

import onnx
import pytest

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import Pairing, pair_graphs
from tests.integration.support.published_models import PublishedModel, published_models
from tests.support.rewritten import (
    LEVELS,
    different,
    inferred,
    optimized,
    renamed,
    tensors,
    values,
)

pytestmark = pytest.mark.network

NAMES = (
    "magika", "silero-vad", "silero-vad-half", "silero-vad-ifless", "silero-vad-sequence",
    "ppocr6-det", "ppocr6-rec", "ppocr-cls", "ppocr4-det", "ppocr4-rec", "nudenet",
)  # fmt: skip


@cache
def published(name: str) -> tuple[PublishedModel, onnx.ModelProto]:
    """Return a published model, its file read."""
    (model,) = (model for model in published_models() if model.name == name)
    return model, onnx.load(model.path)


def paired(baseline: onnx.ModelProto, candidate: onnx.ModelProto) -> Pairing:
    """Pair two models; no tensor may have two partners."""
    pairing = pair_graphs(FlatGraph(inferred(baseline)), FlatGraph(inferred(candidate)))
    assert len({*pairing.pairs.values()}) == len(pairing.pairs)
    return pairing


def wrong(name: str, candidate: onnx.ModelProto, pairs: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pairs whose tensors differ on the model's first case."""
    model, baseline = published(name)
    feeds = model.cases[0]
    left, right = values(baseline, pairs, feeds), values(candidate, pairs.values(), feeds)
    return different(pairs, left, right)


@pytest.mark.parametrize("name", NAMES)
def test_a_renamed_and_reordered_copy_pairs_completely(name: str) -> None:
    """Every tensor with the one that it became."""
    _, model = published(name)
    copy, new = renamed(model)
    pairing = paired(model, copy)
    assert pairing.unpaired == ()
    assert pairing.pairs == {tensor: new[tensor] for tensor in tensors(FlatGraph(model))}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_an_optimized_model_pairs_at_least_where_names_are_shared(
    name: str, level: str, tmp_path: Path
) -> None:
    """The runtime keeps the names of what it keeps; no pair may be wrong."""
    model, baseline = published(name)
    candidate = optimized(model.path, level, tmp_path / "optimized.onnx")
    pairing = paired(baseline, candidate)
    shared = {*tensors(FlatGraph(baseline))} & {*tensors(FlatGraph(candidate))}
    assert len(pairing.pairs) >= len(shared)
    assert wrong(name, candidate, dict(pairing.pairs)) == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_an_optimized_model_without_names_has_no_wrong_pair(
    name: str, level: str, tmp_path: Path
) -> None:
    """Structure alone finds less where operators were fused, and nothing that is not there."""
    model, baseline = published(name)
    candidate, _ = renamed(optimized(model.path, level, tmp_path / "optimized.onnx"))
    pairing = paired(baseline, candidate)
    assert len(pairing.pairs) >= len(tensors(FlatGraph(candidate))) // 3
    assert wrong(name, candidate, dict(pairing.pairs)) == []
