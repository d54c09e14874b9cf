"""What goes wrong between rows and their tensors."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice

from ci_parity.preprocess.model import Column, TabularInput, TabularPipeline
from ci_parity.preprocess.mutations.mutation import Mutation

_DTYPES = ("float32", "float64", "int64", "int32", "bool")
_MISSING = (0.0, -1.0, 1.0, math.nan)
_MAX_SWAPS = 200


def mutations(pipeline: TabularPipeline) -> Iterator[Mutation]:
    """Yield every single change of a table's pipeline that is tried."""
    for item in pipeline.inputs:
        yield from _of_input(pipeline, item)
    for column in pipeline.columns:
        for key, words, changed in _of_column(column):
            columns = tuple(changed if c is column else c for c in pipeline.columns)
            yield Mutation(
                key=f"tabular.columns.{column.name}.{key}", words=f"{words}, column "
                f"{column.name!r}", kind=replace(pipeline, columns=columns),
            )  # fmt: skip


def _of_input(pipeline: TabularPipeline, item: TabularInput) -> Iterator[Mutation]:
    own = item.columns
    declared = tuple(c.name for c in pipeline.columns if c.name in own)
    orders = [
        ("columns in the order of their declaration", declared),
        ("columns in alphabetical order", tuple(sorted(own))),
        ("columns in reverse order", own[::-1]),
    ]
    for one, two in islice(combinations(range(len(own)), 2), _MAX_SWAPS):
        swapped = list(own)
        swapped[one], swapped[two] = own[two], own[one]
        orders.append((f"columns {own[one]!r} and {own[two]!r} exchanged", tuple(swapped)))
    for words, order in orders:
        if len(order) == len(own):
            changed = replace(item, columns=order)
            yield _with_input(pipeline, item, changed, "columns", words)
    for dtype in _DTYPES if item.dtype != "string" else ():
        words = f"{dtype} instead of {item.dtype}"
        yield _with_input(pipeline, item, replace(item, dtype=dtype), "dtype", words)


def _of_column(column: Column) -> Iterator[tuple[str, str, Column]]:
    if column.type == "category":
        own = column.categories
        for words, order in (("sorted", tuple(sorted(own))), ("reversed", own[::-1])):
            yield "categories", f"categories {words}", replace(column, categories=order)
        if column.categories and len(own) <= _MAX_SWAPS:
            for index in range(len(own) - 1):
                one, two = own[index : index + 2]
                order = (*own[:index], two, one, *own[index + 2 :])
                words = f"categories {one!r} and {two!r} exchanged"
                yield "categories", words, replace(column, categories=order)
        for first in (0, 1):
            yield "first_id", f"ids from {first} on", replace(column, first_id=first)
        if column.unknown is not None:
            for number in (-1, 0, len(own)):
                yield "unknown", f"unknown as {number}", replace(column, unknown=number)
    if column.missing is not None and column.type != "text":
        for value in _MISSING:
            words = f"gaps as {value:g} instead of {column.missing}"
            yield "missing", words, replace(column, missing=value)


def _with_input(
    pipeline: TabularPipeline, item: TabularInput, changed: TabularInput, key: str, words: str
) -> Mutation:
    inputs = tuple(changed if other is item else other for other in pipeline.inputs)
    return Mutation(
        key=f"tabular.inputs.{item.name}.{key}", words=words, kind=replace(pipeline, inputs=inputs)
    )
