"""Records to JSON and back; unknown or missing keys are refused on the way in."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeVar, cast, get_args, get_origin

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.errors import EvidenceError

Record = TypeVar("Record")


def to_json(record: object) -> Json:
    """Return the plain JSON of a record; tuples become lists, enums their values, paths texts."""
    if isinstance(record, enum.Enum):
        return cast("Json", record.value)
    if dataclasses.is_dataclass(record):
        fields = dataclasses.fields(record)
        return {field.name: to_json(getattr(record, field.name)) for field in fields}
    if isinstance(record, tuple | list):
        return [to_json(item) for item in record]
    if isinstance(record, Mapping):
        return {str(key): to_json(item) for key, item in record.items()}
    if isinstance(record, PurePath):
        return record.as_posix()
    return cast("Json", record)


def from_json(kind: type[Record], value: Json, *, where: str) -> Record:
    """Build a record of class `kind` from plain JSON.

    Raises:
        EvidenceError: when keys are unknown or missing or a value has the wrong type.
    """
    try:
        return cast("Record", _converter().structure(value, kind))
    except Exception as error:
        from cattrs import transform_error

        problems = "; ".join(transform_error(error)[:5])
        raise EvidenceError(f"not a {kind.__name__} record: {problems}", where=where) from error


def to_bytes(record: object) -> bytes:
    """Return the canonical JSON (RFC 8785) of a record."""
    return canonical_bytes(to_json(record))


def from_bytes(kind: type[Record], data: bytes, *, where: str) -> Record:
    """Build a record from the JSON text `to_bytes` wrote; refuses what `from_json` refuses."""
    return from_json(kind, parse_strict(data, where=where), where=where)


@cache
def _converter() -> Any:  # noqa: ANN401 - cattrs' converter is generic over everything
    from cattrs import Converter

    converter: Any = Converter(forbid_extra_keys=True)
    for scalar in (str, int, bool, float):
        converter.register_structure_hook(scalar, _exactly(scalar))
    converter.register_structure_hook(Path, _path)
    converter.register_structure_hook_factory(_is_tuple, _list_of)
    return converter


def _is_tuple(kind: object) -> bool:
    origin: object = get_origin(kind)
    return origin is tuple


def _list_of(kind: Any, converter: Any) -> Callable[[object, type], object]:  # noqa: ANN401
    """Structure a tuple from a list alone: text and objects can be iterated too."""
    items = get_args(kind)
    alike = items[-1] is Ellipsis

    def structure(value: object, _: type) -> object:
        if not isinstance(value, list):
            raise TypeError(f"expected list, got {type(value).__name__}")
        kinds = [items[0]] * len(value) if alike else items
        if len(kinds) != len(value):
            raise ValueError(f"expected {len(kinds)} items, got {len(value)}")
        return tuple(
            converter.structure(part, item) for part, item in zip(value, kinds, strict=True)
        )

    return structure


def _path(value: object, _: type) -> Path:
    if not isinstance(value, str):
        raise TypeError(f"expected str, got {type(value).__name__}")
    return Path(value)


def _exactly(scalar: type) -> Callable[[object, type], object]:
    def structure(value: object, _: type) -> object:
        if scalar is float and type(value) is int:
            return float(value)
        if type(value) is not scalar:
            raise TypeError(f"expected {scalar.__name__}, got {type(value).__name__}")
        return value

    return structure
