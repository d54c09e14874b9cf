"""The digest of a model: what belongs to it and what does not."""

from pathlib import Path

import onnx
import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.config.load import load_deployment
from ci_parity.detect.identity import identify, model_digest
from tests.support.models import save_linear


def external(path: Path) -> Path:
    """Save the linear model at `path` with its weight in weights.bin; return the data file."""
    model = onnx.load(save_linear(path))
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    return path.parent / "weights.bin"


def test_a_renamed_model_is_the_same_model(tmp_path: Path) -> None:
    """The graph's file name is not part of the digest."""
    first = save_linear(tmp_path / "a.onnx")
    second = tmp_path / "b.onnx"
    second.write_bytes(first.read_bytes())
    assert model_digest(first) == model_digest(second)


def test_one_byte_of_the_graph_counts(tmp_path: Path) -> None:
    """Another weight is another model."""
    first = save_linear(tmp_path / "a.onnx", weight=2.0)
    second = save_linear(tmp_path / "b.onnx", weight=2.5)
    assert model_digest(first) != model_digest(second)


def test_external_data_counts(tmp_path: Path) -> None:
    """One byte of an external data file is another model, at once."""
    data = external(tmp_path / "model.onnx")
    before = model_digest(tmp_path / "model.onnx")
    data.write_bytes(bytes(reversed(data.read_bytes())))
    assert model_digest(tmp_path / "model.onnx") != before


def test_missing_external_data_is_refused(tmp_path: Path) -> None:
    """A model that is not whole has no digest."""
    external(tmp_path / "model.onnx").unlink()
    with pytest.raises(EvidenceError, match=r"weights\.bin"):
        model_digest(tmp_path / "model.onnx")


CONFIG = """\
version: 1
variants:
  plain: {path: model.onnx}
  int8: {path: model.onnx, from: plain, optimization: recipe.yml}
targets:
  one: {}
  two: {variants: [int8]}
fixtures: fixtures
"""


def test_every_variant_on_every_target_has_an_identity(tmp_path: Path) -> None:
    """Targets pick their variants; a recipe's bytes are part of its variant."""
    save_linear(tmp_path / "model.onnx")
    (tmp_path / "ci-parity.yml").write_text(CONFIG)
    (tmp_path / "recipe.yml").write_text("bits: 8")
    deployment = load_deployment(tmp_path / "ci-parity.yml")
    runtimes = {"current": "onnxruntime==1.32.0"}
    found = identify(deployment, runtimes, "f" * 64)
    assert [(i.target, i.variant, bool(i.optimization)) for i in found] == [
        ("one", "plain", False),
        ("one", "int8", True),
        ("two", "int8", True),
    ]
    (tmp_path / "recipe.yml").write_text("bits: 4")
    again = identify(deployment, runtimes, "f" * 64)
    assert [a == b for a, b in zip(found, again, strict=True)] == [True, False, False]


def test_a_missing_recipe_is_refused(tmp_path: Path) -> None:
    """A recipe that is named must be there."""
    save_linear(tmp_path / "model.onnx")
    (tmp_path / "ci-parity.yml").write_text(CONFIG)
    deployment = load_deployment(tmp_path / "ci-parity.yml")
    with pytest.raises(EvidenceError, match="recipe"):
        identify(deployment, {"current": "onnxruntime==1.32.0"}, "f" * 64)
