"""Detections out of tensors: boxes, scores, classes and images as one table; overlap of boxes.

Below the detections decision. Boxes are told apart from padding by a count output and from noise by
the score; nothing is suppressed or rescaled here.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.compare.decisions.rows import blocks, check_numbers, rows_of, wide
from ci_parity.config.decisions import Columns, Detections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Booleans = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

_MAX_IMAGE = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one side, in the order of the output; n rows over all images.

    `box` is [n, 4] as x1, y1, x2, y2; `score`, `label` and `image` are [n], 0 where the output has
    none. `kept` marks the rows that are detections, `odd` those that would be or might be, but hold
    a NaN or an infinity.
    """

    box: "Floats"
    score: "Floats"
    label: "Floats"
    image: "Integers"
    kept: "Booleans"
    odd: "Booleans"
    scored: bool


def read_table(outputs: "Mapping[str, Array]", name: str, policy: Detections) -> Table:
    """Read the detections of one side.

    Args:
        outputs: the outputs of that side by name.
        name: the output that holds the boxes, or everything.
        policy: where everything is.

    Raises:
        UnusableError: an output is absent or has not the shape that the policy says.
    """
    import numpy as np

    boxes = _named(outputs, name)
    # Places are far below 2^53, where float64 holds every integer.
    check_numbers(boxes, widest=8)
    if boxes.ndim < 2:
        raise UnusableError(f"shape {list(boxes.shape)} has no rows of boxes")
    rows = math.prod(boxes.shape[:-1])
    lead = np.arange(rows) // max(boxes.shape[-2], 1)
    if policy.columns is not None:
        box, score, label, image = _unpack(boxes, policy.columns, lead)
    else:
        if boxes.shape[-1] != 4:
            raise UnusableError(f"shape {list(boxes.shape)}: a box has four numbers")
        box, image = wide(boxes).reshape(rows, 4), lead
        score, label = _beside(outputs, boxes.shape[:-1], policy)
    scored = score is not None
    score = np.zeros(rows) if score is None else score
    label = np.zeros(rows) if label is None else label
    valid = _valid(outputs, boxes.shape, policy)
    kept = valid if policy.score is None else valid & (score >= policy.score)
    whole = np.isfinite(box).all(axis=1) & np.isfinite(label)
    odd = (valid & ~np.isfinite(score)) | (kept & ~whole)
    with np.errstate(invalid="ignore", over="ignore"):
        box = _FORMATS[policy.box_format](box)
    return Table(
        box=box, score=score, label=label,
        image=image.astype(np.int64), kept=kept & ~odd, odd=odd, scored=scored,
    )  # fmt: skip


def _named(outputs: "Mapping[str, Array]", name: str) -> "Array":
    if name not in outputs:
        known = ", ".join(map(repr, outputs)) or "none"
        raise UnusableError(f"there is no output {name!r} on both sides; there are {known}")
    return outputs[name]


def _unpack(
    packed: "Array", columns: Columns, lead: "Integers"
) -> "tuple[Floats, Floats | None, Floats | None, Integers]":
    """Return box, score, label and image of an output that keeps them in columns."""
    import numpy as np

    needed = max(columns.box + 3, *(c or 0 for c in (columns.score, columns.label, columns.image)))
    if packed.shape[-1] <= needed:
        raise UnusableError(f"shape {list(packed.shape)} has no column {needed}")
    table = packed.reshape(lead.size, packed.shape[-1])
    score, label, image = (
        None if column is None else wide(table[:, column])
        for column in (columns.score, columns.label, columns.image)
    )
    if image is not None:
        if lead.any() or not (np.abs(image) < _MAX_IMAGE).all():
            raise UnusableError("the column of the image does not number the images")
        lead = image.astype(np.int64)
    return wide(table[:, columns.box : columns.box + 4]), score, label, lead


def _beside(
    outputs: "Mapping[str, Array]", shape: tuple[int, ...], policy: Detections
) -> "tuple[Floats | None, Floats | None]":
    """Return score and label of each row from outputs of their own."""
    import numpy as np

    score: Floats | None = None
    label: Floats | None = None
    if policy.scores:
        scores = _named(outputs, policy.scores)
        check_numbers(scores)
        if scores.shape == shape:
            score = wide(scores).reshape(-1)
        elif scores.shape[:-1] == shape and scores.shape[-1]:
            score, label = np.zeros(math.prod(shape)), np.zeros(math.prod(shape))
            for start, (table,) in blocks(rows_of(scores, -1)):
                score[start : start + len(table)] = table.max(axis=1)
                label[start : start + len(table)] = table.argmax(axis=1)
        else:
            raise UnusableError(f"scores {list(scores.shape)} do not go with rows {list(shape)}")
    if policy.classes:
        classes = _named(outputs, policy.classes)
        if classes.dtype.kind not in "iuf":
            raise UnusableError("the classes are no numbers")
        if classes.shape not in {shape, (*shape, 1)}:
            raise UnusableError(f"classes {list(classes.shape)} do not go with rows {list(shape)}")
        label = wide(classes).reshape(-1)
    return score, label


def _valid(
    outputs: "Mapping[str, Array]", shape: tuple[int, ...], policy: Detections
) -> "Booleans":
    """Return which rows are no padding, by the output that counts them."""
    import numpy as np

    images, each = math.prod(shape[:-2]), shape[-2]
    if not policy.count:
        return np.ones(images * each, dtype=bool)
    counts = _named(outputs, policy.count)
    if counts.dtype.kind not in "iuf" or counts.size != images:
        raise UnusableError(
            f"{policy.count!r} has {counts.size} numbers of rows for {images} images"
        )
    numbers = wide(counts).reshape(-1)
    if not ((numbers >= 0) & (numbers <= each)).all():
        raise UnusableError(f"{policy.count!r} counts rows that do not exist")
    return (np.arange(each) < numbers[:, None]).reshape(-1)


# Formats.


def _from_xyxy(box: "Floats") -> "Floats":
    return box


def _from_yxyx(box: "Floats") -> "Floats":
    return box[:, [1, 0, 3, 2]]


def _from_xywh(box: "Floats") -> "Floats":
    import numpy as np

    return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)


def _from_cxcywh(box: "Floats") -> "Floats":
    import numpy as np

    half = box[:, 2:] / 2
    return np.concatenate([box[:, :2] - half, box[:, :2] + half], axis=1)


_FORMATS: "Mapping[str, Callable[[Floats], Floats]]" = {
    "xyxy": _from_xyxy, "yxyx": _from_yxyx, "xywh": _from_xywh, "cxcywh": _from_cxcywh,
}  # fmt: skip


def overlap(left: "Floats", right: "Floats") -> "Floats":
    """Return the intersection over union of each pair of boxes, [n, m].

    A box whose second corner lies before its first has no area. Two boxes without area overlap
    wholly where they are equal, else not at all.

    Args:
        left: shape [n, 4], as x1, y1, x2, y2.
        right: shape [m, 4].
    """
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        shared = _common(left, right, 0)
        shared *= _common(left, right, 1)
        union = np.add.outer(_area(left), _area(right))
        union -= shared
        flat = ~(union > 0)
        ratio: Floats = np.divide(shared, union, out=shared, where=~flat)
    if flat.any():
        rows, columns = np.nonzero(flat)
        ratio[rows, columns] = (left[rows] == right[columns]).all(axis=1)
    return np.nan_to_num(ratio, copy=False, nan=0.0)


def _common(left: "Floats", right: "Floats", axis: int) -> "Floats":
    """Return how long the sides along one axis lie on each other, [n, m]."""
    import numpy as np

    length: Floats = np.minimum.outer(left[:, 2 + axis], right[:, 2 + axis])
    length -= np.maximum.outer(left[:, axis], right[:, axis])
    return np.maximum(length, 0.0, out=length)


def _area(box: "Floats") -> "Floats":
    import numpy as np

    area: Floats = np.maximum(box[:, 2:] - box[:, :2], 0.0).prod(axis=1)
    return area
