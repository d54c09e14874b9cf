"""JSON on the wire: canonical bytes out (RFC 8785), strict parsing in.

Python's parser accepts duplicate keys, NaN, Infinity and lone surrogates; none of them survives
here, because two readers would disagree about what was signed or judged.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

import rfc8785

from ci_parity.base.errors import EvidenceError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

MAX_DEPTH = 100


def canonical_bytes(value: Json) -> bytes:
    """Return the RFC 8785 form of `value`; equal values give equal bytes.

    Raises:
        EvidenceError: for NaN, infinities, integers beyond ±(2^53-1) and lone surrogates.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise EvidenceError(f"value has no canonical JSON form: {error}") from error


def parse_strict(text: str | bytes, *, where: str) -> Json:
    """Parse JSON that two readers cannot read differently.

    Raises:
        EvidenceError: on malformed text, duplicate keys, non-finite numbers, lone surrogates or
            nesting deeper than `MAX_DEPTH`.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value: Json = json.loads(
            decoded,
            object_pairs_hook=_unique_object,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
        )
        _check(value, MAX_DEPTH)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"malformed JSON: {error}", where=where) from error
    return value


def _unique_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key in an object")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond the range of a double")
    return value


def _check(value: Json, depth: int) -> None:
    if depth == 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            key.encode("utf-8")
            _check(item, depth - 1)
    elif isinstance(value, Sequence):
        for item in value:
            _check(item, depth - 1)
