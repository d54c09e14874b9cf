from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ci_parity.compare.contract_values import bound_sizes, value_problems
from ci_parity.config.contract import contract
from ci_parity.config.model import PortContract
from ci_parity.records.values import ValueRecord
from tests.support.observations import records


def ports(**raw: Any) -> Any:
    """Return the ports of a contract."""
    return contract({"outputs": raw}).outputs


def problems(
    folder: Path, stated: dict[str, PortContract], *, finite: bool = True,
    sizes: dict[str, int] | None = None, **values: Any,
) -> list[tuple[str, str, str]]:  # fmt: skip
    """Return kind, port and words of what is wrong with some values."""
    written = records(folder, values)
    found = value_problems(stated, written, folder, sizes or {}, finite=finite)
    return [(problem.kind, problem.port, problem.said) for problem in found]


def kinds(*given: Any, **values: Any) -> list[str]:
    """Return the kinds alone."""
    return [kind for kind, _, _ in problems(*given, **values)]


def test_values_as_stated_have_no_problem(tmp_path: Path) -> None:
    """Type, shape, range; what the contract does not name is not looked at."""
    stated = ports(y={"dtype": "float32", "shape": ["b", 2], "range": [0, 1]})
    y = np.array([[0, 1], [0.5, 0.25]], np.float32)
    assert problems(tmp_path, stated, sizes={"b": 2}, y=y, other=np.float32("nan")) == []


@pytest.mark.parametrize(
    ("port", "value", "kind"),
    [
        ({"dtype": "float16"}, np.zeros(2, np.float32), "dtype"),
        ({"shape": ["b", 3]}, np.zeros((2, 4), np.float32), "shape"),
        ({"shape": ["b"]}, np.zeros((2, 4), np.float32), "shape"),
        ({"range": [0, 1]}, np.array([0, 1.01], np.float32), "range"),
        ({"range": [0, 1]}, np.array([-1, 1], np.int64), "range"),
        ({"range": [0, None]}, np.array([-0.5, np.inf], np.float32), "range"),
        ({}, np.array([1, np.nan], np.float32), "finite"),
        ({}, np.array([1, np.inf], np.float32), "finite"),
        ({"range": [0, 1]}, np.array([np.nan], np.float32), "finite"),
        ({"range": [0, 1]}, np.array([2], ml_dtypes.bfloat16), "range"),
        ({"shape": [1]}, [np.zeros(1, np.float32)], "dtype"),
    ],
)
def test_each_kind_of_problem(tmp_path: Path, port: Any, value: Any, kind: str) -> None:
    """By its own word."""
    assert kinds(tmp_path, ports(y=port), y=value) == [kind]


@pytest.mark.parametrize(
    ("port", "value"),
    [
        ({"range": [0, None]}, np.array([0, np.inf], np.float32)),
        ({"range": [0, 1]}, np.array([1 + 2e-7], np.float32)),
        ({"range": [0, 1]}, np.zeros(0, np.float32)),
        ({"range": [0, 1]}, np.array([True])),
        ({"shape": [None, 2]}, np.zeros((7, 2), np.float32)),
        ({}, np.array(["text"], dtype=object)),
    ],
)
def test_what_is_inside(tmp_path: Path, port: Any, value: Any) -> None:
    """An infinite bound, a last bit, no elements, values without an order."""
    assert kinds(tmp_path, ports(y=port), y=value) == []


def test_the_slack_is_no_licence(tmp_path: Path) -> None:
    """A few units in the last place, of the bound and the type; integers have none."""
    stated = ports(y={"range": [0, 1]})
    assert kinds(tmp_path, stated, y=np.array([1 + 1e-6], np.float32)) == ["range"]
    assert kinds(tmp_path, stated, y=np.array([1 + 1e-6], np.float64)) == ["range"]
    assert kinds(tmp_path, stated, y=np.array([-1e-6], np.float32)) == ["range"]
    zero = ports(y={"range": [0, None]})
    assert kinds(tmp_path, zero, y=np.array([-1e-30], np.float32)) == ["range"]


def test_numbers_nobody_stated_are_not_judged_in_stored_cases(tmp_path: Path) -> None:
    """There the comparison with the reference decides what a NaN means."""
    y = np.array([np.nan], np.float32)
    assert kinds(tmp_path, ports(y={}), finite=False, y=y) == []
    assert kinds(tmp_path, ports(y={"range": [0, 1]}), finite=False, y=y) == ["finite"]


def test_a_symbol_has_one_size_wherever_it_stands(tmp_path: Path) -> None:
    """Given by inputs, or by the first output that has it."""
    stated = ports(a={"shape": ["b", "t"]}, c={"shape": ["t"], "range": [0, "t"]})
    a = np.zeros((2, 5), np.float32)
    assert problems(tmp_path, stated, sizes={"b": 2}, a=a, c=np.full(5, 5, np.float32)) == []
    found = problems(tmp_path, stated, sizes={"b": 3}, a=a, c=np.zeros(5, np.float32))
    assert found == [("shape", "a", "its shape is [2, 5], the contract says [b, t] with b = 3")]
    assert kinds(tmp_path, stated, sizes={"b": 2}, a=a, c=np.zeros(4, np.float32)) == ["shape"]
    assert kinds(tmp_path, stated, a=a, c=np.full(5, 6, np.float32)) == ["range"]


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    """Never a crash: a worker wrote it."""
    stated = ports(y={"range": [0, 1]})
    record = ValueRecord(name="y", kind="tensor", dtype="float32", shape=(4,), file="none.bin")
    found = list(value_problems(stated, [record], tmp_path, {}, finite=True))
    assert [problem.kind for problem in found] == ["unreadable"]


def test_sizes_are_bound_by_inputs(tmp_path: Path) -> None:
    """A contradiction is said, and the first size holds."""
    stated = contract({"inputs": {"a": {"shape": ["b", 3]}, "c": {"shape": ["b", "t"]}}}).inputs
    fitting = records(tmp_path, {"a": np.zeros((2, 3)), "c": np.zeros((2, 7)), "d": np.zeros(9)})
    assert bound_sizes(stated, fitting) == ({"b": 2, "t": 7}, ())
    odd = records(tmp_path, {"a": np.zeros((2, 3)), "c": np.zeros((4, 7))})
    sizes, said = bound_sizes(stated, odd)
    assert sizes["b"] == 2
    assert [problem.port for problem in said] == ["c"]


def test_large_arrays_are_read_in_blocks(tmp_path: Path) -> None:
    """The last element of several blocks counts like the first."""
    y = np.zeros((1 << 21) + 3, np.float32)
    y[-1] = 2
    assert kinds(tmp_path, ports(y={"range": [0, 1]}), y=y) == ["range"]
