"""How much a right answer to a generated test may differ."""

from dataclasses import replace

import numpy as np
import pytest

from ci_parity.coverage.made.blueprint import Blueprint, Feed
from ci_parity.coverage.made.tolerances import terms_of, tolerance_of

U = 2.0**-24
ONES = {"y0": np.full((2, 2), 3.0, np.float32)}


def blueprint(op_type: str, *shapes: tuple[int, ...], dtype: str = "float32") -> Blueprint:
    """Return a test of an operator on floats."""
    feeds = tuple(Feed(shape=shape, dtype=dtype) for shape in shapes)
    return Blueprint(op_type=op_type, opsets=(("", 18),), ir_version=8, inputs=feeds)


@pytest.mark.parametrize("kind", ["Reshape", "Gather", "Max", "TopK"])
def test_what_moves_elements_must_be_equal(kind: str) -> None:
    """No arithmetic, no tolerance."""
    assert tolerance_of(blueprint(kind, (2, 2)), ONES) == (0.0, 0.0)


def test_integers_must_be_equal() -> None:
    """An operator that gives integers has no tolerance, whatever it computes."""
    assert tolerance_of(blueprint("ArgMax", (2, 2)), {"y0": np.ones(2, np.int64)}) == (0.0, 0.0)


def test_one_operation_may_round_once() -> None:
    """Two half units: one unit in the last place."""
    assert tolerance_of(blueprint("Add", (2, 2), (2, 2)), ONES) == (2 * U, 0.0)


def test_sums_grow_with_the_root_of_their_length() -> None:
    """A row of 256 products: 4 u (1 + 16), and the same share of the largest result."""
    rtol, atol = tolerance_of(blueprint("MatMul", (2, 256), (256, 2)), ONES)
    assert rtol == pytest.approx(4 * U * 17)
    assert atol == pytest.approx(rtol * 3)


def test_the_narrowest_type_counts() -> None:
    """Half precision in, single precision out: no better than half."""
    half = blueprint("Sqrt", (2, 2), dtype="float16")
    assert tolerance_of(half, ONES)[0] == 2 * 2.0**-11


def test_a_function_is_far_stricter_than_the_suite() -> None:
    """The suite allows 1e-3 throughout."""
    rtol, _ = tolerance_of(blueprint("Tanh", (2, 2)), ONES)
    assert U < rtol < 1e-5


def test_the_terms_of_a_convolution_are_its_filter() -> None:
    """Channels times the kernel's size."""
    assert terms_of(blueprint("Conv", (1, 8, 9, 9), (4, 8, 3, 3))) == 72


def test_a_scatter_that_adds_is_no_move() -> None:
    """With a reduction, elements are computed."""
    import onnx

    adding = replace(
        blueprint("ScatterND", (4,), (2, 1)),
        attributes=(onnx.helper.make_attribute("reduction", "add"),),
    )
    assert tolerance_of(adding, ONES)[0] > 0
