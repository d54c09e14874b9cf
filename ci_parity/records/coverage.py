"""Operator coverage: what a model asks of a runtime, node by node, and what tests say of it."""

import enum
from dataclasses import dataclass
from pathlib import Path


class Presence(enum.Enum):
    """Whether a runtime says that it has a kernel; `unknown` where it cannot be asked."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class NodeOutcome(enum.Enum):
    """What one node test showed on one target.

    `refused` is a model that the runtime would not load or run, saying so; `disputed` one whose
    expected outputs two oracles do not agree on; `skipped` one that could not be put to the runtime
    at all. None of the last two says anything about the runtime.
    """

    PASS = "pass"
    FAIL = "fail"
    REFUSED = "refused"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    DISPUTED = "disputed"
    SKIPPED = "skipped"


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
    small integer inputs that the model fixes and that steer the operator (a shape, axes, pads), by
    position, as canonical JSON. `subgraph` is the digest of the operators inside, empty without.
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
    """A signature that a model asks for, and the names of the nodes that do."""

    signature: Signature
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """One node test: a model of one node, its inputs, and what it must give.

    `id` begins with its source: `onnx/test_reshape_allowzero_reordered` is of the ONNX standard's
    own suite, `made/…` was made for a signature. `inputs` and `outputs` are TensorProto,
    SequenceProto or OptionalProto files, in the order of the model's ports. `rtol` and `atol` are
    those of the test itself. `oracle` says what gave the outputs. `disputed` says, where two
    oracles do not agree, what each gave.
    """

    id: str
    model: Path
    model_sha256: str
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    rtol: float
    atol: float
    signatures: tuple[Signature, ...]
    oracle: str
    disputed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What one node test showed on one runtime and provider; `evidence` says it in a sentence."""

    case: str
    outcome: NodeOutcome
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One signature on one target: what is known, and the ids of the tests that say so."""

    signature: Signature
    nodes: tuple[str, ...]
    target: str
    status: CellStatus
    presence: Presence
    passed: tuple[str, ...] = ()
    failed: tuple[NodeResult, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All signatures of a model on all targets asked for."""

    model: str
    model_sha256: str
    targets: tuple[str, ...]
    cells: tuple[Cell, ...]
