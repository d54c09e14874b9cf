"""Coverage reports as the stages make them, for tests of every form they are written in."""

from dataclasses import replace

from ci_parity.records.coverage import (
    Cell,
    CellChange,
    CellStatus,
    CoverageReport,
    DtypeCount,
    Matrix,
    MatrixTarget,
    NodeOutcome,
    NodeResult,
    OperatorCell,
    OperatorRow,
    OperatorTable,
    Port,
    Presence,
    Signature,
)
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

CPU = "CPUExecutionProvider"
FLOATS = Port(kind="tensor", dtype="float32", shape=("n", "n"))
SIZES = Port(kind="tensor", dtype="int64", shape=("n",))
RESHAPE = Signature(
    domain="", op_type="Reshape", since_version=14, attributes=(("allowzero", "1"),), defaults=(),
    inputs=(FLOATS, SIZES), outputs=(replace(FLOATS, dynamic=True),), constants=((1, '["n",0]'),),
)  # fmt: skip
SOFTMAX = Signature(
    domain="", op_type="Softmax", since_version=13, attributes=(), defaults=("axis",),
    inputs=(FLOATS,), outputs=(FLOATS,),
)  # fmt: skip
GELU = Signature(
    domain="com.microsoft", op_type="BiasGelu", since_version=1, attributes=(), defaults=(),
    inputs=(FLOATS, replace(FLOATS, shape=("n",))), outputs=(FLOATS,),
)  # fmt: skip
CAST = Signature(
    domain="", op_type="Cast", since_version=19, attributes=(("to", "10"),), defaults=("saturate",),
    inputs=(FLOATS,), outputs=(replace(FLOATS, dtype="float16"),),
)  # fmt: skip
IF = Signature(
    domain="", op_type="If", since_version=19, attributes=(("then_branch", '"graph"'),),
    defaults=(), inputs=(Port(kind="tensor", dtype="bool", shape=()),), outputs=(FLOATS,),
    subgraph="c0ffee00" * 8,
)  # fmt: skip
WRONG = NodeResult(
    case="made/reshape-1f2e", outcome=NodeOutcome.FAIL,
    evidence="y: shape [2, 0, 1] on the runtime, [2, 0] in the test",
)  # fmt: skip
REFUSED = NodeResult(
    case="onnx/test_cast_FLOAT_to_FLOAT16", outcome=NodeOutcome.REFUSED,
    evidence="unsupported data type",
)  # fmt: skip
DISPUTED = NodeResult(
    case="made/softmax-00ab", outcome=NodeOutcome.DISPUTED, evidence="reference: 1, runtime: 2"
)  # fmt: skip


def cell(
    signature: Signature, name: str, status: CellStatus, target: str = "cpu", **more: object
) -> Cell:
    """Return a cell with the evidence that its status needs."""
    given: dict[str, object] = {
        "signature": signature, "name": name, "nodes": (f"/block/{signature.op_type}_1",),
        "target": target, "status": status, "presence": Presence.PRESENT,
        "listing": "a kernel of versions 14 to 18", "words": "3 tests passed",
    }  # fmt: skip
    return Cell(**(given | more))  # type: ignore[arg-type]


def matrix() -> Matrix:
    """Return a matrix of five signatures on two targets, with a cell of each status."""
    lacking = {"presence": Presence.UNKNOWN, "listing": "the runner has no verb 'kernels'"}
    cells = (
        cell(RESHAPE, "Reshape allowzero=1", CellStatus.FAILING, "edge", failed=(WRONG,),
             passed=("onnx/test_reshape_allowzero_reordered",), nodes=tuple("abcdef"),
             words="1 of 2 tests failed: made/reshape-1f2e: shapes differ", **lacking),
        cell(RESHAPE, "Reshape allowzero=1", CellStatus.PASSING, passed=("made/reshape-1f2e",)),
        cell(SOFTMAX, "Softmax", CellStatus.PASSING, passed=("onnx/test_softmax",) * 4,
             undecided=(DISPUTED,)),
        cell(SOFTMAX, "Softmax", CellStatus.PASSING, "edge", passed=("onnx/test_softmax",),
             **lacking),
        cell(GELU, "com.microsoft.BiasGelu", CellStatus.PRESENT,
             words="a kernel since version 1; no test of BiasGelu"),
        cell(GELU, "com.microsoft.BiasGelu", CellStatus.UNTESTED, "edge",
             words="no test of BiasGelu", **lacking),
        cell(CAST, "Cast to=10", CellStatus.PASSING),
        cell(CAST, "Cast to=10", CellStatus.UNSUPPORTED, "edge", refused=(REFUSED,),
             words="1 of 1 test refused: unsupported data type", **lacking),
        cell(IF, "If", CellStatus.PASSING),
        cell(IF, "If", CellStatus.PASSING, "edge", **lacking),
    )  # fmt: skip
    targets = (
        MatrixTarget(
            name="cpu", runtime="onnxruntime==1.32.0", provider=CPU, tests=81,
            score="4 of 5 signatures tested, none failing; 1 present but untested: "
            "com.microsoft.BiasGelu", baseline="onnxruntime==1.31.1",
        ),
        MatrixTarget(
            name="edge", runtime="candle-parity-runner", provider=CPU, tests=79,
            score="3 of 5 signatures tested, 1 failing: Reshape allowzero=1; 1 unsupported: Cast "
            "to=10; 1 unknown: com.microsoft.BiasGelu",
        ),
    )  # fmt: skip
    changes = (
        CellChange(name="Softmax", target="cpu", before=CellStatus.FAILING,
                   after=CellStatus.PASSING, words="4 tests passed"),
    )  # fmt: skip
    return Matrix(
        model="models/reader.onnx", model_sha256="ab" * 32, targets=targets, cells=cells,
        changes=changes,
    )  # fmt: skip


def operators() -> OperatorTable:
    """Return a table of three operators on one target."""
    types = (
        DtypeCount(dtype="float32", listed=Presence.PRESENT, passed=4),
        DtypeCount(dtype="float16", listed=Presence.PRESENT),
        DtypeCount(dtype="bfloat16", listed=Presence.ABSENT, failed=1),
    )
    rows = (
        OperatorRow(domain="", op_type="Reshape", since_version=25, attributes=("allowzero",),
                    cells=(operator_cell(CellStatus.FAILING, (WRONG,), types),)),
        OperatorRow(domain="", op_type="Softmax", since_version=13, attributes=("axis",),
                    cells=(operator_cell(CellStatus.PASSING, (), types[:2]),)),
        OperatorRow(domain="ai.onnx.ml", op_type="Scaler", since_version=1,
                    attributes=("offset", "scale"),
                    cells=(replace(operator_cell(CellStatus.PRESENT, (), types[1:2]), passed=0,
                                   attributes=()),)),
    )  # fmt: skip
    target = MatrixTarget(
        name="onnxruntime==1.32.0", runtime="onnxruntime==1.32.0", provider=CPU, tests=1700,
        score="2 of 3 operators tested, 1 failing: Reshape",
    )  # fmt: skip
    return OperatorTable(standard="onnx 1.23.2", targets=(target,), rows=rows)


def operator_cell(
    status: CellStatus, failed: tuple[NodeResult, ...], dtypes: tuple[DtypeCount, ...]
) -> OperatorCell:
    """Return a cell of an operator."""
    return OperatorCell(
        target="onnxruntime==1.32.0", status=status, presence=Presence.PRESENT,
        listing="a kernel since version 25", passed=4, failed=failed, refused=(), dtypes=dtypes,
        attributes=("allowzero",),
    )  # fmt: skip


def report(**changed: object) -> CoverageReport:
    """Return a report with everything in it: it fails on one of two targets."""
    failing = Finding(
        id="coverage.failing", outcome=Outcome.FAIL,
        subject=Subject(target="edge", variant="exported"),
        evidence="Reshape allowzero=1 (a, b, c and 3 more): 1 of 2 tests failed",
        remedy="run the test by itself",
    )  # fmt: skip
    given: dict[str, object] = {
        "subject": "reader", "outcome": Outcome.FAIL, "findings": (failing,),
        "matrices": (matrix(),), "operators": operators(),
        "reproduce": "ci-parity coverage --all-operators",
    }  # fmt: skip
    return CoverageReport(**(given | changed))  # type: ignore[arg-type]


def passing() -> CoverageReport:
    """Return a report of one model on one target where every test passes."""
    whole = matrix()
    kept = tuple(c for c in whole.cells if c.target == "cpu" and c.status is CellStatus.PASSING)
    score = "4 of 4 signatures tested, none failing"
    target = replace(whole.targets[0], score=score, baseline="")
    only = replace(whole, targets=(target,), cells=kept, changes=())
    around = Finding(
        id="coverage.around", outcome=Outcome.FAIL, subject=Subject(target="cpu"), advisory=True,
        evidence="1 of 9 tests of edges around what the model asks for fail: "
        "Reshape zero-is-zero: y0: shape [2,3], the test has [0,3] <b>", remedy="nothing yet",
    )  # fmt: skip
    return report(outcome=Outcome.PASS, findings=(around,), matrices=(only,), operators=None)


def standard_alone() -> CoverageReport:
    """Return a report of a runtime without a model."""
    return report(subject="", outcome=Outcome.PASS, findings=(), matrices=())


def unmeasured() -> CoverageReport:
    """Return a report of a target on which nothing ran."""
    whole = matrix()
    target = replace(whole.targets[1], tests=0, score="0 of 1 signatures tested, none failing")
    cells = tuple(replace(c, passed=(), status=CellStatus.UNTESTED) for c in whole.cells
                  if c.target == "edge" and c.name == "Softmax")  # fmt: skip
    nothing = Finding(
        id="coverage.unmeasured", outcome=Outcome.INCONCLUSIVE, subject=Subject(target="edge"),
        evidence="no test of an operator ran", remedy="see the runtime's messages",
    )  # fmt: skip
    return report(
        outcome=Outcome.INCONCLUSIVE, findings=(nothing,), operators=None,
        matrices=(replace(whole, targets=(target,), cells=cells, changes=()),),
    )  # fmt: skip


REPORTS = {
    "everything": report(), "passing": passing(), "standard": standard_alone(),
    "unmeasured": unmeasured(),
}  # fmt: skip
