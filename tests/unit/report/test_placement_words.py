"""Where nodes ran, in the words of all reports."""

from dataclasses import replace
from typing import Any

import pytest

from ci_parity.records.placement import Method, OperatorPlacement, Placement
from ci_parity.report.placement_words import copies, counts, placement_line
from ci_parity.report.text import render
from tests.unit.report.samples import on_cpu, on_gpu, passed


def line(**parts: Any) -> str:
    """Return the line of the sample with another placement."""
    gpu = on_gpu()
    return placement_line(replace(gpu, placement=replace(gpu.placement, **parts)))


def test_a_line_counts_what_ran_where_it_was_asked_to() -> None:
    """And the operators that did not, the most frequent first."""
    assert line() == (
        "23 of 26 nodes on CUDAExecutionProvider; elsewhere: 2 Shape on CPUExecutionProvider, "
        "1 NonMaxSuppression on CPUExecutionProvider; 2 Memcpy nodes"
    )
    all_there = line(operators=on_gpu().placement.operators[:2], memcpy=0)
    assert all_there == "23 of 23 nodes on CUDAExecutionProvider; no Memcpy nodes"


def test_a_line_says_how_it_is_known() -> None:
    """Where it is not the runtime's own record."""
    assert "CUDAExecutionProvider, by the profile of one run;" in line(method=Method.PROFILE)
    assert "CUDAExecutionProvider, of the compiled model;" in line(method=Method.DEVICE)


def test_what_was_not_measured_says_why() -> None:
    """It is no line about nodes."""
    unknown = Placement(method=Method.NONE, why_not="no such verb")
    assert placement_line(on_cpu(placement=unknown)) == "not measured: no such verb"
    assert placement_line(on_cpu()) == "every node on the CPU: nothing else was there"


def test_many_operators_are_few_words() -> None:
    """The others are counted."""
    many = tuple(
        OperatorPlacement(provider="CPU", op_type=f"Op{number}", count=number)
        for number in range(1, 9)
    )
    assert "8 Op8 on CPU, 7 Op7 on CPU" in line(operators=many)
    assert "and 3 more operators" in line(operators=many)
    assert "Op3 on" not in line(operators=many)


@pytest.mark.parametrize(
    ("memcpy", "expected"),
    [(0, "no Memcpy nodes"), (1, "1 Memcpy node"), (7, "7 Memcpy nodes")],
)
def test_copies_are_counted(memcpy: int, expected: str) -> None:
    """In the singular where there is one."""
    assert copies(Placement(method=Method.ASSIGNMENT, memcpy=memcpy)) == expected


def test_copies_that_were_not_counted_are_not_none() -> None:
    """They say why."""
    unknown = Placement(method=Method.ASSIGNMENT, why_not="the run failed")
    assert copies(unknown) == "copies not counted: the run failed"


def test_warnings_are_counted_by_kind() -> None:
    """Kinds that did not come are left out."""
    assert counts(on_gpu().warnings) == "1 fallback, 1 other"
    assert counts(()) == ""


def test_a_terminal_shows_the_cpu_alone_only_where_it_printed_something() -> None:
    """It is what everybody expects."""
    assert "placement" not in render(passed(placements=(on_cpu(),)))
    printed = render(passed(placements=(on_cpu(warnings=on_gpu().warnings),)))
    assert "placement cpu / exported: its runtime printed 1 fallback, 1 other" in printed
