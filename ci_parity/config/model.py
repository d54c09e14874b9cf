"""The deployment as frozen records: what a validated ci-parity.yml says, with every default set."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.config.decisions import Decision
from ci_parity.config.ledger import LedgerEntry
from ci_parity.config.systems import Source, Target, Variant

CALIBRATED = "calibrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """|baseline - candidate| may be `atol` + `rtol` x |baseline|, element by element."""

    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPolicy:
    """How latency is measured and judged; `max_regression` and `margin` are fractions.

    `sessions` is the most there may be, `time_budget_s` what starting more of them may take for a
    variant on a target, `cases` how many of its cases are timed, `batch_sizes` what throughput is
    measured at, `pin` the CPUs that both sides run on, empty for all.
    """

    measure: bool
    sessions: int
    pairs: int
    max_regression: float
    margin: float
    enforce: bool
    time_budget_s: float
    cases: int
    batch_sizes: tuple[int, ...]
    pin: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPolicy:
    """How the memory of the timed processes is judged; `max_regression` is a fraction."""

    max_regression: float
    enforce: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfChecks:
    """Which comparisons of the candidate with itself are made; None leaves it to what is known.

    `repeat` is how often one input runs; `deterministic` asks for equal bits of those runs.
    """

    repeat: int
    rows: bool | None
    order: bool | None
    padding: bool | None
    threads: bool | None
    deterministic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPolicy:
    """What is asked of where a target's nodes run; None asks nothing.

    `cpu_allowed` are the operators that may run elsewhere than on the provider, `min_share` is the
    fraction of nodes that must run on it, `max_memcpy` how many copies to and from it there may be.
    `precision` are the floating-point types that kernels may take; `changes` is `warn` or `fail`,
    for what is otherwise than on the baseline.
    """

    cpu_allowed: tuple[str, ...] | None = None
    min_share: float | None = None
    max_memcpy: int | None = None
    precision: tuple[str, ...] | None = None
    changes: str = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveragePolicy:
    """What is made of tests of single operators.

    `measure` says whether `check` runs them. `failing` is `fail` or `warn`, for operators that the
    model uses and that fail or are unsupported; `untested` is `warn` or `ignore`.
    """

    measure: bool = False
    failing: str = "fail"
    untested: str = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a run is judged; a tolerance is explicit, or the word `calibrated` or `ladder`.

    `placement` is by target; a target that asks nothing is not in it.
    """

    tolerance: Tolerance | str
    outputs: Mapping[str, Tolerance | str]
    repeat: int
    timeout_s: float
    latency: LatencyPolicy
    memory: MemoryPolicy
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    self_checks: SelfChecks
    ledger: tuple[LedgerEntry, ...] = ()
    placement: Mapping[str, PlacementPolicy] = field(default_factory=dict)
    coverage: CoveragePolicy = CoveragePolicy()

    def explicit_tolerance(self, output: str) -> Tolerance | None:
        """Return the numbers the policy names for an output, None where it gives a word."""
        named = self.outputs.get(output, self.tolerance)
        return None if isinstance(named, str) else named

    def is_calibrated(self, output: str) -> bool:
        """Whether an output is judged by its noise floor."""
        return self.outputs.get(output, self.tolerance) == CALIBRATED

    @property
    def calibrates(self) -> bool:
        """Whether any output may be judged by its noise floor."""
        return CALIBRATED in {self.tolerance, *self.outputs.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PortContract:
    """What the product promises about one input or output; empty and `None` parts are not stated.

    `shape` holds sizes, symbols, or `None` for a dimension of any size; `range` is the lowest and
    the highest value the product feeds or expects, each a number, an infinity or the symbol of a
    size; `layout` names the dimensions, such as `NCHW`.
    """

    dtype: str = ""
    shape: tuple[int | str | None, ...] | None = None
    layout: str = ""
    range: tuple[float | str, float | str] | None = None

    def limits(self, sizes: Mapping[str, int]) -> tuple[float, float]:
        """Return the ends of the range; infinities where none, or a symbol without a size, is."""
        low, high = self.range or (-math.inf, math.inf)
        return (
            sizes.get(low, -math.inf) if isinstance(low, str) else low,
            sizes.get(high, math.inf) if isinstance(high, str) else high,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """How inputs may be padded without a change of meaning.

    `axis` is the symbol of the padded dimension, `values` what each padded input is filled with.
    """

    axis: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What the product relies on, stated before a model is converted; everything is optional.

    `opset` maps domains (`ai.onnx` …) to versions; `sizes` the symbols of shapes to the sizes that
    must be accepted; `batch` is the symbol of the dimension whose rows do not depend on each other.
    """

    opset: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, PortContract] = field(default_factory=dict)
    outputs: Mapping[str, PortContract] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batch: str = ""
    padding: Padding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Where validated artifacts are recorded, and their bytes kept; an empty place is nowhere.

    `rollback` is `pointer` or `pull_request`.
    """

    log: str
    channel: str
    store: str = ""
    rollback: str = "pointer"

    @property
    def rolls_back_by_pull_request(self) -> bool:
        """Whether going back is proposed to the repository before anything moves."""
        return self.rollback == "pull_request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is told of a verdict; `comment` is `on_change` or `always`."""

    comment: str

    @property
    def always(self) -> bool:
        """Whether a pull request gets a comment even where nothing changed and all holds."""
        return self.comment == "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Localise:
    """What the search for the first node that went wrong may cost, for each failed boundary.

    `memory_mib` is how much the tensors may hold that are taken out of a graph at once; with no
    seconds there is no search.
    """

    seconds: float
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment: everything a run needs to know before it looks at a byte of a model.

    `root` is the folder relative paths start from; `origin` is the config file, or says that the
    deployment was discovered. `policy_json` is the canonical JSON of the policy as configured.
    `preprocess` is the file of the pipeline that makes inputs of what the application gets.
    """

    name: str
    root: Path
    origin: str
    variants: tuple[Variant, ...]
    targets: tuple[Target, ...]
    fixtures: Path
    policy: Policy
    policy_json: str
    release: Release
    localise: Localise
    report: Report
    contract: Contract = field(default_factory=Contract)
    source: Source | None = None
    preprocess: Path | None = None

    @property
    def reference_target(self) -> Target:
        """The target the others are compared with: the one that says so, else the first."""
        return next((target for target in self.targets if target.reference), self.targets[0])

    def variants_on(self, target: Target) -> tuple[Variant, ...]:
        """Return the variants that run on a target, in the order of the config."""
        return tuple(v for v in self.variants if not target.variants or v.name in target.variants)

    def made_from(self, variant: Variant) -> tuple[Variant, ...]:
        """Return the variants a variant was made from, the nearest first."""
        by_name = {other.name: other for other in self.variants}
        chain = []
        while variant.made_from:
            variant = by_name[variant.made_from]
            chain.append(variant)
        return tuple(chain)
