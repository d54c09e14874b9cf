"""A verdict in which every part of a page has something to show."""

from dataclasses import replace

from ci_parity.records.finding import Finding, OutputComparison, SideBySide
from ci_parity.records.graph_change import GraphChange, OperatorMove
from ci_parity.records.identity import Axis, Change
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.html import Files
from tests.unit.report.samples import BUMP, changes, failed, finding, latency, output, subject

FILES = Files(
    report="verdict.json", comment="comment.md", bundle="bundle.json", reproductions=".",
    commit="c0ffee" * 6 + "c0ff", run_url="https://git.example/acme/models/actions/runs/7",
)  # fmt: skip
MODEL = Change(
    axis=Axis.MODEL, target="cpu", variant="exported", before="0123456789ab", after="ba9876543210",
    sentences=("weights of 1 of 6 initializers changed",),
)  # fmt: skip
GRAPH = GraphChange(
    target="cpu", variant="exported", nodes_before=12, nodes_after=14,
    opsets_before=("ai.onnx 17",), opsets_after=("ai.onnx 21",),
    operators=(
        OperatorMove(op="Gemm", before=3, after=1), OperatorMove(op="MatMul", before=0, after=4),
    ),
)  # fmt: skip


def everything() -> Verdict:
    """Return a failed check that was timed, of a changed model, with decisions and gaps."""
    base = failed()
    timed = latency(
        outcome=Outcome.FAIL, ratio=1.2, ratio_low=1.15, ratio_high=1.25, enforced=True,
        margin=0.07, mde=0.03, session_sd=0.02, session_ratios=(1.18, 1.22, 1.19, 1.21),
        voided_pairs=2, reason="",
        measures=(
            SideBySide(name="p95", unit="ms", baseline=2.4, candidate=2.9, samples=400,
                       ratio_low=1.1, ratio_high=1.32),
            SideBySide(name="device_memory", unit="MiB", baseline=None, candidate=None, samples=0,
                       note="no device was asked for"),
        ),
    )  # fmt: skip
    open_case = replace(timed, outcome=Outcome.INCONCLUSIVE, reason="too noisy", enforced=False)
    return replace(
        base, changes=changes(BUMP, MODEL, reason="asked to run in any case"), graphs=(GRAPH,),
        latency=(timed, open_case), note="stored observations judged again",
        findings=(*base.findings, *_others()), outputs=(*base.outputs, *_more_outputs()),
    )  # fmt: skip


def _others() -> tuple[Finding, ...]:
    agreed = finding(
        "decision.top_k", outcome=Outcome.PASS, evidence="label agrees in 1 of 1 rows", remedy=""
    )
    unsettled = finding(
        "contract.unmeasured", outcome=Outcome.INCONCLUSIVE, subject=subject("", ""),
        evidence="the contract was not run", measured=None, required=None, limit=None,
    )  # fmt: skip
    return agreed, unsettled


def _more_outputs() -> tuple[OutputComparison, ...]:
    return tuple(
        output(
            f"case-{number}", required=2e-05 * 1.3**number, p50_abs=1e-9 * 4**number,
            p99_abs=1e-8 * 4**number, p999_abs=3e-8 * 4**number, max_abs=1e-7 * 4**number,
            mean_abs=1e-9, rms_abs=2e-9, bias=-1e-10, sqnr_db=96.2, cosine=0.9999999, nonfinite=0,
        )
        for number in range(6)
    )  # fmt: skip
