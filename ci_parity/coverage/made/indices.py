"""Inputs that must fit the others: indices, lengths, boxes. Each is made for the sizes at hand."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.coverage.made.blueprint import Blueprint, Feed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Maker = Callable[["Place"], "Array | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One input that is to get a value: its test, what it is, and where chance comes from."""

    blueprint: Blueprint
    feed: Feed
    rng: "np.random.Generator"


def _along(blueprint: Blueprint, default: int = 0) -> int:
    """Return the size of the first input along the axis that the node names."""
    first = blueprint.inputs[0].shape
    axis = int(blueprint.attribute("axis", default))
    return first[axis] if first and -len(first) <= axis < len(first) else 1


def _gather(place: Place) -> "Array":
    """Return indices from both ends: negative ones count from the last, since version 11."""
    import numpy as np

    size = max(_along(place.blueprint), 1)
    low = -size if dict(place.blueprint.opsets).get("", 1) >= 11 else 0
    return place.rng.permutation(np.resize(np.arange(low, size), place.feed.count))


def _scatter(place: Place) -> "Array | None":
    """Return indices that differ along the axis, so that the order of writing does not matter."""
    import numpy as np

    axis = int(place.blueprint.attribute("axis", 0))
    if not place.feed.shape:
        return None
    size = max(_along(place.blueprint), 1)
    moved = list(place.feed.shape)
    own = moved.pop(axis)
    rows = [place.rng.permutation(max(size, own))[:own] % size for _ in range(int(np.prod(moved)))]
    return (
        np.moveaxis(np.reshape(rows, [*moved, own]), -1, axis)
        if rows
        else np.zeros(place.feed.shape)
    )


def _nd(place: Place) -> "Array | None":
    """Return tuples of indices, each tuple once as far as there are that many."""
    import numpy as np

    batch = int(place.blueprint.attribute("batch_dims", 0))
    if not place.feed.shape:
        return None
    sizes = place.blueprint.inputs[0].shape[batch : batch + place.feed.shape[-1]]
    rows = int(np.prod(place.feed.shape[:-1]))
    total = max(int(np.prod(sizes)), 1)
    flat = np.resize(place.rng.permutation(total), rows)
    return np.stack(np.unravel_index(flat, sizes or (1,)), axis=-1)


def _lengths(place: Place) -> "Array":
    import numpy as np

    time = (
        int(place.blueprint.attribute("time_axis", 0))
        if place.blueprint.op_type == "ReverseSequence"
        else 0
    )
    size = max(place.blueprint.inputs[0].shape[time], 1)
    return place.rng.permutation(np.resize(np.arange(size, 0, -1), place.feed.count))


def _hot(place: Place) -> "Array":
    import numpy as np

    depth = place.blueprint.inputs[1].value
    count = int(depth.ravel()[0]) if depth is not None and depth.size else 5
    return place.rng.permutation(np.resize(np.arange(-count, count), place.feed.count))


def _five(place: Place) -> "Array":
    import numpy as np

    return np.full(place.feed.shape, 5)


def _off_on(place: Place) -> "Array":
    import numpy as np

    return np.arange(2, 2 + place.feed.count)


def _zero_point(place: Place) -> "Array | None":
    import numpy as np

    if "float" in place.feed.dtype or place.feed.dtype == "int32":
        return np.zeros(place.feed.shape)
    return np.resize(np.array([3, 1, 2]) % (2 if "2" in place.feed.dtype else 8), place.feed.count)


def _range(at: int) -> "Maker":
    def make(place: Place) -> "Array":
        import numpy as np

        return np.full(place.feed.shape, (2, 17, 3)[at])

    return make


def _classes(place: Place) -> "Array":
    import numpy as np

    first = place.blueprint.inputs[0].shape
    return place.rng.permutation(
        np.resize(np.arange(first[1] if len(first) > 1 else 1), place.feed.count)
    )


def _boxes(place: Place) -> "Array":
    """Return boxes of which some overlap; corners in order."""
    import numpy as np

    corner = place.rng.permutation(np.linspace(0, 5, max(place.feed.count // 2, 1)))[
        : place.feed.count // 2
    ]
    low = np.reshape(corner, (-1, 2))
    sizes = 1.0 + place.rng.permutation(np.linspace(0, 2, max(len(low), 1)))[: len(low), None]
    return np.concatenate([low, low + sizes * np.array([1.0, 1.25])], axis=1)


def _images(place: Place) -> "Array":
    import numpy as np

    return np.resize(np.arange(max(place.blueprint.inputs[0].shape[0], 1)), place.feed.count)


INDICES: "Mapping[tuple[str, int], Maker]" = {
    ("Gather", 1): _gather, ("GatherElements", 1): _gather, ("GatherND", 1): _nd,
    ("ScatterElements", 1): _scatter, ("Scatter", 1): _scatter, ("ScatterND", 1): _nd,
    ("ReverseSequence", 1): _lengths, ("LSTM", 4): _lengths, ("GRU", 4): _lengths,
    ("RNN", 4): _lengths, ("OneHot", 0): _hot, ("OneHot", 1): _five, ("OneHot", 2): _off_on,
    ("Range", 0): _range(0), ("Range", 1): _range(1), ("Range", 2): _range(2),
    ("QuantizeLinear", 2): _zero_point, ("DequantizeLinear", 2): _zero_point,
    ("QLinearConv", 2): _zero_point, ("QLinearConv", 5): _zero_point,
    ("QLinearConv", 7): _zero_point, ("QLinearMatMul", 2): _zero_point,
    ("QLinearMatMul", 5): _zero_point, ("QLinearMatMul", 7): _zero_point,
    ("MatMulInteger", 2): _zero_point, ("MatMulInteger", 3): _zero_point,
    ("ConvInteger", 2): _zero_point, ("ConvInteger", 3): _zero_point,
    ("SoftmaxCrossEntropyLoss", 1): _classes, ("NegativeLogLikelihoodLoss", 1): _classes,
    ("NonMaxSuppression", 0): _boxes, ("RoiAlign", 1): _boxes, ("RoiAlign", 2): _images,
}  # fmt: skip
"""What makes the value of an input, by operator and position; None leaves it to plain numbers."""
