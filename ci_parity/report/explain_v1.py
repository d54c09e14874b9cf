"""The explanation of one case as JSON under schemas/explain-v1.json."""

import math
from collections.abc import Mapping
from typing import cast

from ci_parity.base.canonical import Json
from ci_parity.records.codec import to_json
from ci_parity.records.explanation import Explanation

EXPLAIN = "ci-parity/explain/v1"


def render(said: Explanation) -> Mapping[str, Json]:
    """Return an explanation; a number that JSON has not is null."""
    return {"schema": EXPLAIN, **cast("dict[str, Json]", _finite(to_json(said)))}


def _finite(value: Json) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
