"""Tables: values, categories, gaps and order against what the file says."""

from pathlib import Path

import numpy as np
import pytest

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.preprocess.execute import apply
from tests.support.raw_inputs import write_pipeline

TABLE = """tabular:
  columns:
    age: {missing: -1}
    city: {type: category, categories: [Rome, Oslo], unknown: 9, missing: 8}
    member: {type: boolean}
    note: {type: text, missing: none}
  inputs:
    features: {columns: [city, age, member]}
    notes: {columns: [note], dtype: string}
"""
CSV = b"age,city,member,note,unread\n31,Oslo,true,hi,x\n,Rome,0,,x\n4.5,Bonn,FALSE,yo,x\n1,,1,a,x\n"


def test_columns_come_in_the_order_of_the_input(tmp_path: Path) -> None:
    """Ids of categories, the filler of gaps, booleans as 0 and 1; other columns are not read."""
    made = apply(write_pipeline(tmp_path, TABLE), CSV)
    assert made["features"].dtype == np.float32
    assert made["features"].tolist() == [[1, 31, 1], [0, -1, 0], [9, 4.5, 0], [8, 1, 1]]
    assert made["notes"].tolist() == [["hi"], ["none"], ["yo"], ["a"]]


def test_json_rows_mean_the_same(tmp_path: Path) -> None:
    """Null and a key that is not there are gaps; numbers and booleans are JSON's own."""
    raw = b'[{"age": 31, "city": "Oslo", "member": true, "note": "hi"}, {"city": "Rome", "age": null, "member": 0}]'  # noqa: E501 - one literal
    made = apply(write_pipeline(tmp_path, TABLE + "  format: json\n"), raw)
    assert made["features"].tolist() == [[1, 31, 1], [0, -1, 0]]
    assert made["notes"].tolist() == [["hi"], ["none"]]


def test_nan_may_fill_a_gap(tmp_path: Path) -> None:
    """What tree models expect."""
    pipeline = write_pipeline(
        tmp_path, "tabular: {columns: {a: {missing: nan}}, inputs: {x: {columns: [a]}}}"
    )
    made = apply(pipeline, b"a,b\n1,2\n,3\n")["x"]
    assert made[0, 0] == 1
    assert np.isnan(made[1, 0])


@pytest.mark.parametrize(
    ("column", "dtype", "cell", "words"),
    [
        ("{}", "float32", "1_000", "no number"),
        ("{}", "float32", "nan", "no number"),
        ("{}", "float32", "1e999", "no number"),
        ("{}", "float32", "1e39", "does not fit into float32"),
        ("{}", "float32", "x", "no number"),
        ("{}", "float32", "", "is empty"),
        ("{}", "int64", "1.5", "not whole"),
        ("{type: integer}", "int32", "3000000000", "does not fit into int32"),
        ("{type: integer}", "int64", "99999999999999999999", "no integer"),
        ("{type: integer}", "int64", "1.0", "no integer"),
        ("{type: boolean}", "float32", "yes", "no boolean"),
        ("{type: category, categories: [a]}", "int64", "b", "none of the categories"),
    ],
)
def test_a_value_without_a_place_is_refused(
    tmp_path: Path, column: str, dtype: str, cell: str, words: str
) -> None:
    """Row and column, or column and type, are named; nothing is rounded or guessed."""
    pipeline = write_pipeline(
        tmp_path,
        f"tabular: {{columns: {{a: {column}}}, inputs: {{x: {{columns: [a], dtype: {dtype}}}}}}}",
    )
    with pytest.raises(EvidenceError, match=words):
        apply(pipeline, f"a,b\n{cell},1\n".encode())


def test_large_integers_stay_exact(tmp_path: Path) -> None:
    """2^53 + 1 is no float64."""
    pipeline = write_pipeline(
        tmp_path,
        "tabular: {columns: {a: {type: integer}}, inputs: {x: {columns: [a], dtype: int64}}}",
    )
    assert apply(pipeline, b"a\n9007199254740993\n")["x"].tolist() == [[9007199254740993]]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "no row"),
        (b"a\n", "no row"),
        (b"b\n1\n", "no column 'a'"),
        (b"a,a\n1,2\n", "one name"),
        (b"a,b\n1\n", "line 2 has 1 fields"),
        (b'a\n"1\n', "no CSV"),
        (b"a\n\xff\n", "no UTF-8"),
        (b"\x80\x04K\x01.", "no UTF-8"),
    ],
)
def test_a_broken_csv_is_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    """What is wrong is named."""
    pipeline = write_pipeline(tmp_path, "tabular: {columns: {a: {}}, inputs: {x: {columns: [a]}}}")
    with pytest.raises(EvidenceError, match=words):
        apply(pipeline, raw)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"3", "no object"),
        (b"[[1]]", "no object"),
        (b'{"a": [1]}', "more than one value"),
        (b'{"a": 1, "a": 2}', "duplicate"),
        (b"{", "JSON"),
        (b"[" * 100_000, "JSON"),
    ],
)
def test_a_broken_json_is_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    """Two readers could not read it differently."""
    pipeline = write_pipeline(
        tmp_path, "tabular: {format: json, columns: {a: {}}, inputs: {x: {columns: [a]}}}"
    )
    with pytest.raises(EvidenceError, match=words):
        apply(pipeline, raw)


def test_combinations_without_meaning_are_told_at_once(tmp_path: Path) -> None:
    """Every one with its place."""
    text = (
        "tabular: {columns: {a: {type: category}, b: {unknown: 1}, c: {type: text},"
        " d: {missing: x}}, inputs: {x: {columns: [c, e]}}}"
    )
    with pytest.raises(ConfigError) as caught:
        write_pipeline(tmp_path, text)
    for place in ("columns.a", "columns.b", "columns.d.missing", "'c' is text", "'e' is not among"):
        assert place in caught.value.what
