"""The arrays inside a value, each under a path of its own: what is compared one by one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ci_parity.records.values import Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]


def flatten(name: str, value: Value) -> Mapping[str, "Array"]:
    """Return the arrays of a value by path, such as `boxes[0]` or `probabilities.keys`.

    A map of scalars is one array in the order of its keys; a sequence of maps with equal keys (what
    ZipMap produces) is one array of shape [items, keys].
    """
    import numpy as np

    if value is None:
        return {f"{name}.absent": np.zeros(0, dtype=bool)}
    if isinstance(value, dict):
        return _flatten_map(name, value)
    if not isinstance(value, list):
        return {name: value}
    rows = [_flatten_map(name, item) for item in value if isinstance(item, dict)]
    if rows and len(rows) == len(value) and _stackable(rows):
        return {part: np.stack([row[part] for row in rows]) for part in rows[0]}
    parts: dict[str, Array] = {f"{name}.length": np.array(len(value))}
    for index, item in enumerate(value):
        parts.update(flatten(f"{name}[{index}]", item))
    return parts


def widened(array: "Array") -> "npt.NDArray[Any]":
    """Return an array as float64, or as complex128 where it is complex."""
    import numpy as np

    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _flatten_map(name: str, value: Mapping[str | int, Value]) -> dict[str, "Array"]:
    import numpy as np

    ordered = sorted(value.items(), key=lambda item: (isinstance(item[0], str), item[0]))
    keys = np.array([key for key, _ in ordered])
    keys = keys.astype(object) if keys.dtype.kind == "U" else keys.astype(np.int64)
    parts: dict[str, Array] = {f"{name}.keys": keys}
    scalars = [item for _, item in ordered if isinstance(item, np.ndarray) and item.ndim == 0]
    if len(scalars) == len(ordered) and len({scalar.dtype for scalar in scalars}) <= 1:
        return parts | {f"{name}.values": np.array(scalars)}
    for key, item in ordered:
        parts.update(flatten(f"{name}[{key!r}]", item))
    return parts


def _stackable(rows: Sequence[Mapping[str, "Array"]]) -> bool:
    shapes = [{part: (a.shape, a.dtype) for part, a in row.items()} for row in rows]
    return all(shape == shapes[0] for shape in shapes)
