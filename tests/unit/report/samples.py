"""Verdicts to report on: every part has plausible content and none is random."""

from dataclasses import replace
from typing import Any

from ci_parity.base.digest import sha256_bytes
from ci_parity.records.attribution import Attribution, Conclusion, Swap, SystemAxis
from ci_parity.records.divergence import Conclusion as Found
from ci_parity.records.divergence import DepthPoint, Divergence, NodeName
from ci_parity.records.executed import ExecutedGraph, ExecutedOperator, OperatorCount
from ci_parity.records.finding import Finding, LatencyComparison, OutputComparison, Subject
from ci_parity.records.identity import Axis, BaselineSource, Change, ChangeSet, Identity, PairName
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import (
    ClassedWarning,
    Method,
    OperatorPlacement,
    Placement,
    SystemPlacement,
    WarningKind,
)
from ci_parity.records.verdict import Environment, Row, Verdict

VERSION = "baseline→candidate"


def digest(word: str) -> str:
    """Return the SHA-256 of a word."""
    return sha256_bytes(word.encode())


def subject(case: str = "typical", output: str = "probs", boundary: str = VERSION) -> Subject:
    """Return one output of one case."""
    return Subject(target="cpu", variant="exported", boundary=boundary, case=case, output=output)


def output(case: str = "typical", **changes: Any) -> OutputComparison:
    """Return an output that used a fifth of its limit."""
    sample = OutputComparison(
        subject=subject(case), outcome=Outcome.PASS, dtype="float32", shape=(1, 10), elements=10,
        mismatched=3, max_abs=1.1920929e-07, max_rel=2.5e-06, max_ulp=2.0, rel_to_scale=1.2e-07,
        limit=1e-4, required=2e-05, rule="rtol 0.0001, atol 2e-05 of scale (float32 ladder)",
        worst_index=(0, 3), worst_baseline="0.0476", worst_candidate="0.0477",
    )  # fmt: skip
    return replace(sample, **changes)


def finding(kind: str = "output.values", **changes: Any) -> Finding:
    """Return a failed check of an output."""
    sample = Finding(
        id=kind, outcome=Outcome.FAIL, subject=subject(), measured=0.05, limit=1e-4, required=0.05,
        evidence="3 of 10 elements differ; at [0, 3] baseline 0.0476, candidate 0.5; "
        "largest difference 0.4524; rtol 0.0001, atol 2e-05 of scale (float32 ladder)",
        remedy="compare the two systems on this case",
    )  # fmt: skip
    return replace(sample, **changes)


def held(case: str) -> Finding:
    """Return a check that passed."""
    return finding(
        subject=subject(case), outcome=Outcome.PASS, required=2e-05, measured=2e-05, remedy=""
    )  # fmt: skip


def latency(**changes: Any) -> LatencyComparison:
    """Return a timing that settled nothing."""
    sample = LatencyComparison(
        subject=Subject(target="cpu", variant="exported", case="typical"),
        outcome=Outcome.INCONCLUSIVE, baseline_p50_ms=2.0, candidate_p50_ms=2.1, ratio=1.05,
        ratio_low=0.98, ratio_high=1.12, sessions=4, pairs=40, max_regression=0.05, enforced=False,
        mde=0.067, reason="16 sessions did not settle it",
    )  # fmt: skip
    return replace(sample, **changes)


def identity(runtime: str) -> Identity:
    """Return the variant on the target, on one runtime."""
    return Identity(
        target="cpu", variant="exported", model=digest("model"), runtime=runtime,
        provider="CPUExecutionProvider", options='{"provider":{},"session":{}}', optimization="",
        fixtures=digest("fixtures"), policy=digest("policy"),
    )  # fmt: skip


def changes(*moved: Change, kind: str = "log", reason: str = "") -> ChangeSet:
    """Return what moved since a line of the release log."""
    label = "release log record 7, validated 2026-11-30T10:07:00Z" if kind == "log" else ""
    before, after = identity("onnxruntime==1.31.1"), identity("onnxruntime==1.32.0")
    return ChangeSet(
        source=BaselineSource(
            kind=kind, label=label, commit="c0ffee" * 6 + "c0ff", reason=reason
        ),
        changes=moved,
        identities=(after,),
        baselines=(before,) if kind != "none" else (),
        to_run=(PairName(target="cpu", variant="exported"),) if moved or kind == "none" else (),
        foresight=(FORESEEN,) if moved else (),
    )  # fmt: skip


BUMP = Change(
    axis=Axis.RUNTIME, target="cpu", variant="exported", before="onnxruntime==1.31.1",
    after="onnxruntime==1.32.0", sentences=("onnxruntime moved by one minor version",),
)  # fmt: skip
FORESEEN = Finding(
    id="foresight.telemetry", outcome=Outcome.INCONCLUSIVE, subject=Subject(target="cpu"),
    evidence="a later version reports on the models it runs", remedy="switch it off", advisory=True,
)  # fmt: skip


def row(outcome: Outcome = Outcome.PASS, **changes: Any) -> Row:
    """Return the line of a boundary over two cases."""
    sample = Row(
        target="cpu", variant="exported", boundary=VERSION, outcome=outcome, cases=2,
        cases_expected=2, worst=output(),
    )  # fmt: skip
    return replace(sample, **changes)


def attribution(**changes: Any) -> Attribution:
    """Return the cause of a failure after two changes."""
    sample = Attribution(
        target="cpu", variant="exported", boundary=VERSION, conclusion=Conclusion.ALL,
        causes=(SystemAxis.RUNTIME,), cases=("typical",), used=500.0,
        sentence="runtime onnxruntime 1.31.1→1.32.0: all of it",
        swaps=(
            Swap(axis=SystemAxis.MODEL, before="0123456789ab", after="ba9876543210",
                 alone=Outcome.PASS, without=Outcome.FAIL, used=0.2),
            Swap(axis=SystemAxis.RUNTIME, before="onnxruntime==1.31.1",
                 after="onnxruntime==1.32.0", alone=Outcome.FAIL, without=Outcome.PASS,
                 used=500.0),
        ),
    )  # fmt: skip
    return replace(sample, **changes)


def depth_point(position: int, noise: float | None, **changes: Any) -> DepthPoint:
    """Return a tensor on the way, so many noise floors off; None for one without a floor."""
    sample = DepthPoint(
        tensor=f"hidden_{position}", position=position, op_type="Gemm", equal=not noise,
        max_abs=1e-6 * noise if noise is not None else 0.0, max_noise=noise,
        rms_noise=noise / 8 if noise is not None else None,
    )  # fmt: skip
    return replace(sample, **changes)


def depth() -> tuple[DepthPoint, ...]:
    """Return sixteen tensors; the tenth is at fault."""
    before = [0.0, 0.0, 0.4, 1.6, 2.1, 1.9, 3.2, 2.8, 3.5]
    behind = [3900.0, 1200.0, 1350.0, 980.0, 1100.0]
    noises = [*before, 4100.0, *behind]
    return (
        *(depth_point(at, noise, guilty=at == 9) for at, noise in enumerate(noises)),
        depth_point(15, None, op_type="ArgMax", tensor="label", equal=False, max_abs=1.0),
    )


def divergence(**changes: Any) -> Divergence:
    """Return a fault in one of fifteen nodes, its neighbour fused to it."""
    sample = Divergence(
        target="cpu", variant="exported", boundary=VERSION, case="typical", conclusion=Found.FUSED,
        sentence="Gemm 'classify', Relu 'clip' go wrong only as they are optimized together",
        nodes=(
            NodeName(name="classify", op_type="Gemm", outputs=("hidden_8",)),
            NodeName(name="main_3/clip", op_type="Relu", outputs=("hidden_9",), origin="If/clip"),
        ),
        used=480.0, whole=500.0,
        local=(
            output(subject=subject(output="hidden_9"), outcome=Outcome.FAIL, required=2900.0,
                   limit=4.09, unit="x noise", max_abs=0.0039),
        ),
        optimizers=("GemmActivationFusion",), further=True, unpaired=("hidden_4", "hidden_6"),
        depth=depth(), tried=17, reproduction="repro-1",
    )  # fmt: skip
    return replace(sample, **changes)


def open_divergence() -> Divergence:
    """Return a search that came to nothing."""
    return divergence(
        variant="int8", conclusion=Found.OPEN, sentence="the model cannot be taken apart", nodes=(),
        used=None, whole=None, local=(), optimizers=None, further=False, unpaired=(), depth=(),
        tried=0, reproduction="",
    )  # fmt: skip


def executed() -> ExecutedGraph:
    """Return nine kernels made of twelve nodes, with two casts and one that was compiled."""
    ran = (
        ("FusedConv", "float32", "float32", 4), ("Softmax", "float32", "float32", 1),
        ("Cast", "float16", "float32", 1), ("Cast", "float32", "float16", 1),
        ("Shape", "float16", "int64", 1), ("(compiled)", "", "", 1),
    )  # fmt: skip
    file = (("Conv", 4), ("Relu", 4), ("Softmax", 1), ("Shape", 1), ("Identity", 2))
    return ExecutedGraph(
        operators=tuple(
            ExecutedOperator(op_type=op, takes=takes, gives=gives, count=count)
            for op, takes, gives, count in ran
        ),
        original=tuple(OperatorCount(op_type=op, count=count) for op, count in file),
    )


def on_cpu(**changes: Any) -> SystemPlacement:
    """Return a system that had nothing but the CPU."""
    provider = "CPUExecutionProvider"
    sample = SystemPlacement(
        target="cpu", variant="exported", requested=provider, providers=(provider,),
        placement=Placement(method=Method.CPU, executed=executed()),
    )  # fmt: skip
    return replace(sample, **changes)


def on_gpu() -> SystemPlacement:
    """Return a system with three nodes that its provider did not run, and what its runtime said."""
    gpu, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    operators = (
        OperatorPlacement(provider=gpu, op_type="Conv", count=12),
        OperatorPlacement(provider=gpu, op_type="Relu", count=11),
        OperatorPlacement(provider=cpu, op_type="Shape", count=2, names=("shape_1",)),
        OperatorPlacement(provider=cpu, op_type="NonMaxSuppression", count=1, names=("nms",)),
    )
    said = (
        ClassedWarning(
            kind=WarningKind.FALLBACK, count=2,
            text="2 Memcpy nodes are added to the graph main for CUDAExecutionProvider",
        ),
        ClassedWarning(kind=WarningKind.OTHER, text="<b>libfoo</b>: using 4 threads", count=1),
    )  # fmt: skip
    placed = Placement(method=Method.ASSIGNMENT, operators=operators, memcpy=2)
    return SystemPlacement(
        target="gpu", variant="exported", requested=gpu, providers=(gpu, cpu), placement=placed,
        warnings=said,
    )  # fmt: skip


def passed(**parts: Any) -> Verdict:
    """Return a check in which everything agreed."""
    sample = Verdict(
        command="check", deployment="digits", outcome=Outcome.PASS, ran=True,
        summary="4 output comparisons within limits",
        rows=(row(boundary="source→exported"), row()),
        findings=tuple(map(held, ("typical", "smallest", "empty", "worst-case"))),
        outputs=(output(), output("smallest", mismatched=0, max_abs=0.0, required=0.0)),
        latency=(latency(),), changes=changes(BUMP),
        environment=Environment(
            host="Linux, 6.8.0, x86_64", systems=("onnxruntime==1.32.0, CPUExecutionProvider",)
        ),
        inputs_source="fixtures", inputs_count=2, bundle_digest=digest("bundle"),
        reproduce=("ci-parity check --force --base c0ffee",), tool_version="0.1.0",
        placements=(on_cpu(),),
    )  # fmt: skip
    return replace(sample, **parts)


def failed() -> Verdict:
    """Return a check with failures of several kinds, and a warning."""
    bad = output(outcome=Outcome.FAIL, required=0.05, max_abs=0.4524, worst_candidate="0.5")
    flip = finding(
        "decision.argmax", advisory=True, measured=1.0, limit=0.0, required=1.0,
        evidence="the largest element moved in 1 of 1 rows", remedy="check the rows named",
    )  # fmt: skip
    crash = finding(
        "case.crash", subject=subject("worst-case", ""), measured=None, limit=None, required=None,
        evidence="the worker was ended by SIGSEGV during 'run'", remedy="run the case alone",
    )  # fmt: skip
    lost = finding(
        "output.missing", subject=subject(output="boxes"), measured=None, limit=None,
        required=None, evidence="the baseline produced output 'boxes', the candidate did not",
    )  # fmt: skip
    return passed(
        outcome=Outcome.FAIL,
        summary="3 of 5 checks failed, first broken boundary: cpu/exported: baseline→candidate",
        rows=(
            row(Outcome.FAIL, cases=1, worst=bad),
            row(boundary="source→exported"),
            row(Outcome.FAIL, variant="int8", worst=bad, inherits="exported: baseline→candidate"),
        ),
        attributions=(attribution(),),
        placements=(on_cpu(), on_gpu()),
        divergences=(open_divergence(), divergence()),
        findings=(flip, finding(), crash, lost, *(held(case) for case in ("a", "b"))),
        outputs=(bad, output("smallest")),
        latency=(latency(outcome=Outcome.FAIL, ratio=1.2, ratio_low=1.15, ratio_high=1.25),),
    )


def inconclusive() -> Verdict:
    """Return a check without a baseline to compare with."""
    gap = finding(
        "compared.nothing", outcome=Outcome.INCONCLUSIVE, measured=None, limit=None,
        required=None, subject=Subject(target="cpu", variant="exported"),
        evidence="no stored references and no baseline: there is nothing to compare with",
        remedy="store references from the source model beside the inputs",
    )  # fmt: skip
    return passed(
        outcome=Outcome.INCONCLUSIVE, summary="1 of 1 checks could not be measured",
        findings=(gap,),
        rows=(row(Outcome.INCONCLUSIVE, boundary="nothing to compare with", cases=0, worst=None),),
        outputs=(), latency=(), changes=changes(kind="none", reason="not a git repository"),
    )  # fmt: skip


def unchanged() -> Verdict:
    """Return a check that had nothing to do."""
    return passed(
        ran=False, summary="nothing that can change the results differs from the baseline",
        rows=(), findings=(), outputs=(), latency=(), changes=changes(), placements=(),
        environment=Environment(host="Linux, 6.8.0, x86_64", systems=()), inputs_count=0,
        reproduce=("ci-parity check --force",),
    )  # fmt: skip


def diff(verdict: Verdict) -> Verdict:
    """Return the same verdict as a `diff` reaches it: two systems, no deployment."""
    return replace(
        verdict, command="diff", deployment="model.onnx", changes=None, bundle_digest="",
        inputs_source="generated", rows=verdict.rows[:1],
        reproduce=("ci-parity diff model.onnx --candidate-runtime onnxruntime==1.32.0",),
    )  # fmt: skip


SAMPLES = {
    "pass": passed(),
    "fail": failed(),
    "inconclusive": inconclusive(),
    "unchanged": unchanged(),
}
