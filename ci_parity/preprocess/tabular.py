"""Rows of a CSV or JSON file to tensors [rows, columns]; a value that does not fit is refused."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ci_parity.base.canonical import parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.preprocess.model import Column, TabularInput, TabularPipeline
from ci_parity.preprocess.steps import Array, Step

MAX_CELLS = 10_000_000
_NUMBER = re.compile(r"\s*[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?\s*")
_INTEGER = re.compile(r"\s*[-+]?[0-9]{1,19}\s*")
_BOOLEANS = {"true": 1, "1": 1, "false": 0, "0": 0}
Cell: TypeAlias = "str | int | float | bool | None"
Row: TypeAlias = "Mapping[str, Cell]"


def steps(pipeline: TabularPipeline, raw: bytes) -> Iterator[Step]:
    """Yield the rows, each column's values and the tensors.

    Raises:
        EvidenceError: the file is no such table, or a value has no place in its column.
    """
    rows = _rows(pipeline, raw)
    yield Step(name="rows", words=f"{len(rows)} rows of {pipeline.format}", text=str(dict(rows[0])))
    values = {column.name: _values(column, rows, pipeline.gaps) for column in pipeline.columns}
    for column in pipeline.columns:
        filled = sum(_present(row.get(column.name), pipeline.gaps) is None for row in rows)
        words = f"{column.type}, {filled} of {len(rows)} filled in"
        yield Step(name=f"column {column.name}", words=words, text=str(values[column.name][:8]))
    for item in pipeline.inputs:
        words = f"{item.dtype} of {', '.join(item.columns)}"
        yield Step(name="tensor", words=words, array=_tensor(item, values), input=item.name)


def _rows(pipeline: TabularPipeline, raw: bytes) -> Sequence[Row]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(f"no UTF-8 text: {error.reason} at byte {error.start}") from error
    rows = _csv(text, pipeline.delimiter) if pipeline.format == "csv" else _json(text)
    if not rows:
        raise _refused("there is no row")
    if len(rows) * len(pipeline.columns) > MAX_CELLS:
        raise _refused(f"more than {MAX_CELLS:,} values")
    return rows


def _csv(text: str, delimiter: str) -> Sequence[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if len(set(header)) != len(header):
            raise _refused("two columns have one name")
        rows: list[Row] = []
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise _refused(
                    f"line {reader.line_num} has {len(fields)} fields, the first {len(header)}"
                )
            rows.append(dict(zip(header, fields, strict=True)))
    except csv.Error as error:
        raise _refused(f"no CSV: {error}") from error
    return rows


def _json(text: str) -> Sequence[Row]:
    found: Any = parse_strict(text, where="the raw input")
    rows = found if isinstance(found, list) else [found]
    for row in rows:
        if not isinstance(row, dict):
            raise _refused("JSON that is no object, nor a list of objects")
        for name, cell in row.items():
            if isinstance(cell, dict | list):
                raise _refused(f"{name!r} holds more than one value")
    return rows


def _values(column: Column, rows: Sequence[Row], gaps: Sequence[str]) -> list[Any]:
    if not any(column.name in row for row in rows):
        raise _refused(f"there is no column {column.name!r}")
    ids = {text: column.first_id + place for place, text in enumerate(column.categories)}
    return [
        _value(column, ids, _present(row.get(column.name), gaps), index)
        for index, row in enumerate(rows)
    ]


def _present(cell: Cell, gaps: Sequence[str]) -> Cell:
    return None if isinstance(cell, str) and cell in gaps else cell


def _value(column: Column, ids: Mapping[str, int], cell: Cell, index: int) -> Any:  # noqa: ANN401
    place = f"row {index + 1}, column {column.name!r}"
    if cell is None:
        if column.missing is None:
            raise _refused(f"{place} is empty and the pipeline has no 'missing' for it")
        return column.missing
    if column.type == "category":
        found = ids.get(str(cell), column.unknown)
        if found is None:
            raise _refused(f"{place}: {str(cell)[:100]!r} is none of the categories")
        return found
    value = _READERS[column.type](cell)
    if value is None:
        raise _refused(f"{place}: {str(cell)[:100]!r} is no {column.type}")
    return value


def _number(cell: Cell) -> float | None:
    if isinstance(cell, bool) or (isinstance(cell, str) and not _NUMBER.fullmatch(cell)):
        return None
    try:
        value = float(cell) if cell is not None else math.inf
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _integer(cell: Cell) -> int | None:
    if isinstance(cell, str):
        return int(cell) if _INTEGER.fullmatch(cell) else None
    return cell if type(cell) is int else None


def _boolean(cell: Cell) -> int | None:
    return _BOOLEANS.get(str(cell).strip().lower())


def _text(cell: Cell) -> str | None:
    return cell if isinstance(cell, str) else None


_READERS: Mapping[str, Callable[[Cell], Any]] = {
    "number": _number, "integer": _integer, "boolean": _boolean, "text": _text,
}  # fmt: skip


def _tensor(item: TabularInput, values: Mapping[str, list[Any]]) -> Array:
    import numpy as np

    rows = len(values[item.columns[0]])
    dtype = np.dtype(object if item.dtype == "string" else item.dtype)
    made = np.empty((rows, len(item.columns)), dtype)
    for index, name in enumerate(item.columns):
        whole = all(isinstance(value, int) or float(value).is_integer() for value in values[name]
                    ) if dtype.kind in "iu" else True  # fmt: skip
        if not whole:
            raise _refused(f"column {name!r} has a value that is not whole; {item.dtype} needs one")
        try:
            with np.errstate(over="raise"):
                made[:, index] = np.array(values[name], dtype)
        except (OverflowError, ValueError, FloatingPointError) as error:
            raise _refused(f"column {name!r} does not fit into {item.dtype}: {error}") from error
    return made


def _refused(what: str) -> EvidenceError:
    return EvidenceError(
        f"the table cannot be read: {what}",
        where="the raw input",
        remedy="correct the raw input, or the pipeline's columns",
    )
