"""The inputs a contract asks to be run: every listed size, as exchange files.

Values are drawn from a fixed seed inside the stated range, both ends included; where none is
stated, the first stored case is cut or repeated to size, so that token numbers and masks stay what
the model knows. Sizes that cannot be fed are named, never left out in silence. Nothing is run here.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.contract_values import bound_sizes
from ci_parity.config.contract import MAX_ELEMENTS, listed_sizes
from ci_parity.config.model import Contract, PortContract
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.values import ValueRecord, numpy_dtype, read_value, write_value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_UNORDERED = {"bool", "string", "complex64", "complex128"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run the contract asks for: its inputs, the sizes of its symbols, and how to name it."""

    case: CaseInputs
    sizes: Mapping[str, int]
    name: str


def listed_runs(contract: Contract, inputs: InputSet) -> tuple[list[ListedRun], list[str]]:
    """Write the inputs of every listed size; return them, and why some sizes have none.

    Args:
        contract: what is promised; without sizes and ranges there is nothing to run.
        inputs: the stored cases, whose first gives what the contract leaves open. The new files are
            written beside theirs.
    """
    runs: list[ListedRun] = []
    refused: list[str] = []
    if not contract.sizes and not any(port.range for port in contract.inputs.values()):
        return runs, refused
    example = {record.name: record for record in inputs.cases[0].inputs} if inputs.cases else {}
    base, _ = bound_sizes(contract.inputs, example.values())
    for number, listed in enumerate(listed_sizes(contract)):
        name = ", ".join(f"{symbol}={size}" for symbol, size in listed.items()) or "stored sizes"
        try:
            case = _case(contract, base | dict(listed), example, Path(inputs.folder), number)
        except EvidenceError as error:
            refused.append(f"{name}: {error.what}")
            continue
        runs.append(ListedRun(case=case, sizes=base | dict(listed), name=name))
    return runs, refused


def _case(
    contract: Contract, sizes: Mapping[str, int], example: Mapping[str, ValueRecord],
    folder: Path, number: int,
) -> CaseInputs:  # fmt: skip
    """Write one set of inputs; what the contract gives no shape is fed as it is stored."""
    records = []
    for index, name in enumerate(dict.fromkeys((*contract.inputs, *example))):
        port, stored = contract.inputs.get(name, PortContract()), example.get(name)
        if port.shape is None and stored is not None:
            records.append(stored)
        elif port.shape is not None:
            array = _array(port, _shape(name, port, sizes, stored), stored, folder, sizes)
            records.append(write_value(name, array, folder, f"k{number}_i{index}"))
    return CaseInputs(case=f"{number}/contract", inputs=tuple(records), once=True)


def _shape(
    name: str, port: PortContract, sizes: Mapping[str, int], stored: ValueRecord | None
) -> tuple[int, ...]:
    shape = []
    for axis, size in enumerate(port.shape or ()):
        found = sizes.get(size) if isinstance(size, str) else size
        if found is None and stored is not None and len(stored.shape) == len(port.shape or ()):
            found = stored.shape[axis]
        if found is None:
            said = f"no size is listed or stored for dimension {axis} of input {name!r}"
            raise EvidenceError(said)
        shape.append(found)
    if math.prod(shape) > MAX_ELEMENTS:
        raise EvidenceError(f"input {name!r} would have {math.prod(shape):,} elements")
    return tuple(shape)


def _array(
    port: PortContract, shape: tuple[int, ...], stored: ValueRecord | None, folder: Path,
    sizes: Mapping[str, int],
) -> "Array":  # fmt: skip
    dtype = port.dtype or (stored.dtype if stored else "")
    limits = port.limits(sizes)
    if all(map(math.isfinite, limits)) and dtype and dtype not in _UNORDERED:
        return _drawn(dtype, shape, limits)
    if stored is None:
        raise EvidenceError("an input has neither a range to draw from nor a stored value")
    if stored.kind != "tensor":
        raise EvidenceError(f"input {stored.name!r} is stored as a {stored.kind}")
    return _fitted(read_value(stored, folder), shape)


def _drawn(dtype: str, shape: tuple[int, ...], limits: tuple[float, float]) -> "Array":
    """Draw evenly between two limits, which are the first and the last element themselves."""
    import ml_dtypes
    import numpy as np

    target = numpy_dtype(dtype)
    seed = hashlib.sha256(f"{dtype}{shape}{limits}".encode()).digest()
    random = np.random.default_rng(int.from_bytes(seed, "big"))
    low: Any
    high: Any
    drawn: Any
    if "int" in dtype:
        info = ml_dtypes.iinfo(target)  # type: ignore[no-untyped-call]
        low = max(math.ceil(limits[0]), int(info.min))
        high = min(math.floor(limits[1]), int(info.max), 2**63 - 1)
    else:
        limit = float(ml_dtypes.finfo(target).max)  # type: ignore[no-untyped-call]
        low, high = max(limits[0], -limit), min(limits[1], limit)
    if low > high:
        raise EvidenceError(f"no {dtype} lies between {limits[0]:g} and {limits[1]:g}")
    if "int" in dtype:
        drawn = random.integers(low, high, shape, endpoint=True)
    else:
        # Halves, so that a range as wide as the type does not overflow.
        drawn = (low / 2 + (high / 2 - low / 2) * random.random(shape)) * 2
    array: Array = np.asarray(drawn).astype(target)
    if array.size:
        flat = array.reshape(-1)
        flat[-1], flat[0] = target.type(high), target.type(low)
    return array


def _fitted(value: Any, shape: tuple[int, ...]) -> "Array":  # noqa: ANN401 - a tensor's value
    """Cut or repeat a stored array along every axis."""
    import numpy as np

    array: Array = value
    if array.ndim != len(shape):
        raise EvidenceError(f"a stored input has rank {array.ndim}, the contract {len(shape)}")
    for axis, size in enumerate(shape):
        if size != array.shape[axis] and not array.shape[axis]:
            raise EvidenceError("a stored input is empty, there is nothing to repeat")
        if size != array.shape[axis]:
            array = np.take(array, np.arange(size) % array.shape[axis], axis=axis)
    return array
