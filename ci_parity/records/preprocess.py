"""Rebuilt inputs next to the stored ones: each step, how they differ, and why.

Records of `ci_parity.preprocess`, which fills them, and of whoever reports or explains them.
Numbers and words only: arrays stay where they were computed.
"""

import enum
from dataclasses import dataclass


class Match(enum.Enum):
    """How a rebuilt tensor relates to the stored one of the same name.

    WITHIN stands for a difference that another decoder or another order of float operations makes.
    """

    EQUAL = "equal"
    WITHIN = "within"
    DIFFERENT = "different"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSummary:
    """A tensor in numbers; the statistics are None where it has no finite number."""

    dtype: str
    shape: tuple[int, ...]
    minimum: float | None
    maximum: float | None
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """One step between a raw input and the tensor.

    `name` is the step's key in the pipeline, `words` what it did to this input, `preview` the text
    or the first values that it made.
    """

    name: str
    words: str
    preview: str
    tensor: TensorSummary | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputMatch:
    """One input of the model, rebuilt and stored.

    `max_abs` and `differing` (elements beyond equality) are None where shapes or types differ or
    one side is not there; `limit` is what WITHIN allows, and `why` what that limit stands for.
    `worst` is the index of the largest difference. `rebuilt` is None for EXTRA stored ones that the
    pipeline does not make, `stored` for MISSING ones.
    """

    name: str
    match: Match
    words: str
    rebuilt: TensorSummary | None
    stored: TensorSummary | None
    max_abs: float | None = None
    differing: int | None = None
    worst: tuple[int, ...] = ()
    limit: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A single change of the pipeline that reproduces the stored tensors.

    `key` is stable, such as `image.channels`; `words` complete "the stored tensor is what … gives",
    such as "BGR instead of RGB". `exact` says that it reproduces them to the bit, else within the
    limit, `max_abs` away.
    """

    key: str
    words: str
    exact: bool
    max_abs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Rebuilt against stored inputs; `causes` are all that explain the difference equally well.

    `tried` counts the changes that were tried, `refused` those that the raw input does not allow,
    `untried` those for which no time was left: with any of them, no cause is not "no such cause".
    `words` is one sentence for people.
    """

    match: Match
    words: str
    inputs: tuple[InputMatch, ...]
    causes: tuple[Cause, ...]
    tried: int
    refused: int = 0
    untried: int = 0
