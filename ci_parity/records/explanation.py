"""One case from raw input to verdict, as a person follows it: numbers, words and paths."""

from dataclasses import dataclass

from ci_parity.records.outcome import Outcome
from ci_parity.records.preprocess import Diagnosis, StepSummary, TensorSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRaw:
    """One raw file: the input that it gives or `*`, its steps, and how the result compares.

    `path` is relative to the fixture set. `diagnosis` is None where the pipeline could not run;
    `problem` then says why.
    """

    input: str
    path: str
    size_bytes: int
    sha256: str
    steps: tuple[StepSummary, ...] = ()
    diagnosis: Diagnosis | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTensor:
    """A stored tensor by its name."""

    name: str
    tensor: TensorSummary | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedOutput:
    """One output across one boundary: what it was to be, what it was, and why that is the verdict.

    `needed` and `limit` share `unit`; `rule` says in words where the limit comes from. `policy` is
    the line of the config that decided, or says that a default did.
    """

    name: str
    boundary: str
    outcome: Outcome
    expected: TensorSummary | None
    here: TensorSummary | None
    max_abs: float | None
    needed: float | None
    limit: float | None
    unit: str
    rule: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A class with its score, `name` empty where the output has none."""

    number: int
    name: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedDecision:
    """What is decided from an output; both rankings are empty where nothing is ranked."""

    kind: str
    output: str
    boundary: str
    outcome: Outcome
    evidence: str
    expected: tuple[Ranked, ...]
    here: tuple[Ranked, ...]
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRun:
    """A variant on a target: the system that really ran, what it gave, what was decided.

    `others` are findings that are about no single output, as words.
    """

    target: str
    variant: str
    system: str
    provider_asked: str
    providers_used: tuple[str, ...]
    outputs: tuple[ExplainedOutput, ...]
    decisions: tuple[ExplainedDecision, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything about one case of a deployment.

    `fed` says that the stored inputs are what the application makes, None where there is no raw
    file to tell. `pipeline` is the file of the pipeline, empty without one.
    """

    deployment: str
    case: str
    classes: tuple[str, ...]
    description: str
    provenance: str
    pipeline: str
    raws: tuple[ExplainedRaw, ...]
    inputs: tuple[NamedTensor, ...]
    fed: Outcome | None
    runs: tuple[ExplainedRun, ...]
    outcome: Outcome
    checks: int
    held: int
