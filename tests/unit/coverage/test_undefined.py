"""Node tests whose outputs the standard leaves open."""

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from ci_parity.coverage.undefined import why_undefined


def why(node: NodeProto, **inputs: Any) -> str:
    """Return why a model of one node is left out."""
    graph = helper.make_graph([node], "g", [], [])
    return why_undefined(helper.make_model(graph), inputs)


@pytest.mark.parametrize(
    "operator",
    [
        "RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Multinomial",
        "Bernoulli",
    ],
)  # fmt: skip
def test_random_numbers_are_the_runtimes_own(operator: str) -> None:
    """With a seed, too: the standard does not say how it is used."""
    assert operator in why(helper.make_node(operator, ["x"], ["y"], seed=1.0))


def test_a_generator_inside_a_branch_is_found() -> None:
    """As in the body of a function that was written out."""
    inner = helper.make_graph([helper.make_node("RandomUniformLike", ["x"], ["y"])], "b", [], [])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    assert "RandomUniformLike" in why(node)


@pytest.mark.parametrize(
    ("inputs", "values", "undefined"),
    [
        (["x"], {}, False),
        (["x", "r"], {"r": np.array(0.5, np.float32)}, False),
        (["x", "r", "t"], {"r": np.array(0.5, np.float32), "t": np.array(1, bool)}, True),
        (["x", "", "t"], {"t": np.array(1, bool)}, True),
        (["x", "r", "t"], {"r": np.array(0.0, np.float32), "t": np.array(1, bool)}, False),
        (["x", "r", "t"], {"r": np.array(0.5, np.float32), "t": np.array(0, bool)}, False),
        (["x", "made", "made_too"], {}, True),
    ],
)
def test_dropout_is_open_where_it_drops(
    inputs: list[str], values: dict[str, Any], undefined: bool
) -> None:
    """In training, with a ratio that is not 0; what the graph computes counts as such."""
    node = helper.make_node("Dropout", inputs, ["y"])
    assert bool(why(node, **values)) is undefined


def test_everything_else_is_defined() -> None:
    """Nothing is left out for its name."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4, name="bernoulli")
    assert why(node) == ""
