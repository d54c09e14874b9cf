"""A page opens, however large the verdict is, and says what it leaves out."""

from dataclasses import replace

from ci_parity.records.finding import Subject
from ci_parity.records.graph_change import GraphChange, OperatorMove
from ci_parity.records.identity import Axis, Change
from ci_parity.records.placement import (
    ClassedWarning,
    Method,
    OperatorPlacement,
    Placement,
    SystemPlacement,
    WarningKind,
)
from ci_parity.records.verdict import Verdict
from ci_parity.report.html import render
from ci_parity.report.html.ranked import MOST_COMPARISONS
from tests.unit.report.html.reader import Page
from tests.unit.report.large import CASES, FAILED, large
from tests.unit.report.samples import (
    attribution,
    changes,
    depth_point,
    divergence,
    finding,
    identity,
    latency,
    output,
    passed,
    row,
)

MIB = 1024 * 1024
LONG = "<\u202e&>" * 2000


def test_a_hundred_thousand_comparisons_make_a_small_page() -> None:
    """The failures are what is kept, though they come last; the rest is counted."""
    text = render(large())
    assert len(text.encode()) < 4 * MIB
    found = Page(text)
    assert f"case-{CASES - FAILED}" in found.text
    assert f"{CASES - MOST_COMPARISONS:,} more comparisons" in found.text
    assert "more cases" in found.text
    assert f"{FAILED:,} failed" in found.text
    assert f"{CASES:,} outputs" in found.text


def test_more_of_everything_makes_no_larger_page() -> None:
    """Only what counts the rest has more digits."""
    sizes = [len(render(crowded(count, "n")).encode()) for count in (1200, 3600)]
    assert sizes[1] < 1.02 * sizes[0]
    assert sizes[1] < 8 * MIB


def test_the_longest_names_make_a_page_that_opens() -> None:
    """In every field, of every part, made of what takes the most room once it is harmless."""
    assert len(render(crowded(300, LONG)).encode()) < 16 * MIB


def crowded(count: int, name: str) -> Verdict:
    """Return a verdict with so much of everything, and one name in every field."""
    many = range(count)
    about = [
        Subject(target=f"t{n}{name}", variant=name, boundary=f"b{n}", case=f"c{n}", output=name)
        for n in many
    ]
    operators = tuple(
        OperatorPlacement(provider=f"p{n % 40}", op_type=f"op{n}{name}", count=1, names=(name,) * 9)
        for n in many
    )
    said = tuple(ClassedWarning(kind=WarningKind.OTHER, text=f"{n}{name}", count=1) for n in many)
    placed = SystemPlacement(
        target="t", variant="v", requested="p0", providers=(name,) * 100,
        placement=Placement(method=Method.PROFILE, operators=operators, why_not=name),
        warnings=said,
    )  # fmt: skip
    moved = tuple(
        Change(axis=Axis.MODEL, target=f"t{n}", variant="v", before=name, after=name,
               sentences=(f"{n}{name}",))
        for n in many
    )  # fmt: skip
    known = tuple(replace(identity(name), target=f"t{n}", options=_facts(n)) for n in many)
    moves = tuple(OperatorMove(op=f"{n}{name}", before=n, after=0) for n in many)
    graph = GraphChange(
        target="t", variant="v", nodes_before=1, nodes_after=2, opsets_before=(name,) * 9,
        opsets_after=(name,), operators=moves,
    )  # fmt: skip
    depth = tuple(
        depth_point(n, float(n), tensor=f"{n}{name}", op_type=name, guilty=True) for n in many
    )
    timed = latency(session_ratios=tuple(1 + n / 1e6 for n in many), reason=name)
    return passed(
        rows=tuple(row(target=a.target, variant=a.variant, boundary=a.boundary) for a in about),
        outputs=tuple(output(subject=a, rule=name, dtype=name) for a in about),
        findings=tuple(
            finding(subject=a, evidence=name, remedy=name, advisory=n % 3 == 0)
            for n, a in enumerate(about)
        ),
        latency=tuple(replace(timed, subject=a) for a in about),
        changes=replace(changes(*moved), identities=known, baselines=known),
        graphs=(graph,) * count, placements=(placed,) * 60,
        attributions=(attribution(sentence=name),) * count,
        divergences=(divergence(depth=depth, unpaired=(name,) * count),) * 12,
        reproduce=(name * 20,), bundle_digest=name,
    )  # fmt: skip


def _facts(number: int) -> str:
    entries = ", ".join(f'"k{n}": {{"a": "{n + number}"}}' for n in range(300))
    return f"{{{entries}}}"
