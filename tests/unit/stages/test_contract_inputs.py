import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.config.contract import contract
from ci_parity.records.values import ELEMENT_TYPES, numpy_dtype, read_value
from ci_parity.stages.contract_inputs import ListedRun, _drawn, _fitted, listed_runs
from ci_parity.stages.suite import write_inputs

STORED = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "rate": np.array(16000)}


def runs(folder: Path, stated: Any, **stored: Any) -> tuple[list[ListedRun], list[str]]:
    """Return the runs of a contract over one stored case."""
    inputs = write_inputs([("one", stored or STORED)], folder, source="fixtures")
    return listed_runs(contract(stated), inputs)


def values(folder: Path, run: ListedRun) -> dict[str, Any]:
    """Return what a run is fed."""
    return {record.name: read_value(record, folder) for record in run.case.inputs}


def test_every_listed_size_becomes_a_case(tmp_path: Path) -> None:
    """Under a name no stored case can have, run once, what is not stated fed as stored."""
    stated = {
        "inputs": {"x": {"shape": ["b", "w"], "range": [-1, 1]}},
        "sizes": {"b": [1, 4], "w": [3, 5]},
    }
    made, refused = runs(tmp_path, stated)
    assert refused == []
    assert [run.name for run in made] == ["b=1, w=3", "b=4, w=3", "b=1, w=5", "b=4, w=5"]
    assert all("/" in run.case.case and run.case.once for run in made)
    assert len({run.case.case for run in made}) == 4
    for run in made:
        fed = values(tmp_path, run)
        assert fed["x"].shape == (run.sizes["b"], run.sizes["w"])
        assert fed["x"].dtype == np.float32
        assert (fed["x"].min(), fed["x"].max()) == (-1, 1)
        assert fed["rate"] == 16000


def test_sizes_nobody_lists_are_those_stored(tmp_path: Path) -> None:
    """Symbols and dimensions of any size alike."""
    stated = {"inputs": {"x": {"shape": ["b", None], "range": [0, 1]}}}
    (run,), refused = runs(tmp_path, stated)
    assert refused == []
    assert run.name == "stored sizes"
    assert dict(run.sizes) == {"b": 2}
    assert values(tmp_path, run)["x"].shape == (2, 3)


def test_nothing_is_run_where_nothing_is_promised_of_sizes_or_values(tmp_path: Path) -> None:
    """The stored cases say the rest."""
    assert runs(tmp_path, {"inputs": {"x": {"shape": ["b", 3]}}}) == ([], [])
    assert runs(tmp_path, {"opset": 17}) == ([], [])


def test_a_range_may_follow_a_size(tmp_path: Path) -> None:
    """Lengths that are never longer than what they measure."""
    stated = {
        "inputs": {
            "x": {"shape": ["b", "w"]},
            "lengths": {"dtype": "int64", "shape": ["b"], "range": [1, "w"]},
        },
        "sizes": {"w": [2, 50], "b": [9]},
    }
    made, refused = runs(tmp_path, stated)
    assert refused == []
    highest = [int(values(tmp_path, run)["lengths"].max()) for run in made]
    assert highest == [2, 50]


def test_without_a_range_the_stored_values_are_repeated_or_cut(tmp_path: Path) -> None:
    """Along every dimension, in their order."""
    stated = {"inputs": {"x": {"shape": ["b", "w"]}}, "sizes": {"b": [3], "w": [2]}}
    (run,), _ = runs(tmp_path, stated)
    assert values(tmp_path, run)["x"].tolist() == [[0, 1], [3, 4], [0, 1]]


@pytest.mark.parametrize(
    ("stated", "stored", "said"),
    [
        ({"shape": ["b", "t"]}, {"x": np.zeros((2, 3, 4))}, "no size is listed or stored"),
        ({"shape": ["b", 3]}, {"x": np.zeros((0, 3))}, "nothing to repeat"),
        ({"shape": ["b", 3]}, {"x": [np.zeros(3)]}, "stored as a sequence"),
        ({"shape": ["b", 3]}, {"other": np.zeros(3)}, "neither a range"),
        ({"shape": ["b"], "dtype": "int8", "range": [0.2, 0.8]}, {"x": np.zeros(1)}, "no int8"),
        ({"shape": ["b", 3]}, {"x": np.zeros(3)}, "rank 1, the contract 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_fed_is_said(tmp_path: Path, stated: Any, stored: Any, said: str) -> None:
    """With the size it concerns."""
    made, refused = runs(tmp_path, {"inputs": {"x": stated}, "sizes": {"b": [2]}}, **stored)
    assert made == []
    (words,) = refused
    assert words.startswith("b=2: ")
    assert said in words


def test_too_many_elements_are_not_written(tmp_path: Path) -> None:
    """Where sizes come from the stored case, which the config cannot count."""
    stated = {"inputs": {"x": {"shape": ["b", "w", "w", "w"], "range": [0, 1]}}}
    wide = stated | {"sizes": {"b": [200_000]}}
    _, refused = runs(tmp_path, wide, x=np.zeros((1, 12, 12, 12), np.float32))
    assert "elements" in refused[0]


@pytest.mark.parametrize("dtype", sorted(set(ELEMENT_TYPES) - {"bool", "complex64", "complex128"}))
def test_every_type_is_drawn_inside_its_range(dtype: str) -> None:
    """Both ends included, whatever the width."""
    low, high = (0, 1) if dtype in {"int2", "uint2", "float8e8m0"} else (0, 3)
    low = 1 if dtype == "float8e8m0" else low
    drawn = _drawn(dtype, (5, 7), (low, high)).astype(np.float64)
    assert drawn.shape == (5, 7)
    assert (drawn.min(), drawn.max()) == (low, high)


@given(
    st.floats(-1e300, 1e300), st.floats(-1e300, 1e300),
    st.sampled_from(["float16", "float32", "float64", "bfloat16"]),
)  # fmt: skip
def test_no_draw_leaves_its_range(a: float, b: float, dtype: str) -> None:
    """Nor overflows, where the range is wider than the type."""
    info = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    most = float(info.max)
    low, high = max(min(a, b), -most), min(max(a, b), most)
    if low > high:
        with pytest.raises(EvidenceError, match=f"no {dtype} lies between"):
            _drawn(dtype, (50,), (min(a, b), max(a, b)))
        return
    drawn = _drawn(dtype, (50,), (min(a, b), max(a, b))).astype(np.float64)
    assert np.isfinite(drawn).all()
    slack = 0.01 * max(abs(low), abs(high)) + float(info.smallest_normal)
    assert (drawn >= low - slack).all()
    assert (drawn <= high + slack).all()


def test_the_same_contract_draws_the_same_values() -> None:
    """So that a finding can be looked at again."""
    assert np.array_equal(_drawn("float32", (9,), (0, 1)), _drawn("float32", (9,), (0, 1)))
    assert not np.array_equal(_drawn("float32", (9,), (0, 1)), _drawn("float32", (9,), (0, 2)))
    assert _drawn("float32", (0, 4), (0, 1)).shape == (0, 4)
    assert _drawn("float32", (), (0, 1)).shape == ()
    assert math.isclose(float(_drawn("float32", (), (2, 2))), 2)


def test_what_fits_is_left_as_it_is() -> None:
    """Strings and empty dimensions too."""
    texts = np.array(["a", "b"], dtype=object)
    assert _fitted(texts, (2,)) is texts
    assert _fitted(texts, (3,)).tolist() == ["a", "b", "a"]
    assert _fitted(np.zeros((0, 3)), (0, 5)).shape == (0, 5)
