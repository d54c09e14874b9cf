import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from ci_parity.compare.metrics import index_of


@given(array_shapes(min_dims=1, max_dims=5, max_side=6), st.data())
def test_positions_are_those_of_c_order(shape: tuple[int, ...], data: st.DataObject) -> None:
    """As `numpy.unravel_index` has them."""
    position = data.draw(st.integers(0, math.prod(shape) - 1))
    assert index_of(position, shape) == tuple(map(int, np.unravel_index(position, shape)))


def test_a_scalar_has_an_index_without_parts() -> None:
    """Position 0 of rank 0."""
    assert index_of(0, ()) == ()
