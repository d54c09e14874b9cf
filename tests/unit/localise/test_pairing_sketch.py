"""Pairs by value: close, clearly closest, and never of what says nothing."""

import ml_dtypes
import numpy as np
import pytest

from ci_parity.localise.pairing import How, Pairing, Sketch, pair_by_values, sketch

EMPTY = Pairing(pairs={}, how={}, unpaired=("a", "b", "c"))


def noisy(seed: int, *, shape: tuple[int, ...] = (4, 50), error: float = 0.0) -> Sketch:
    """Return the sketch of random numbers, some error added."""
    values = np.random.default_rng(seed).normal(size=shape)
    values += error * np.random.default_rng(seed + 1000).normal(size=shape)
    return sketch(values.astype(np.float32))


def test_a_sketch_holds_the_statistics() -> None:
    """Of finite elements, in float64."""
    made = sketch(np.array([[1.0, -3.0], [np.nan, 2.0]], np.float32))
    assert (made.dtype, made.shape, made.count, made.finite) == ("float32", (2, 2), 4, 3)
    assert (made.mean, made.minimum, made.maximum) == (0.0, -3.0, 2.0)
    assert made.rms == pytest.approx(np.sqrt(14 / 3))


def test_pieces_make_the_same_sketch_as_the_whole() -> None:
    """A large tensor that does not lie in order is read piece by piece."""
    whole = np.random.default_rng(0).normal(3, 2, (1001, 777))
    made = sketch(whole.T)
    assert made.finite == whole.size
    assert made.mean == pytest.approx(whole.mean(), rel=1e-12)
    assert made.rms == pytest.approx(np.sqrt(np.mean(whole**2)), rel=1e-12)
    assert (made.minimum, made.maximum) == (whole.min(), whole.max())


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3), np.float32), np.array("text"), np.array([b"a", None], object),
        np.full(9, np.nan), np.full(9, np.finfo(np.float64).max), np.ones(9, np.complex64),
        np.zeros(9, [("a", "f4")]), np.array(3.0), np.ones(9, bool),
        np.zeros(9, "V4"),
    ],
)  # fmt: skip
def test_any_array_has_a_sketch_and_these_pair_with_nothing(array: np.ndarray) -> None:
    """Neither crash nor evidence."""
    pairing = pair_by_values(EMPTY, {"a": sketch(array)}, {"z": sketch(array)})
    assert pairing == EMPTY


def test_close_values_pair_and_the_rest_stays() -> None:
    """Rounding to eight bits is close; other numbers of the same kind are not."""
    ours = {"a": noisy(1), "b": noisy(2), "c": noisy(3)}
    theirs = {"x": noisy(2, error=0.005), "y": noisy(1, error=0.005), "z": noisy(4)}
    pairing = pair_by_values(EMPTY, ours, theirs)
    assert pairing.pairs == {"a": "y", "b": "x"}
    assert pairing.how == {"a": How.VALUES, "b": How.VALUES}
    assert pairing.unpaired == ("c",)


def test_what_is_paired_stays_so_and_is_no_partner_again() -> None:
    """Values only fill gaps."""
    known = Pairing(pairs={"d": "x"}, how={"d": How.NAME}, unpaired=("a",))
    pairing = pair_by_values(known, {"a": noisy(1), "d": noisy(1)}, {"x": noisy(1), "w": noisy(9)})
    assert pairing == known


@pytest.mark.parametrize("copies", [(1, 2), (2, 1), (2, 2)])
def test_equal_tensors_are_ambiguous(copies: tuple[int, int]) -> None:
    """Two of the same values on either side pair with nothing."""
    ours = {name: noisy(1) for name in "ab"[: copies[0]]}
    theirs = {name: noisy(1, error=1e-5 * at) for at, name in enumerate("xy"[: copies[1]])}
    assert pair_by_values(EMPTY, ours, theirs).pairs == {}


def test_another_shape_or_kind_of_element_is_another_tensor() -> None:
    """A reshaped tensor is not the tensor; integers are no floats; half precision is a float."""
    values = np.arange(200, dtype=np.float32)
    ours = {"a": sketch(values)}
    for other in (values.reshape(4, 50), values.astype(np.int32)):
        assert pair_by_values(EMPTY, ours, {"x": sketch(other)}).pairs == {}
    for kind in (np.float16, ml_dtypes.bfloat16):
        half = sketch(values.astype(kind))
        assert pair_by_values(EMPTY, ours, {"x": half}).pairs == {"a": "x"}


def test_constants_and_short_tensors_never_pair() -> None:
    """Zeros are everywhere, and so are shapes."""
    for array in (np.zeros(100, np.float32), np.full(100, 2.5, np.float32), np.arange(4)):
        assert pair_by_values(EMPTY, {"a": sketch(array)}, {"x": sketch(array)}) == EMPTY
