from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.contract import contract
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.values import read_value
from ci_parity.stages.self_check_inputs import (
    MAX_REPEATED,
    MAX_STACKED,
    Made,
    batched,
    padded,
    repeated,
)
from ci_parity.stages.suite import write_inputs


def stored(folder: Path, **cases: dict[str, Any]) -> InputSet:
    """Write stored cases."""
    return write_inputs(cases.items(), folder, source="fixtures")


def rows(*values: float, width: int = 2) -> Any:
    """Return rows of equal numbers."""
    return np.repeat(np.array(values, np.float32)[:, None], width, axis=1)


def fed(inputs: InputSet, case: CaseInputs) -> dict[str, Any]:
    """Return what a case is fed."""
    return {record.name: read_value(record, Path(inputs.folder)) for record in case.inputs}


def first_column(inputs: InputSet, made: Made) -> list[list[float]]:
    """Return the first element of every row of every case."""
    return [fed(inputs, case)["x"][:, 0].tolist() for case in made.cases]


def test_repeats_take_turns(tmp_path: Path) -> None:
    """Other cases run in between, and the files are those that are there."""
    inputs = stored(tmp_path, a={"x": rows(1)}, b={"x": rows(2)})
    made = repeated(inputs, 3)
    assert [case.inputs for case in made.cases] == [case.inputs for case in inputs.cases] * 2
    assert [a.case for a in made.agreements] == ["a", "b", "a", "b"]
    assert len({case.case for case in made.cases}) == 4
    assert all(case.once for case in made.cases)
    assert repeated(inputs, 1) == Made()


def test_repeats_are_bounded(tmp_path: Path) -> None:
    """However large the fixture set is."""
    cases: dict[str, dict[str, Any]] = {f"c{i}": {"x": rows(i)} for i in range(20)}
    assert len(repeated(stored(tmp_path, **cases), 2).cases) == MAX_REPEATED


def test_rows_of_a_stored_batch_run_alone(tmp_path: Path) -> None:
    """The first, the middle and the last; the batch itself has run already."""
    inputs = stored(tmp_path, many={"x": rows(*range(9))})
    made = batched(inputs, {"x": 0}, rows=True, order=False)
    assert first_column(inputs, made) == [[0], [4], [8]]
    assert [(a.first.case, a.first.rows, a.first.batch) for a in made.agreements] == [
        ("many", (0,), 9), ("many", (4,), 9), ("many", (8,), 9),
    ]  # fmt: skip
    assert [a.second.case for a in made.agreements] == [case.case for case in made.cases]


def test_single_rows_are_stacked(tmp_path: Path) -> None:
    """One further run; alone they have run already."""
    cases: dict[str, dict[str, Any]] = {f"c{i}": {"x": rows(i)} for i in range(6)}
    inputs = stored(tmp_path, **cases)
    made = batched(inputs, {"x": 0}, rows=True, order=False)
    assert first_column(inputs, made) == [[0, 1, 2]]
    assert [(a.first.rows, a.second.case) for a in made.agreements] == [
        ((i,), f"c{i}") for i in range(MAX_STACKED)
    ]


def test_a_row_without_a_like_gets_a_companion(tmp_path: Path) -> None:
    """Of its own elements: floats doubled, integers and texts as they are."""
    inputs = stored(
        tmp_path,
        one={
            "x": np.array([[1, 2, 3]], np.float32),
            "ids": np.array([[7, 8, 9]]),
            "words": np.array([["a", "b", "c"]], dtype=object),
        },
    )
    made = batched(inputs, {"x": 0, "ids": 0, "words": 0}, rows=True, order=False)
    (case,) = made.cases
    found = fed(inputs, case)
    assert found["x"].tolist() == [[1, 2, 3], [6, 4, 2]]
    assert found["ids"].tolist() == [[7, 8, 9], [9, 8, 7]]
    assert found["words"].tolist() == [["a", "b", "c"], ["c", "b", "a"]]
    (agreement,) = made.agreements
    assert (agreement.first.rows, agreement.second.case) == ((0,), "one")


def test_another_order_moves_every_row(tmp_path: Path) -> None:
    """And is compared row by row."""
    inputs = stored(tmp_path, many={"x": rows(0, 1, 2)})
    made = batched(inputs, {"x": 0}, rows=False, order=True)
    assert first_column(inputs, made) == [[1, 2, 0]]
    (agreement,) = made.agreements
    assert (agreement.check, agreement.first.rows) == ("order", (1, 2, 0))
    assert agreement.second.rows == (0, 1, 2)


def test_a_batch_along_another_dimension(tmp_path: Path) -> None:
    """As recurrent networks have it; each input has its own."""
    state = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    inputs = stored(tmp_path, many={"x": rows(0, 1, 2), "state": state})
    made = batched(inputs, {"x": 0, "state": 1}, rows=False, order=True)
    found = fed(inputs, made.cases[0])
    assert found["x"][:, 0].tolist() == [1, 2, 0]
    assert np.array_equal(found["state"], state[:, [1, 2, 0]])


def test_only_like_cases_are_stacked(tmp_path: Path) -> None:
    """Of one shape, with the same values of everything that is not batched."""
    inputs = stored(
        tmp_path,
        a={"x": rows(1), "rate": np.array(8)}, b={"x": rows(2), "rate": np.array(16)},
        c={"x": rows(3), "rate": np.array(8)}, d={"x": rows(4, width=3), "rate": np.array(8)},
    )  # fmt: skip
    made = batched(inputs, {"x": 0}, rows=True, order=False)
    assert first_column(inputs, made) == [[1, 3]]
    assert fed(inputs, made.cases[0])["rate"] == 8


def test_groups_are_bounded(tmp_path: Path) -> None:
    """One shape stands for all."""
    cases: dict[str, dict[str, Any]] = {f"w{w}": {"x": rows(1, 2, 3, width=w)} for w in range(2, 9)}
    made = batched(stored(tmp_path, **cases), {"x": 0}, rows=True, order=True)
    assert len(made.cases) == 4


@pytest.mark.parametrize(
    "case",
    [
        {"x": np.zeros((0, 2), np.float32)},
        {"other": np.zeros(2)},
        {"x": [np.zeros(2)]},
        {"x": np.array(1.0)},
        {"x": np.zeros((2, 2)), "y": np.zeros((3, 2))},
    ],
)
def test_where_there_are_no_rows_nothing_is_made(tmp_path: Path, case: Any) -> None:
    """And it is said."""
    axes = {"x": 0, "y": 0} if "y" in case else {"x": 0}
    made = batched(stored(tmp_path, a=case), axes, rows=True, order=True)
    assert (made.cases, made.agreements) == ((), ())
    assert "no stored case" in made.why_not


# Padding.

STATED: dict[str, Any] = {
    "inputs": {"x": {"shape": ["batch", "width"]}, "mask": {"shape": ["width"]}},
    "padding": {"axis": "width", "values": {"x": -1, "mask": 0}},
}


def test_padding_is_appended_to_every_input_that_has_the_dimension(tmp_path: Path) -> None:
    """To twice the size where none is listed; other inputs stay."""
    inputs = stored(tmp_path, a={"x": rows(5), "mask": np.ones(2, np.bool_), "rate": np.array(8)})
    made = padded(inputs, contract(STATED))
    found = fed(inputs, made.cases[0])
    assert found["x"].tolist() == [[5, 5, -1, -1]]
    assert found["mask"].tolist() == [True, True, False, False]
    assert found["x"].dtype == np.float32
    assert found["rate"] == 8
    (agreement,) = made.agreements
    assert agreement.trimmed
    assert "from width 2 to 4" in agreement.said


def test_padding_goes_to_the_next_listed_size(tmp_path: Path) -> None:
    """Cases that are as large as any listed size are left out, two are enough."""
    cases: dict[str, dict[str, Any]] = {
        f"w{w}": {"x": rows(1, width=w), "mask": np.ones(w, np.bool_)} for w in (9, 2, 8, 3, 4)
    }
    inputs = stored(tmp_path, **cases)
    made = padded(inputs, contract(STATED | {"sizes": {"width": [8, 4]}}))
    assert [fed(inputs, case)["x"].shape[1] for case in made.cases] == [4, 4]
    assert [agreement.case for agreement in made.agreements] == ["w2", "w3"]


@pytest.mark.parametrize(
    "case",
    [
        {"x": rows(1, width=0), "mask": np.ones(0, np.bool_)},
        {"x": np.zeros(3, np.float32), "mask": np.ones(3, np.bool_)},
        {"x": rows(1, width=2), "mask": np.ones(3, np.bool_)},
        {"x": [np.zeros(3, np.float32)], "mask": np.ones(3, np.bool_)},
    ],
)
def test_what_does_not_fit_the_contract_is_not_padded(tmp_path: Path, case: Any) -> None:
    """Empty, of another rank, of two sizes at once, no tensor at all."""
    made = padded(stored(tmp_path, a=case), contract(STATED))
    assert made.cases == ()
    assert "smaller in width" in made.why_not


@pytest.mark.parametrize(
    "x", [np.ones((1, 2), np.int64), np.array([["a", "b"]], dtype=object)], ids=["int", "text"]
)
def test_a_value_the_input_cannot_hold_is_a_mistake_in_the_config(tmp_path: Path, x: Any) -> None:
    """A half is no integer, and no number is a text."""
    stated = {
        "inputs": {"x": {"shape": ["batch", "width"]}},
        "padding": {"axis": "width", "values": {"x": 0.5}},
    }
    with pytest.raises(ConfigError, match="cannot be padded"):
        padded(stored(tmp_path, a={"x": x}), contract(stated))
