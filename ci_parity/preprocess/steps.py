"""One step from a raw input to a tensor, with what it made: what a walk yields."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.preprocess.places import EXTRA
from ci_parity.records.preprocess import StepSummary, TensorSummary

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
_PREVIEW_VALUES = 8
_PREVIEW_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step made: an array, or a text where there is none yet.

    `input` is the model's input that the array is for, empty before the last step. `words` say in
    one line what was done to this very input.
    """

    name: str
    words: str
    array: "Array | None" = None
    text: str = ""
    input: str = ""

    @property
    def summary(self) -> StepSummary:
        """The step in words and numbers."""
        array = self.array
        return StepSummary(
            name=self.name,
            words=self.words,
            preview=shortened(self.text) if array is None or self.text else first_values(array),
            tensor=None if array is None else summary_of(array),
        )


def summary_of(array: "Array") -> TensorSummary:
    """Return a tensor in numbers; infinities and NaN count for none of them."""
    import numpy as np

    numbers = array.dtype.kind in "fiub"
    wide = array[np.isfinite(array)].astype(np.float64) if numbers else np.zeros(0)
    some = wide.size > 0
    return TensorSummary(
        dtype="string" if array.dtype.kind in "OU" else str(array.dtype),
        shape=tuple(map(int, array.shape)),
        minimum=float(wide.min()) if some else None,
        maximum=float(wide.max()) if some else None,
        mean=float(wide.mean()) if some else None,
    )


def first_values(array: "Array") -> str:
    """Return the first elements as text."""
    items = array.reshape(-1)[:_PREVIEW_VALUES].tolist()
    listed = ", ".join(f"{item:.6g}" if isinstance(item, float) else str(item) for item in items)
    return shortened(f"{listed}, …" if array.size > _PREVIEW_VALUES else listed)


def shortened(text: str) -> str:
    """Return at most so much of a text as a line of a report can bear, control characters shown."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:_PREVIEW_CHARACTERS])
    return f"{shown} …" if len(text) > _PREVIEW_CHARACTERS else shown


def library(name: str) -> ModuleType:
    """Import a library of the extra `preprocess`.

    Raises:
        InfrastructureError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise InfrastructureError(
            f"preprocessing needs the library {name.partition('.')[0]}", remedy=EXTRA
        ) from error


@contextmanager
def refusing(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn what a library raises for a broken input into a refusal."""
    broken: tuple[type[Exception], ...] = (ValueError, OSError, EOFError, MemoryError, *kinds)
    try:
        yield
    except broken as error:
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        raise EvidenceError(
            f"{what}: {detail}", where="the raw input", remedy="replace the raw input of this case"
        ) from error


def finished(name: str, array: "Array", *, batch: bool, dtype: str) -> Step:
    """Return the last step: batch axis and element type; whole numbers are rounded and bounded."""
    import numpy as np

    made = typed(array, dtype)
    result = np.ascontiguousarray(made[None] if batch else made)
    shape = " x ".join(map(str, result.shape))
    return Step(
        name="tensor", words=f"{dtype} {shape} for input {name!r}", array=result, input=name
    )


def typed(array: "Array", dtype: str) -> "Array":
    """Return an array of another element type; what a float type cannot hold is infinite there."""
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind != "f" and not np.can_cast(array.dtype, kind):
        return bounded(array, kind)
    with np.errstate(over="ignore"):
        return array.astype(kind)


def bounded(values: "Array", kind: "np.dtype[Any]") -> "Array":
    """Round to the nearest whole numbers, half to even, within the range of an integer type."""
    import numpy as np

    limits = np.iinfo(kind)
    whole = np.rint(values.astype(np.float64)) if values.dtype.kind == "f" else values
    return np.clip(whole, limits.min, limits.max).astype(kind)
