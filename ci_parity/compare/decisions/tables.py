"""A value as one array: a tensor as it is, ZipMap's sequence of maps as a table of its scores."""

from typing import TYPE_CHECKING

from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.records.arrays import flatten
from ci_parity.records.values import Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]


def table_of(value: Value) -> "tuple[Array, tuple[str, ...]]":
    """Return an output as an array, and the names of its classes where it has them.

    A sequence of maps of scalars with equal keys is [items, keys], as the tensor comparison has it.

    Raises:
        UnusableError: it is neither a tensor nor such a sequence.
    """
    import numpy as np

    if isinstance(value, np.ndarray):
        return value, ()
    parts = flatten("", value) if isinstance(value, list) else {}
    keys, scores = parts.get(".keys"), parts.get(".values")
    if keys is None or scores is None or not scores.size:
        raise UnusableError("the output is neither a tensor nor a sequence of maps of scores")
    if (keys != keys[0]).any():
        raise UnusableError("the maps of the sequence have other keys")
    return scores, tuple(map(str, keys[0].tolist()))
