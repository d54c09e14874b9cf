"""Pipelines and numbers as JSON between this process and the one that carries a pipeline out.

A pipeline goes there as the records that it was read into: what runs is what was read, whatever
becomes of its file meanwhile. Numbers that JSON does not know come back as `{"float": "inf"}`.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_parity.preprocess import model

_RECORDS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (
        model.AudioPipeline, model.BytesPipeline, model.Column, model.Constant, model.Crop,
        model.Decode, model.EntryPipeline, model.ImagePipeline, model.Normalise, model.Pad,
        model.Padding, model.Pipeline, model.Resize, model.Scale, model.TabularInput,
        model.TabularPipeline, model.TextPipeline, model.Truncation, model.Window,
    )
}  # fmt: skip
_RECORD, _PATH, _FLOAT = "record", "path", "float"
# NaN equals only itself as an object: pipelines that are compared must share this one.
_NO_NUMBERS = {repr(value): value for value in (math.inf, -math.inf, math.nan)}


def pipeline_to_json(value: Any) -> Any:  # noqa: ANN401 - any part of a pipeline
    """Return the JSON of a pipeline, each record with its name."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: pipeline_to_json(getattr(value, f.name)) for f in _fields(value)}
        return {_RECORD: type(value).__name__, "fields": fields}
    if isinstance(value, tuple):
        return [pipeline_to_json(item) for item in value]
    if isinstance(value, Path):
        return {_PATH: str(value)}
    return plain_numbers(value)


def pipeline_from_json(value: Any) -> Any:  # noqa: ANN401 - any part of a pipeline
    """Return what `pipeline_to_json` was given; it is never asked about what others wrote."""
    if isinstance(value, list):
        return tuple(pipeline_from_json(item) for item in value)
    if not isinstance(value, dict):
        return value
    if _PATH in value:
        return Path(value[_PATH])
    if _RECORD in value:
        fields = {name: pipeline_from_json(part) for name, part in value["fields"].items()}
        return _RECORDS[value[_RECORD]](**fields)
    return numbers_from(value)


def plain_numbers(value: Any) -> Any:  # noqa: ANN401 - JSON, but for such numbers
    """Return JSON in which no number is infinite or none."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(value)}
    if isinstance(value, dict):
        return {key: plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_numbers(item) for item in value]
    return value


def numbers_from(value: Any) -> Any:  # noqa: ANN401 - JSON of a worker
    """Return JSON with the numbers that `plain_numbers` took out; anything else stays."""
    if isinstance(value, dict):
        if value.keys() == {_FLOAT} and value[_FLOAT] in _NO_NUMBERS:
            return _NO_NUMBERS[value[_FLOAT]]
        return {key: numbers_from(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers_from(item) for item in value]
    return value


def _fields(value: Any) -> tuple[dataclasses.Field[Any], ...]:  # noqa: ANN401 - a record
    return dataclasses.fields(value)
