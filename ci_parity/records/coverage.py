"""Operator coverage: what a model asks of a runtime, node by node, and what tests say of it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ValueRecord


class Presence(enum.Enum):
    """Whether a runtime says that it has a kernel; `unknown` where it cannot be asked."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class NodeOutcome(enum.Enum):
    """What one node test showed on one target.

    `fail` is a wrong output, or an error on a valid test; `refused` is an error that says that the
    runtime lacks what the test asks for; `disputed` a test whose expected outputs two oracles do
    not agree on; `skipped` one that could not be put to the runtime at all. None of the last two
    says anything about the runtime.
    """

    PASS = "pass"  # noqa: S105 - an outcome
    FAIL = "fail"
    REFUSED = "refused"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    DISPUTED = "disputed"
    SKIPPED = "skipped"


class Probe(enum.Enum):
    """What a runtime is asked to do with a node alone, to see whether it has it.

    What it gives is not looked at.
    """

    LOAD = "load"
    RUN = "run"


class CellStatus(enum.Enum):
    """What is known of one signature on one target, gravest first."""

    FAILING = "tested-fail"
    UNSUPPORTED = "unsupported"
    UNTESTED = "untested"
    PRESENT = "present"
    PASSING = "tested-pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One input or output of a node, as far as it decides which kernel and which path runs.

    `kind` is `tensor`, `sequence`, `map`, `optional`, or `absent` for one that is left out.
    `dtype` is ONNX's name as `records.values` spells it, empty where unknown. `shape` holds a word
    for each dimension: `0`, `1`, or `n` for any larger size; `?` alone is an unknown rank, the
    empty tuple a scalar. `dynamic` says that the model does not fix the sizes.
    """

    kind: str
    dtype: str
    shape: tuple[str, ...]
    dynamic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a node asks of a runtime. Equal signatures ask the same.

    `attributes` are those set, by name, each value as canonical JSON, a subgraph as `"graph"`;
    `defaults` are the names of those that the node leaves to their default. `constants` are the
    small inputs that steer the operator (a shape, axes, pads), by position, as canonical JSON: axes
    and steps as they are, sizes as `0`, `1`, `-1` or `"n"`, positions by their sign; what the model
    does not fix, and only a run showed, stands in `{"fed": …}`. `subgraph` is the digest of the
    operators inside, empty without.
    """

    domain: str
    op_type: str
    since_version: int
    attributes: tuple[tuple[str, str], ...]
    defaults: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: tuple[tuple[int, str], ...] = ()
    subgraph: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedSignature:
    """A signature that a model asks for, and the names of the nodes that do.

    `shapes` are the real sizes of one such node's inputs, None where they are not known.
    """

    signature: Signature
    nodes: tuple[str, ...]
    shapes: tuple[tuple[int, ...] | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """One node test: a model of one node, its inputs, and what it must give.

    `id` begins with its source: `onnx/test_reshape_allowzero_reordered` is of the ONNX standard's
    own suite, `made/…` was made for a signature. `inputs` and `outputs` are in the order of the
    model's ports; their files lie in `folder`. `rtol` and `atol` are those of the test itself.
    `digest` covers all of that, `model_sha256` the model alone. `oracle` says what gave the
    outputs. `disputed` says, where two oracles do not agree, what each gave; `undefined` why
    nothing can say what the outputs must be. With a `probe` it is no test: of `outputs` there are
    the names alone.
    """

    id: str
    folder: Path
    model: Path
    model_sha256: str
    digest: str
    inputs: tuple[ValueRecord, ...]
    outputs: tuple[ValueRecord, ...]
    rtol: float
    atol: float
    oracle: str
    signatures: tuple[Signature, ...] = ()
    disputed: str = ""
    undefined: str = ""
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What one node test showed on one runtime and provider; `evidence` says it in a sentence."""

    case: str
    outcome: NodeOutcome
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel that a runtime registers.

    It serves the versions of the operator from `first` to `last`; None for `last` is an open end,
    which serves the version `first` alone, as no later one was known. `inputs` and `outputs` are
    the types that each port takes, as ONNX's schemas spell them (`tensor(float)`), empty for any.
    A port beyond the last is as the last.
    """

    domain: str
    op_type: str
    first: int
    last: int | None
    provider: str
    inputs: tuple[tuple[str, ...], ...] = ()
    outputs: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All that a runtime says it has; `why_not` says why that is not known.

    `built_in` are operators of ONNX's own domain that it resolves without a kernel. `functions`
    says that it expands operators which ONNX defines by a body of others. `casts` are pairs: where
    no kernel takes the first type on the CPU, one for the second is used, with casts around it.
    """

    kernels: tuple[Kernel, ...] = ()
    built_in: tuple[str, ...] = ()
    functions: bool = False
    casts: tuple[tuple[str, str], ...] = ()
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What a listing says of one signature, in a word and in a sentence."""

    presence: Presence
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What came of a signature's node alone; `broken` where it crashed the runtime or hung it."""

    signature: Signature
    listed: Listed
    broken: NodeResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTarget:
    """A runtime and provider that was asked: what it lists and what each test showed, by its id.

    `baseline` names the last validated runtime that the target is compared with, empty for none.
    `system` is the digest of all that the results depend on; `measured` are the tests that were run
    now, and not known from before. `probed` says of signatures that the listing tells nothing of
    what came of their node alone.
    """

    name: str
    runtime: str
    provider: str
    listing: Listing
    results: Mapping[str, NodeResult]
    baseline: str = ""
    system: str = ""
    measured: tuple[str, ...] = ()
    probed: tuple[Probed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One signature on one target: what is known, and the tests that say so.

    `name` tells the signature from the others of its matrix (`Reshape allowzero=1`). `passed` are
    ids of tests; `failed` and `refused` what went wrong in others; `undecided` are tests that are
    no evidence, because oracles dispute or nothing could be run. `listing` is what the runtime says
    of itself, `words` why the status is what it is.
    """

    signature: Signature
    name: str
    nodes: tuple[str, ...]
    target: str
    status: CellStatus
    presence: Presence
    listing: str = ""
    passed: tuple[str, ...] = ()
    failed: tuple[NodeResult, ...] = ()
    refused: tuple[NodeResult, ...] = ()
    undecided: tuple[NodeResult, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """A cell whose status is another one than on the last validated runtime."""

    name: str
    target: str
    before: CellStatus
    after: CellStatus
    words: str = ""

    @property
    def worse(self) -> bool:
        """Whether less is known, or worse."""
        order = list(CellStatus)
        return order.index(self.after) < order.index(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTarget:
    """One column: the runtime and provider, how many tests of it ran, and its score in a line."""

    name: str
    runtime: str
    provider: str
    tests: int
    score: str
    baseline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All signatures of a model on all targets asked for; `changes` since the last validated."""

    model: str
    model_sha256: str
    targets: tuple[MatrixTarget, ...]
    cells: tuple[Cell, ...]
    changes: tuple[CellChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeCount:
    """How tests of an operator on one element type ended on one target; `listed` by its kernels."""

    dtype: str
    listed: Presence
    passed: int = 0
    failed: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCell:
    """One operator on one target: `dtypes` in detail, the attributes that a passing test set."""

    target: str
    status: CellStatus
    presence: Presence
    listing: str
    passed: int
    failed: tuple[NodeResult, ...]
    refused: tuple[NodeResult, ...]
    dtypes: tuple[DtypeCount, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """One operator of the ONNX standard: its newest version, its attributes, a cell a target."""

    domain: str
    op_type: str
    since_version: int
    attributes: tuple[str, ...]
    cells: tuple[OperatorCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTable:
    """All operators of the ONNX standard on all targets asked for; `standard` is its release."""

    standard: str
    targets: tuple[MatrixTarget, ...]
    rows: tuple[OperatorRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageReport:
    """What `coverage` tells: how it was judged, a matrix for each model, the whole standard.

    `subject` is the model or the deployment, empty for a runtime alone; `operators` is None where
    the whole standard was not asked for. `reproduce` is the command.
    """

    subject: str
    outcome: Outcome
    findings: tuple[Finding, ...]
    matrices: tuple[Matrix, ...]
    operators: OperatorTable | None
    reproduce: str
