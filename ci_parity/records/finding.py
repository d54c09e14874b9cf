"""One judged fact, and what it is about."""

from dataclasses import dataclass

from ci_parity.records.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a finding is about; empty parts do not apply."""

    target: str = ""
    variant: str = ""
    boundary: str = ""
    case: str = ""
    output: str = ""

    def __str__(self) -> str:
        parts = (self.target, self.variant, self.boundary, self.case, self.output)
        return " / ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One judged fact.

    `id` is stable (`output.values`, `case.crash` …). `measured`, `limit` and `required` share one
    `unit`, such as `x noise`, empty where the evidence says it; `required` is the limit that would
    have been needed. An `advisory` finding is shown as a warning and never changes the outcome of a
    run.
    """

    id: str
    outcome: Outcome
    subject: Subject
    evidence: str
    measured: float | None = None
    limit: float | None = None
    required: float | None = None
    unit: str = ""
    remedy: str = ""
    advisory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputComparison:
    """The numbers of one output of one case; `None` where a measure does not apply.

    `limit` and `required` are the tolerance's leading number (`rtol`, or `atol` where `rtol` is 0):
    the one that was applied and the one that would just have passed, the other number scaled with
    it. On a calibrated tolerance they are noise floors, and `unit` is `x noise`. `worst_index` is
    the element that used most of its limit, with both of its values. The other figures are those of
    `compare.metrics`; `excess` and `rms_excess` are parts of what was allowed.
    """

    subject: Subject
    outcome: Outcome
    dtype: str
    shape: tuple[int, ...]
    elements: int
    mismatched: int
    max_abs: float | None = None
    max_rel: float | None = None
    max_ulp: float | None = None
    rel_to_scale: float | None = None
    mean_abs: float | None = None
    rms_abs: float | None = None
    p50_abs: float | None = None
    p99_abs: float | None = None
    p999_abs: float | None = None
    bias: float | None = None
    sqnr_db: float | None = None
    cosine: float | None = None
    nonfinite: int | None = None
    excess: float | None = None
    rms_excess: float | None = None
    limit: float | None = None
    required: float | None = None
    unit: str = ""
    rule: str = ""
    worst_index: tuple[int, ...] | None = None
    worst_baseline: str = ""
    worst_candidate: str = ""

    @property
    def rank(self) -> tuple[bool, float]:
        """Failures first, then how much of its limit it needed: the greatest is the worst."""
        required = self.required if self.required is not None else float("inf")
        return self.outcome is Outcome.FAIL, required / self.limit if self.limit else required


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """One measure of both sides beside the verdict; it never decides a latency.

    `name` is `p95`, `p99`, `throughput`, `load`, `first`, `peak_memory`, `memory_growth` or
    `device_memory`, `unit` what both numbers are in. A side that was not measured is `None`, and
    `note` says why. `ratio_low` and `ratio_high` bound candidate / baseline with a confidence of
    95 %, where that is known.
    """

    name: str
    unit: str
    baseline: float | None
    candidate: float | None
    samples: int
    note: str = ""
    ratio_low: float | None = None
    ratio_high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyComparison:
    """Candidate against baseline on one machine, sessions of interleaved blocks.

    `ratio` is candidate / baseline; `ratio_low` and `ratio_high` bound it by what the last look at
    the sessions may spend of 1 % on each side. It fails above `1 + margin`, passes below
    `1 + max_regression`. `mde` is the growth that this many sessions of this spread, `session_sd`
    of logarithms, would have shown in four of five runs. `reason` says why it is inconclusive.
    """

    subject: Subject
    outcome: Outcome
    baseline_p50_ms: float
    candidate_p50_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    sessions: int
    pairs: int
    max_regression: float
    enforced: bool
    margin: float = 0.0
    mde: float | None = None
    session_sd: float | None = None
    session_ratios: tuple[float, ...] = ()
    voided_pairs: int = 0
    reason: str = ""
    measures: tuple[SideBySide, ...] = ()
