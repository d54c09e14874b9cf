from typing import Any

import numpy as np
import pytest

from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.compare.decisions.tables import table_of
from ci_parity.records.arrays import flatten


def scalar(value: float) -> Any:
    """Return a float32 of rank 0."""
    return np.array(value, np.float32)


def test_a_tensor_is_itself() -> None:
    """Without names."""
    array = np.zeros((2, 3))
    found, names = table_of(array)
    assert found is array
    assert names == ()


@pytest.mark.parametrize("keys", [("dog", "cat"), (10, 9), ("b", 1, "a", 0)])
def test_zipmaps_scores_are_a_table(keys: tuple[Any, ...]) -> None:
    """In the order of the tensor comparison, whatever the order of the keys."""
    rows: Any = [
        {key: scalar(n + i) for i, key in enumerate(keys)} for n in range(3)
    ]  # fmt: skip
    rows[1] = dict(reversed(list(rows[1].items())))
    found, names = table_of(rows)
    flat = flatten("p", rows)
    assert found.dtype == np.float32
    assert found.tolist() == flat["p.values"].tolist()
    assert list(names) == [str(key) for key in flat["p.keys"][0]]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"a": scalar(1)},
        [scalar(1)],
        [{"a": scalar(1)}, None],
        [{"a": scalar(1)}, {"b": scalar(1)}],
        [{"a": np.zeros(2)}],
        [{"a": scalar(1), "b": np.array(1)}],
        [{"a": None}],
        [{}],
    ],
)
def test_what_is_no_table_is_refused(value: Any) -> None:
    """Each with a reason."""
    with pytest.raises(UnusableError):
        table_of(value)
