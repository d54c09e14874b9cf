"""What one variant on one target is: the facts whose change makes a new run necessary."""

import enum
from dataclasses import dataclass

from ci_parity.records.finding import Finding


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
    file; `options` is the canonical JSON of session and provider options, `policy` that of the
    policy as configured. `optimization` is the digest of the variant's recipe, empty without one;
    where its tools are known too, the facts of both as canonical JSON. `converter`, `components`
    and `host` are the facts of those axes, empty where they are not known: then that axis is not
    compared. `preprocess` is the facts of the pipeline that makes inputs of what an application
    gets; to have none, empty, is known too.
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
    converter: str = ""
    components: str = ""
    host: str = ""
    preprocess: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One axis that differs from the baseline: before, after, and sentences that explain it."""

    axis: Axis
    target: str
    variant: str
    before: str
    after: str
    sentences: tuple[str, ...] = ()


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
class PairName:
    """A variant on a target."""

    target: str
    variant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What differs from the baseline, and which pairs must run because of it.

    `foresight` holds what a change of runtime is known to bring, advisory: the run decides.
    """

    source: BaselineSource
    changes: tuple[Change, ...]
    identities: tuple[Identity, ...]
    baselines: tuple[Identity, ...]
    to_run: tuple[PairName, ...]
    foresight: tuple[Finding, ...] = ()

    @property
    def must_run(self) -> bool:
        """Whether anything must run."""
        return bool(self.to_run)
