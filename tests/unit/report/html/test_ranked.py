from ci_parity.records.outcome import Outcome
from ci_parity.report.html.ranked import (
    MOST_CASES,
    MOST_COMPARISONS,
    failures_by_boundary,
    groups,
    part_of,
    shown_cases,
    used,
)
from tests.unit.report.samples import finding, output, passed, row, subject


def test_a_limit_of_nothing_is_used_up_at_once() -> None:
    """And where a number lacks, no part is known."""
    assert part_of(0.5, 2.0) == 0.25
    assert part_of(6.0, 0.0) == float("inf")
    assert part_of(0.0, 0.0) == 0.0
    assert part_of(None, 1.0) is None
    assert part_of(1.0, None) is None
    assert part_of(float("nan"), 1.0) is None
    assert used(output(required=2e-4, limit=1e-4)) == 2.0


def test_broken_boundaries_come_first_and_those_that_inherit_behind_them() -> None:
    """Among equals the order of the verdict stands."""
    rows = (
        row(boundary="fine"),
        row(Outcome.INCONCLUSIVE, boundary="open"),
        row(Outcome.FAIL, boundary="inherits", inherits="first"),
        row(Outcome.FAIL, boundary="first"),
        row(Outcome.FAIL, boundary="second"),
    )
    found = groups(passed(rows=rows, outputs=()))
    order = ["first", "second", "inherits", "open", "fine"]
    assert [group.key[2] for group in found] == order
    assert [group.anchor for group in found] == ["b1", "b2", "b3", "b4", "b5"]


def test_comparisons_of_a_boundary_that_no_row_has_are_shown() -> None:
    """Nothing that was compared is lost."""
    verdict = passed(rows=(), outputs=(output(subject=subject(boundary="other")),))
    (group,) = groups(verdict)
    assert (group.key[2], group.row, len(group.lines)) == ("other", None, 1)
    assert group.outcome is Outcome.PASS


def test_the_worst_comparisons_are_kept_and_the_others_counted() -> None:
    """Failures first, however many pass before them."""
    bad = output("bad", outcome=Outcome.FAIL, required=1.0)
    many = tuple(output(f"c{number}") for number in range(MOST_COMPARISONS + 50))
    (group,) = groups(passed(rows=(row(Outcome.FAIL),), outputs=(*many, bad)))
    assert group.lines[0].comparison is bad
    assert group.lines[0].anchor == "c1"
    assert len(group.lines) == MOST_COMPARISONS
    assert group.left_out == 51


def test_a_cell_is_as_bad_as_the_worst_that_is_known_of_its_case() -> None:
    """An output that passes beside a crash does not make the case pass."""
    verdict = passed(
        rows=(row(),),
        outputs=(output("a"), output("a", required=5e-5)),
        findings=(finding("case.crash", subject=subject("a")), finding(subject=subject("b"))),
    )
    (group,) = groups(verdict)
    assert group.cells["a"].outcome is Outcome.FAIL
    assert group.cells["a"].used == 0.5
    assert group.cells["b"].outcome is Outcome.FAIL
    assert group.cells["b"].used is None


def test_advice_makes_no_case_fail() -> None:
    """A warning is one."""
    verdict = passed(
        findings=(finding(subject=subject("a"), advisory=True),), outputs=(output("a"),)
    )
    (group,) = (group for group in groups(verdict) if group.cells)
    assert group.cells["a"].outcome is Outcome.PASS


def test_of_too_many_cases_those_that_fail_keep_their_column() -> None:
    """The others are counted."""
    outputs = [output(f"case-{number}") for number in range(100)]
    outputs.append(output("zz-bad", outcome=Outcome.FAIL))
    cases, left_out = shown_cases(groups(passed(outputs=tuple(outputs), findings=())))
    assert "zz-bad" in cases
    assert (len(cases), left_out) == (MOST_CASES, 101 - MOST_CASES)


def test_failures_stand_in_the_order_of_their_boundaries() -> None:
    """What is about no boundary first; in each the worst first; the rest is counted."""
    verdict = passed(
        outcome=Outcome.FAIL,
        rows=(row(Outcome.FAIL, boundary="one"), row(Outcome.FAIL, boundary="two")),
        findings=(
            finding(subject=subject(boundary="two"), required=9.0),
            *(finding(subject=subject(boundary="one"), required=float(n)) for n in range(1, 401)),
            finding("policy.loosened", subject=subject("", "", "")),
        ),
    )
    order = [group.key for group in groups(verdict)]
    found = failures_by_boundary(verdict, order)
    assert [one.key[2] for one in found] == ["", "one", "two"]
    assert [f.required for f in found[1].findings[:2]] == [400.0, 399.0]
    assert found[1].left_out == 400 - len(found[1].findings)
    assert len(found[2].findings) == 1
