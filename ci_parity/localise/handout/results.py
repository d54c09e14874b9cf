"""Results of a model: as arrays of a NumPy archive, and how far one is from another.

A value is an array (strings as dtype object), a list, a dict, None, or `Bits`. In an archive every
array has a number for a name; a record says what it is.

Runs on Python 3.8 and later, with nothing but NumPy 1.21 or later.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

# ONNX element types that NumPy lacks, and the unsigned integer that carries their bits; types
# narrower than a byte have one byte an element.
CARRIED = {
    "bfloat16": "uint16",
    "float8e4m3fn": "uint8", "float8e4m3fnuz": "uint8", "float8e5m2": "uint8",
    "float8e5m2fnuz": "uint8", "float8e8m0": "uint8",
    "float6e2m3": "uint8", "float6e3m2": "uint8", "float4e2m1": "uint8",
    "int4": "uint8", "uint4": "uint8", "int2": "uint8", "uint2": "uint8",
}  # fmt: skip
# A result is a recorded one if it is this much closer to it than the two recorded ones are to each
# other, or as close as the rounding of another processor may bring it.
CLOSER = 10
ROUNDINGS, MOST_ROUNDING = 1000, 0.02
# So much of a message is the same on two machines whose paths and versions differ.
ALIKE = 0.5
OK = "ok"
BASELINE, CANDIDATE, NEITHER = 0, 1, 2


class Bits:
    """A tensor of a type that NumPy lacks: the type's name, and its bits as unsigned integers."""

    def __init__(self, dtype: str, bits: Any) -> None:
        self.dtype = dtype
        self.bits = bits


class Gap:
    """How far an array is from another: the largest difference and its place.

    `problem` says what is not a matter of numbers, such as another shape; empty where it is one.
    """

    def __init__(self, path: str, size: float = 0.0, place: str = "", problem: str = "") -> None:
        self.path = path
        self.size = size
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        if self.problem:
            return self.path + ": " + self.problem
        return f"largest difference {self.size:.6g} at {self.path}{self.place}"


def write_value(name: str, value: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Put a value's arrays among `arrays` and return its record."""
    import numpy as np

    if value is None:
        return {"name": name, "kind": "absent"}
    if isinstance(value, list):
        items = [write_value("", item, arrays) for item in value]
        return {"name": name, "kind": "sequence", "items": items}
    if isinstance(value, dict):
        # Keys and values are two sequences of equal length.
        keys = [np.array(k, dtype=object if isinstance(k, str) else np.int64) for k in value]
        parts = [write_value("", part, arrays) for part in (keys, list(value.values()))]
        return {"name": name, "kind": "map", "items": parts}
    array = np.asarray(value.bits if isinstance(value, Bits) else value)
    dtype = value.dtype if isinstance(value, Bits) else str(array.dtype.name)
    shape = list(array.shape)
    if array.dtype.kind in "OUS":
        dtype, text = "string", json.dumps([str(item) for item in array.ravel().tolist()])
        array = np.frombuffer(text.encode("utf-8"), np.uint8)
    key = str(len(arrays))
    arrays[key] = np.ascontiguousarray(array)
    return {"name": name, "kind": "tensor", "dtype": dtype, "shape": shape, "key": key}


def read_value(record: dict[str, Any], arrays: Any) -> Any:
    """Return the value that a record describes."""
    import numpy as np

    kind = record["kind"]
    if kind == "absent":
        return None
    if kind == "sequence":
        return [read_value(item, arrays) for item in record["items"]]
    if kind == "map":
        keys, values = (read_value(item, arrays) for item in record["items"])
        return dict(zip([key.item() for key in keys], values))
    array, dtype = arrays[record["key"]], record["dtype"]
    if dtype == "string":
        strings = np.empty(len(texts := json.loads(array.tobytes().decode("utf-8"))), dtype=object)
        strings[:] = texts
        return strings.reshape(record["shape"])
    array = array.reshape(record["shape"])
    return Bits(dtype, array) if dtype in CARRIED else array


def gaps(ours: dict[str, Any], theirs: dict[str, Any]) -> list[Gap]:
    """Return how far each array of a result is from the recorded one of that name."""
    left, right = parts(ours), parts(theirs)
    found = []
    for path in [*left, *(path for path in right if path not in left)]:
        if path in left and path in right:
            found.append(gap(path, left[path], right[path]))
        else:
            problem = "is not recorded" if path in left else "is missing"
            found.append(Gap(path, problem=problem))
    return found


def parts(value: Any, path: str = "") -> dict[str, Any]:
    """Return the arrays inside a result by path."""
    import numpy as np

    if isinstance(value, dict):
        inner = [(path + "[" + repr(key) + "]" if path else str(key), value[key]) for key in value]
    elif isinstance(value, list):
        inner = [(path + "[" + str(index) + "]", item) for index, item in enumerate(value)]
    elif value is None or isinstance(value, Bits):
        return {path: np.zeros(0, dtype=bool) if value is None else value}
    else:
        return {path: np.asarray(value)}
    found: dict[str, Any] = {}
    for name, item in inner:
        found.update(parts(item, name))
    return found


def gap(path: str, ours: Any, theirs: Any) -> Gap:
    """Compare two arrays: type, shape, text, places of NaN and infinities, then numbers."""
    import numpy as np

    mine, other = described(ours), described(theirs)
    if mine != other:
        return Gap(path, problem=mine + " instead of " + other)
    left, right = numbers(ours), numbers(theirs)
    if left.dtype == object:
        odd = np.array([str(a) != str(b) for a, b in zip(left.ravel(), right.ravel())], dtype=bool)
        return Gap(path) if not odd.any() else Gap(path, problem="another text" + at(odd, left))
    if left.dtype.kind in "fc":
        odd = (np.isnan(left) != np.isnan(right)) | (np.isinf(left) != np.isinf(right))
        odd |= np.isinf(left) & np.isinf(right) & (left != right)
        if odd.any():
            first = tuple(np.argwhere(odd)[0])
            words = f"{left[first]} instead of {right[first]}"
            return Gap(path, problem=words + at(odd, left))
    far = differences(left, right)
    if not far.any():
        return Gap(path)
    first = np.unravel_index(int(np.argmax(far)), far.shape)
    words = f"{place(first)}: {left[first]} instead of {right[first]}"
    return Gap(path, float(far[first]), words)


def differences(left: Any, right: Any) -> Any:
    """Return absolute differences, exact for integers; 0 where both are NaN or the same."""
    import numpy as np

    if left.dtype.kind in "fc":
        wide = np.complex128 if left.dtype.kind == "c" else np.float64
        same = (left == right) | np.isnan(left)
        with np.errstate(all="ignore"):
            return np.where(same, 0.0, np.abs(left.astype(wide) - right.astype(wide)))
    low, high = np.minimum(left, right), np.maximum(left, right)
    # In modular arithmetic, the difference of two 64-bit integers fits 64 bits without a sign.
    return high.astype(np.uint64) - low.astype(np.uint64)


def numbers(value: Any) -> Any:
    """Return what can be subtracted: bfloat16 as float32, bits and truth values as integers."""
    import numpy as np

    if isinstance(value, Bits):
        if value.dtype == "bfloat16":
            return (value.bits.astype(np.uint32) << 16).view(np.float32)
        return value.bits
    return value.astype(np.uint8) if value.dtype == bool else value


def described(value: Any) -> str:
    """Return an array's type and shape."""
    dtype, shape = (value.dtype, value.bits.shape) if isinstance(value, Bits) else ("", value.shape)
    if not dtype:
        dtype = "string" if value.dtype.kind in "OUS" else str(value.dtype.name)
    return dtype + str(list(shape))


def place(index: Any) -> str:
    """Return an index as text; empty for a scalar."""
    return "[" + ", ".join(str(int(i)) for i in index) + "]" if len(index) else ""


def at(odd: Any, whole: Any) -> str:
    """Say how many elements are meant, and which is the first."""
    import numpy as np

    first = place(np.argwhere(odd.reshape(whole.shape))[0])
    return f" at {first or 'its only element'} ({int(odd.sum())} of {odd.size} elements)"


def rounding(value: Any) -> float:
    """Return how far another processor's rounding may bring the largest element of an array."""
    import numpy as np

    array = numbers(value)
    if array.dtype.kind not in "fc" or not array.size:
        return 0.0
    narrow = isinstance(value, Bits)
    step = 2.0**-8 if narrow else float(np.finfo(array.dtype).eps)
    finite = np.abs(array[np.isfinite(array)])
    scale = float(finite.max()) if finite.size else 0.0
    return min(ROUNDINGS * step, MOST_ROUNDING) * scale


def limits(baseline: dict[str, Any], candidate: dict[str, Any]) -> dict[str, float]:
    """Return for each array how close to a recorded one it must be to be the same."""
    wide = {**parts(candidate), **parts(baseline)}
    found = {path: rounding(value) for path, value in wide.items()}
    for between in gaps(candidate, baseline) if baseline and candidate else []:
        if not between.problem:
            found[between.path] = max(found[between.path], between.size / CLOSER)
    return found


def conclude(
    ours: dict[str, Any], baseline: dict[str, Any], candidate: dict[str, Any]
) -> tuple[int, list[str]]:
    """Return which of two recorded results this one is, and why.

    A result is a dict: `status` (ok, error, crash or timeout), `message`, `values` by name.
    """
    allowed = limits(baseline["values"], candidate["values"])
    names = ("the baseline's result", "the candidate's result")
    distances, words = [], []
    for name, recorded in zip(names, (baseline, candidate)):
        distance, said = distance_to(ours, recorded, allowed)
        distances.append(distance)
        words.append(name + ": " + said)
    left, right = distances
    if left == right or (left is None and right is None):
        return NEITHER, words
    nearer = right is None or (left is not None and left < right)
    return (BASELINE if nearer else CANDIDATE), words


def distance_to(
    ours: dict[str, Any], recorded: dict[str, Any], allowed: dict[str, float]
) -> tuple[float | None, str]:
    """Return how far a result is from one that it may be, None from one that it is not; in words.

    Of two that it may be, it is the nearer one.
    """
    if ours["status"] != recorded["status"]:
        return None, recorded["status"] + ", here " + ours["status"]
    if ours["status"] != OK:
        ratio = likeness(ours["message"], recorded["message"])
        failed = ours["status"] == "error" and ratio < ALIKE
        return (None if failed else 1 - ratio), recorded["status"] + " " + recorded["message"]
    found = gaps(ours["values"], recorded["values"])
    wrong = [g for g in found if g.problem or g.size > allowed.get(g.path, 0.0)]
    if wrong:
        return None, str(next((g for g in wrong if g.problem), max(wrong, key=lambda g: g.size)))
    worst = max(found, key=lambda g: g.size, default=Gap(""))
    return sum(g.size for g in found), str(worst) if worst.size else "equal"


def likeness(ours: str, theirs: str) -> float:
    """Return how alike two messages are, from 0 to 1, without paths and numbers."""
    left, right = (
        re.findall(r"[a-z]+", re.sub(r"\S*[/\\]\S*", " ", t.lower())) for t in (ours, theirs)
    )
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()
