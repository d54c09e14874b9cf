"""The verdict as Prometheus text, for node_exporter's textfile collector.

Gauges alone, without timestamps, which that collector refuses: how old they are is in its own
`node_textfile_mtime_seconds`. A case is no label: an output has one series for each boundary, that
of its worst case, so that series stay few and keep their names. The text is OpenMetrics as well.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ci_parity.base.escape import visible
from ci_parity.records.finding import OutputComparison, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.words import used

_MAX_SERIES = 2_000
_LABEL = 200
_GRAVEST = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """One metric: its name without the prefix, what it says, its series."""

    name: str
    help: str
    series: Sequence[tuple[Labels, float]]


def render(verdict: Verdict) -> str:
    """Return the verdict's numbers as gauges called `ci_parity_…`."""
    families = [*_verdict(verdict), *_rows(verdict), *_outputs(verdict), *_latency(verdict)]
    left_out = [max(0, len(family.series) - _MAX_SERIES) for family in families]
    said = "Series that are not in this file because there are too many."
    families.append(_Family(name="series_left_out", help=said, series=[({}, sum(left_out))]))
    lines = [line for family in families for line in _lines(family, verdict.deployment)]
    return "\n".join((*lines, "# EOF")) + "\n"


def _verdict(verdict: Verdict) -> Iterator[_Family]:
    yield _Family(
        name="verdict", help="1 for the outcome of the last run, 0 for the others.",
        series=[
            ({"outcome": outcome.value}, float(outcome is verdict.outcome)) for outcome in Outcome
        ],
    )  # fmt: skip
    yield _Family(
        name="ran", help="Whether anything ran; 0 where nothing had changed.",
        series=[({"command": verdict.command}, float(verdict.ran))],
    )  # fmt: skip
    labels = {"bundle": verdict.bundle_digest, "version": verdict.tool_version}
    yield _Family(name="build", help="What was judged, and by which version.", series=[(labels, 1)])
    counts = Counter((f.outcome, f.advisory) for f in verdict.findings)
    yield _Family(
        name="findings", help="Findings by outcome; advisory ones bind nothing.",
        series=[
            ({"outcome": outcome.value, "advisory": str(advisory).lower()},
             counts[outcome, advisory])
            for outcome in Outcome
            for advisory in (False, True)
        ],
    )  # fmt: skip
    yield _Family(
        name="inputs", help="Cases that the inputs hold.", series=[({}, verdict.inputs_count)]
    )


def _rows(verdict: Verdict) -> Iterator[_Family]:
    rows = [
        ({"target": row.target, "variant": row.variant, "boundary": row.boundary}, row)
        for row in sorted(verdict.rows, key=lambda row: _GRAVEST.index(row.outcome))
    ]
    yield _Family(
        name="boundary_verdict", help="1 for the outcome of a boundary, 0 for the others.",
        series=[
            ({**labels, "outcome": outcome.value}, float(outcome is row.outcome))
            for labels, row in rows
            for outcome in Outcome
        ],
    )  # fmt: skip
    yield _Family(
        name="cases", help="Cases that ran on both sides of a boundary.",
        series=[(labels, row.cases) for labels, row in rows],
    )  # fmt: skip
    yield _Family(
        name="cases_expected", help="Cases that had to run.",
        series=[(labels, row.cases_expected) for labels, row in rows],
    )  # fmt: skip


def _outputs(verdict: Verdict) -> Iterator[_Family]:
    """Yield what each output needed and was allowed; those without numbers have no series."""
    worst: dict[tuple[str, str, str, str], OutputComparison] = {}
    for output in verdict.outputs:
        s = output.subject
        key = (s.target, s.variant, s.boundary, s.output)
        if key not in worst or used(output) > used(worst[key]):
            worst[key] = output
    ranked = sorted(worst.values(), key=used, reverse=True)
    known = [({**_about(o.subject), "output": o.subject.output, "unit": o.unit}, o) for o in ranked]
    yield _Family(
        name="output_required", help="Limit that the worst case of an output needed.",
        series=[(labels, o.required) for labels, o in known if o.required is not None],
    )  # fmt: skip
    yield _Family(
        name="output_limit", help="Limit that was applied there.",
        series=[(labels, o.limit) for labels, o in known if o.limit is not None],
    )  # fmt: skip
    yield _Family(
        name="output_max_abs", help="Largest absolute difference there.",
        series=[(labels, o.max_abs) for labels, o in known if o.max_abs is not None],
    )  # fmt: skip


def _about(subject: Subject) -> dict[str, str]:
    return {
        "target": subject.target, "variant": subject.variant, "boundary": subject.boundary,
    }  # fmt: skip


def _latency(verdict: Verdict) -> Iterator[_Family]:
    timed = [
        ({"target": t.subject.target, "variant": t.subject.variant, "case": t.subject.case}, t)
        for t in verdict.latency
    ]
    for name, said, values in (
        ("latency_ratio", "Candidate / baseline of the p50.", [t.ratio for _, t in timed]),
        ("latency_ratio_low", "Lower end of its interval.", [t.ratio_low for _, t in timed]),
        ("latency_ratio_high", "Upper end of its interval.", [t.ratio_high for _, t in timed]),
        ("latency_ratio_limit", "Largest ratio that passes.",
         [1 + t.max_regression for _, t in timed]),
    ):  # fmt: skip
        series = [(labels, value) for (labels, _), value in zip(timed, values, strict=True)]
        yield _Family(name=name, help=said, series=series)
    yield _Family(
        name="latency_p50_seconds", help="Median time of an inference on each side.",
        series=[
            ({**labels, "side": side}, value / 1000)
            for labels, t in timed
            for side, value in (
                ("baseline", t.baseline_p50_ms), ("candidate", t.candidate_p50_ms)
            )
        ],
    )  # fmt: skip
    yield _Family(
        name="latency_verdict", help="1 for the outcome of a timing, 0 for the others.",
        series=[
            ({**labels, "outcome": outcome.value}, float(outcome is t.outcome))
            for labels, t in timed
            for outcome in Outcome
        ],
    )  # fmt: skip


def _lines(family: _Family, deployment: str) -> Iterator[str]:
    if not family.series:
        return
    name = f"ci_parity_{family.name}"
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} gauge"
    written: set[str] = set()
    for labels, value in family.series[:_MAX_SERIES]:
        all_of_them = _labels({"deployment": deployment, **labels}.items())
        # Names that are told apart only by what is cut off would be the same series twice.
        if all_of_them not in written:
            written.add(all_of_them)
            yield f"{name}{{{all_of_them}}} {_value(value)}"


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)


def _escaped(value: str) -> str:
    return visible(value, _LABEL).replace("\\", "\\\\").replace('"', '\\"')


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
