"""Values against the contract: stored inputs, and the outputs of every run it is judged by.

Sizes are bound from the inputs of a run and must be the same wherever an output names the symbol.
Reads exchange files; a value that cannot be read is a problem of that run. Nothing is run here.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.contract import describe
from ci_parity.config.model import PortContract
from ci_parity.records.values import ValueRecord, numpy_dtype, read_value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_BLOCK = 1 << 20
# A sigmoid or softmax may end a rounding or two beyond 1, on every runtime.
_SLACK_ULP = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What speaks against one port: the kind of finding without its prefix, and the words."""

    kind: str
    port: str
    said: str


def bound_sizes(
    stated: Mapping[str, PortContract], values: Iterable[ValueRecord]
) -> tuple[dict[str, int], tuple[Problem, ...]]:
    """Return the size of every symbol, as the values have it, and what does not fit."""
    sizes: dict[str, int] = {}
    problems: list[Problem] = []
    for record in values:
        if record.name in stated:
            problems.extend(_shape_problems(stated[record.name], record, sizes))
    return sizes, tuple(problems)


def value_problems(
    stated: Mapping[str, PortContract], values: Sequence[ValueRecord], folder: Path,
    sizes: Mapping[str, int], *, finite: bool,
) -> Iterator[Problem]:  # fmt: skip
    """Yield what speaks against the values of one side of a run.

    Args:
        stated: the contract of that side.
        values: what was fed or computed.
        folder: where their files are.
        sizes: the symbols' sizes, by which every value is judged.
        finite: whether NaN and infinities fail where no range is stated.
    """
    known = dict(sizes)
    for record in values:
        port = stated.get(record.name)
        if port is None:
            continue
        if record.kind != "tensor":
            if port.dtype or port.shape is not None:
                yield Problem(kind="dtype", port=record.name, said=f"it is a {record.kind}")
            continue
        if port.dtype and record.dtype != port.dtype:
            said = f"it is {record.dtype}, the contract says {port.dtype}"
            yield Problem(kind="dtype", port=record.name, said=said)
        yield from _shape_problems(port, record, known)
        yield from _number_problems(port, record, folder, known, finite=finite)


def _shape_problems(
    port: PortContract, record: ValueRecord, sizes: dict[str, int]
) -> Iterator[Problem]:
    """Yield what is wrong with a shape; symbols met for the first time are added to `sizes`."""
    if port.shape is None or record.kind != "tensor":
        return
    both = f"its shape is {describe(record.shape)}, the contract says {describe(port.shape)}"
    if len(record.shape) != len(port.shape):
        yield Problem(kind="shape", port=record.name, said=both)
        return
    for wanted, found in zip(port.shape, record.shape, strict=True):
        expected = sizes.setdefault(wanted, found) if isinstance(wanted, str) else wanted
        if expected is not None and expected != found:
            given = f" with {wanted} = {expected}" if isinstance(wanted, str) else ""
            yield Problem(kind="shape", port=record.name, said=both + given)
            return


def _number_problems(
    port: PortContract, record: ValueRecord, folder: Path, sizes: Mapping[str, int], *,
    finite: bool,
) -> Iterator[Problem]:  # fmt: skip
    if port.range is None and not finite:
        return
    limits = port.limits(sizes)
    try:
        array: Any = read_value(record, folder)
        if record.dtype == "bool" or array.dtype.kind in "OUSc":
            return
        extent = _extent(array)
    except EvidenceError as error:
        yield Problem(kind="unreadable", port=record.name, said=error.what)
        return
    nans, infinities, low, high = extent
    if nans or (infinities and port.range is None):
        said = f"{nans or infinities} of {array.size} elements are {'NaN' if nans else 'infinite'}"
        yield Problem(kind="finite", port=record.name, said=said)
    if port.range is None or array.size == nans:
        return
    slack = _slack(record.dtype, limits)
    if low < limits[0] - slack or high > limits[1] + slack:
        said = f"it goes from {low:.6g} to {high:.6g}, the contract from {limits[0]:g} to "
        yield Problem(kind="range", port=record.name, said=f"{said}{limits[1]:g}")


def _extent(array: "npt.NDArray[np.generic]") -> tuple[int, int, float, float]:
    """Return the counts of NaN and of infinities, and the lowest and highest number."""
    import numpy as np

    nans, infinities, low, high = 0, 0, math.inf, -math.inf
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        odd = np.isnan(block)
        nans += int(np.count_nonzero(odd))
        infinities += int(np.count_nonzero(np.isinf(block)))
        numbers = block[~odd]
        if numbers.size:
            low, high = min(low, float(numbers.min())), max(high, float(numbers.max()))
    return nans, infinities, low, high


def _slack(dtype: str, limits: tuple[float, float]) -> float:
    """Return how far beyond a limit a float of this type may round."""
    import ml_dtypes

    if "int" in dtype:
        return 0.0
    finite = [abs(limit) for limit in limits if math.isfinite(limit)]
    eps = float(ml_dtypes.finfo(numpy_dtype(dtype)).eps)  # type: ignore[no-untyped-call]
    return _SLACK_ULP * eps * max(finite, default=0.0)
