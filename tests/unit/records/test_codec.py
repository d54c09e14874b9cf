import dataclasses
import enum
import importlib
import math
import pkgutil
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ci_parity.records
from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import from_bytes, from_json, to_bytes, to_json
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ValueRecord

SAFE = 2**53 - 1


def record_classes() -> list[type[Any]]:
    """Return every record there is."""
    names = [info.name for info in pkgutil.iter_modules(ci_parity.records.__path__)]
    modules = [importlib.import_module(f"ci_parity.records.{name}") for name in names]
    items = {name: item for module in modules for name, item in vars(module).items()}
    return [i for i in items.values() if isinstance(i, type) and dataclasses.is_dataclass(i)]


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=6),
    int: st.integers(-SAFE, SAFE),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    type(None): st.none(),
    Path: st.text("ab/.", max_size=6).map(Path),
}


def values_of(kind: Any, depth: int = 3) -> st.SearchStrategy[Any]:
    """Return values of an annotation; records inside records only so deep."""
    if kind in SCALARS:
        return SCALARS[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if arguments[1:] != (...,):
            return st.tuples(*(values_of(argument, depth) for argument in arguments))
        if depth == 0:
            return st.just(())
        return st.lists(values_of(arguments[0], depth - 1), max_size=2).map(tuple)
    if origin is Mapping:
        keys, values = (values_of(argument, depth - 1) for argument in arguments)
        return st.dictionaries(keys, values, max_size=2)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of(*(values_of(argument, depth) for argument in arguments))
    if issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: values_of(hint, depth) for name, hint in hints.items()})


@pytest.mark.parametrize("kind", record_classes(), ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(deadline=None, max_examples=8)
def test_every_record_survives(kind: type[Any], data: st.DataObject) -> None:
    """As plain JSON and as bytes, and its bytes are one and the same each time."""
    record = data.draw(values_of(kind))
    assert from_json(kind, to_json(record), where="test") == record
    written = to_bytes(record)
    assert from_bytes(kind, written, where="test") == record
    assert to_bytes(from_bytes(kind, written, where="test")) == written


@pytest.mark.parametrize("kind", record_classes(), ids=lambda kind: kind.__name__)
def test_every_record_is_frozen_and_keyword_only(kind: type[Any]) -> None:
    """Nobody changes what another stage recorded."""
    parameters = typing.cast("Any", kind).__dataclass_params__
    assert parameters.frozen
    assert all(field.kw_only for field in dataclasses.fields(kind))
    assert "__slots__" in vars(kind)


RUN = CaseRun(
    case="typical",
    status=RunStatus.OK,
    outputs=(
        ValueRecord(
            name="y",
            kind="sequence",
            items=(ValueRecord(name="", kind="tensor", dtype="int64", shape=(2, 0), file="f"),),
        ),
    ),
    duration_ms=1.5,
)


def test_json_is_plain() -> None:
    """Tuples are lists, enums their values, records objects with every field."""
    item = {
        "name": "",
        "kind": "tensor",
        "dtype": "int64",
        "shape": [2, 0],
        "file": "f",
        "items": [],
    }
    output = {
        "name": "y",
        "kind": "sequence",
        "dtype": "",
        "shape": [],
        "file": "",
        "items": [item],
    }
    assert to_json(RUN) == {
        "case": "typical", "status": "ok", "message": "", "outputs": [output], "repeats": [],
        "duration_ms": 1.5,
    }  # fmt: skip


def changed(**changes: Any) -> Any:
    """Return the JSON of a run, changed."""
    plain = to_json(RUN)
    assert isinstance(plain, dict)
    return plain | changes


@pytest.mark.parametrize(
    "value",
    [
        changed(surplus=1),
        {key: value for key, value in changed().items() if key != "case"},
        changed(case=1),
        changed(case=None),
        changed(case=["typical"]),
        changed(status="fine"),
        changed(status=None),
        changed(status="OK"),
        changed(duration_ms="1.5"),
        changed(duration_ms=True),
        changed(duration_ms=None),
        changed(outputs=None),
        changed(outputs=1),
        changed(outputs=""),
        changed(outputs="y"),
        changed(outputs={}),
        changed(outputs=[None]),
        changed(outputs=[{"name": "y"}]),
        changed(outputs=[{"name": "y", "kind": "tensor", "shape": [1.0]}]),
        changed(outputs=[{"name": "y", "kind": "tensor", "shape": [True]}]),
        changed(outputs=[{"name": "y", "kind": "tensor", "shape": ["1"]}]),
        changed(outputs=[{"name": "y", "kind": "tensor", "shape": "1"}]),
        changed(outputs=[{"name": "y", "kind": "tensor", "surplus": 1}]),
        changed(outputs=[{"name": "y", "kind": "sequence", "items": [{"name": "z"}]}]),
        changed(repeats=[{}]),
        None,
        [],
        "text",
        1,
    ],
)
def test_what_is_no_record_is_refused(value: Any) -> None:
    """Unknown and missing keys, and values of another type, at every depth."""
    with pytest.raises(EvidenceError, match="not a CaseRun record") as caught:
        from_json(CaseRun, value, where="worker")
    assert caught.value.where == "worker"


def test_fields_with_a_default_may_be_left_out() -> None:
    """A worker need not send what does not apply."""
    found = from_json(ValueRecord, {"name": "y", "kind": "absent"}, where="worker")
    assert found == ValueRecord(name="y", kind="absent")


def test_a_whole_number_is_a_float_too() -> None:
    """Canonical JSON writes 1.0 as 1."""
    run = from_json(CaseRun, changed(duration_ms=2), where="worker")
    assert (run.duration_ms, type(run.duration_ms)) == (2.0, float)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_not_written(number: float) -> None:
    """A verdict with NaN in it would be read differently by two readers."""
    finding = Finding(id="x", outcome=Outcome.FAIL, subject=Subject(), evidence="", measured=number)
    with pytest.raises(EvidenceError, match="no canonical JSON form"):
        to_bytes(finding)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'{"name": "a", "name": "b", "kind": "absent"}', b"null"]
)
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    """Not JSON, not UTF-8, a key twice, or nothing."""
    with pytest.raises(EvidenceError) as caught:
        from_bytes(ValueRecord, data, where="the log")
    assert caught.value.where == "the log"
