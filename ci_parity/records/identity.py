"""What one variant on one target is: the facts whose change makes a new run necessary."""

import enum
from dataclasses import dataclass


class Axis(enum.Enum):
    """A side from which a model's meaning can change."""

    CONVERTER = "converter"
    RUNTIME = "runtime"
    DRIVER = "driver"
    MODEL = "model"
    OPTIMIZATION = "optimization"
    FIXTURES = "fixtures"
    PREPROCESSING = "preprocessing"
    POLICY = "policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One variant on one target.

    Digests are SHA-256 in lowercase hexadecimal. `model` covers the graph and every external data
    file; `options` is the canonical JSON of session and provider options; `optimization` the digest
    of the variant's optimization recipe, empty without one.
    """

    target: str
    variant: str
    model: str
    runtime: str
    provider: str
    options: str
    optimization: str
    fixtures: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One axis that differs from the baseline, in words a reviewer reads."""

    axis: Axis
    target: str
    variant: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSource:
    """Where the baseline comes from: `kind` is `log`, `merge-base` or `none`.

    `label` says it to a reader, `reason` why there is none or why everything must run.
    """

    kind: str
    label: str = ""
    commit: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What differs from the baseline, and whether anything must run."""

    source: BaselineSource
    changes: tuple[Change, ...]
    identities: tuple[Identity, ...]
    baselines: tuple[Identity, ...]
    must_run: bool
