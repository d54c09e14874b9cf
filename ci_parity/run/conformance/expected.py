"""The right answers to the tiny models, and how an answer is held against them: exactly."""

import math
from collections.abc import Mapping
from typing import Any

from ci_parity.records.values import Value, numpy_dtype
from ci_parity.run.conformance.bench import FailedError


def expect(found: Mapping[str, Value], right: Mapping[str, Value]) -> None:
    """Hold outputs against the right ones: names in order, types, shapes, every element."""
    if list(found) != list(right):
        raise FailedError(f"the outputs are {list(found)}, not {list(right)}")
    for name, value in right.items():
        if content(found[name]) != content(value):
            raise FailedError(f"{name} is {content(found[name])}, not {content(value)}"[:400])


def content(value: Value) -> Any:  # noqa: ANN401 - whatever Python compares
    """Return a value with its types and shapes, as something Python compares."""
    if isinstance(value, list):
        return [content(item) for item in value]
    if value is None or isinstance(value, dict):
        return value
    return value.dtype.name, list(value.shape), value.tolist()


def array(values: object, dtype: str) -> Any:  # noqa: ANN401 - arrays of any type
    """Return values as an array of an ONNX element type."""
    import numpy as np

    return np.array(values, numpy_dtype(dtype))


def floats(*shape: int) -> Any:  # noqa: ANN401 - a float32 array
    """Return 0, 1, 2 … in a shape."""
    return array(range(math.prod(shape)), "float32").reshape(shape)
