"""Pairs of a float model's tensors with those of its quantized forms."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from ci_parity.localise.graph import FlatGraph
from tests.support.rewritten import Feeds, renamed, tensors, values
from tests.unit.localise.networks import maker, network, pair

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOISE = 0.25


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """One batch after the other."""

    def __init__(self, batches: list[Feeds]) -> None:
        self._batches: Iterator[Feeds] = iter(batches)

    def get_next(self) -> Feeds | None:
        return next(self._batches, None)


def batch(seed: int) -> Feeds:
    """Return an input of the network."""
    return {"x": np.random.default_rng(seed).normal(size=(1, 3, 8, 8)).astype(np.float32)}


def static(kind: QuantFormat, folder: Path) -> onnx.ModelProto:
    """Return the network quantized by calibration."""
    onnx.save(network(), folder / "model.onnx")
    reader = _Reader([batch(seed) for seed in range(4)])
    quantize_static(folder / "model.onnx", folder / "static.onnx", reader, quant_format=kind)
    return onnx.load(folder / "static.onnx")


def dynamic(folder: Path) -> onnx.ModelProto:
    """Return the network with quantized weights and ranges found at run time."""
    onnx.save(network(), folder / "model.onnx")
    quantize_dynamic(folder / "model.onnx", folder / "dynamic.onnx", weight_type=QuantType.QUInt8)
    return onnx.load(folder / "dynamic.onnx")


def noise(candidate: onnx.ModelProto, pairs: dict[str, str]) -> dict[str, float]:
    """Return the RMS difference of each pair, relative to the baseline's RMS."""
    left = values(network(), pairs, batch(0))
    right = values(candidate, pairs.values(), batch(0))
    return {
        one: float(np.sqrt(np.mean((left[one] - right[other]) ** 2) / np.mean(left[one] ** 2)))
        for one, other in pairs.items()
    }


@pytest.mark.parametrize("anew", [False, True])
def test_tensors_pair_with_what_was_made_before_it_was_quantized(
    anew: bool, tmp_path: Path
) -> None:
    """Static quantization leaves `x → QuantizeLinear → DequantizeLinear` behind each tensor."""
    candidate = static(QuantFormat.QDQ, tmp_path)
    if anew:
        candidate, _ = renamed(candidate)
    pairing = pair(network(), candidate)
    assert {*pairing.unpaired} <= {"stem", "stem_norm", "left"}
    assert max(noise(candidate, dict(pairing.pairs)).values()) < _NOISE
    ops = {maker(candidate, other).op_type for one, other in pairing.pairs.items() if one != "y"}
    assert "QuantizeLinear" not in ops
    for one in ("right", "right_gate", "gated", "sum", "leaky", "logits"):
        assert maker(candidate, pairing.pairs[one]).op_type == maker(network(), one).op_type


def test_a_removed_activation_pairs_with_what_was_dequantized(tmp_path: Path) -> None:
    """The quantizer drops a Relu whose range its own rounding clips to."""
    candidate = static(QuantFormat.QDQ, tmp_path)
    pairing = pair(network(), candidate)
    assert not any(one.op_type == "Relu" for one in candidate.graph.node)
    assert maker(candidate, pairing.pairs["stem_relu"]).op_type == "DequantizeLinear"


@pytest.mark.parametrize("anew", [False, True])
def test_integers_pair_only_where_they_are_dequantized(anew: bool, tmp_path: Path) -> None:
    """Operators on integers hand on no number that the baseline's tensor could be compared to."""
    candidate = static(QuantFormat.QOperator, tmp_path)
    if anew:
        candidate, _ = renamed(candidate)
    pairing = pair(network(), candidate)
    assert pairing.pairs["y"] == "y"
    assert 2 <= len(pairing.pairs) < len(tensors(FlatGraph(network())))
    assert max(noise(candidate, dict(pairing.pairs)).values()) < _NOISE


@pytest.mark.parametrize("anew", [False, True])
def test_sums_of_integers_pair_where_they_are_scaled(anew: bool, tmp_path: Path) -> None:
    """Dynamic quantization makes `MatMulInteger → Cast → Mul` of a MatMul."""
    candidate = dynamic(tmp_path)
    if anew:
        candidate, _ = renamed(candidate)
    pairing = pair(network(), candidate)
    assert pairing.unpaired == ()
    assert maker(candidate, pairing.pairs["head"]).op_type == "Mul"
    assert max(noise(candidate, dict(pairing.pairs)).values()) < _NOISE


def test_two_quantized_models_pair_with_all_they_hand_on(tmp_path: Path) -> None:
    """Then integers pair with integers, too."""
    model = static(QuantFormat.QDQ, tmp_path)
    copy, new = renamed(model)
    assert pair(model, copy).pairs == {name: new[name] for name in tensors(FlatGraph(model))}
