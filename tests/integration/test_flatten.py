"""Published models made flat: every branch is gone, and every case keeps its bits."""

from collections.abc import Mapping

import onnx
import pytest

from ci_parity.base.onnx_model import subgraphs
from tests.integration.support.published_models import PublishedModel, published_models
from tests.unit.localise.flatten.models import flattened

pytestmark = pytest.mark.network

# How many nodes run in the cases of each model, and how many hold graphs of their own before.
NODES = {
    "silero-vad": (203, 1), "silero-vad-half": (182, 3), "silero-vad-ifless": (46, 1),
    "silero-vad-sequence": (63, 0), "ppocr6-det": (464, 0), "ppocr6-rec": (480, 0),
    "ppocr-cls": (566, 0), "ppocr4-det": (672, 0), "ppocr4-rec": (860, 0), "magika": (95, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def models() -> Mapping[str, PublishedModel]:
    """Return the models by name, downloaded once."""
    return {model.name: model for model in published_models()}


@pytest.mark.parametrize("name", NODES)
def test_a_published_model_made_flat_computes_the_same(
    name: str, models: Mapping[str, PublishedModel]
) -> None:
    """On onnxruntime without optimisation, bit for bit."""
    model = onnx.load(models[name].path)
    count, branches = NODES[name]
    assert sum(1 for node in model.graph.node if list(subgraphs(node))) == branches
    for feeds in models[name].cases:
        flat = flattened(model, feeds)
        assert flat.left == {}
        assert not any(list(subgraphs(node)) for node in flat.model.graph.node)
        assert len(flat.model.graph.node) == count


def test_a_node_of_a_branch_is_traced(models: Mapping[str, PublishedModel]) -> None:
    """From the outermost branch down to the node; the two rates take different ones."""
    model = models["silero-vad"]
    taken = {
        flattened(onnx.load(model.path), feeds).model.graph.node[5].name.split("/")[:2][1]
        for feeds in model.cases
    }
    assert taken == {"then_branch", "else_branch"}
