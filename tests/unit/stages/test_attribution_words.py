"""What swapping parts came to, from outcomes alone."""

from collections.abc import Sequence

import pytest

from ci_parity.records.attribution import Conclusion, Swap, SystemAxis
from ci_parity.records.outcome import Outcome
from ci_parity.stages.attribution_words import alike, conclude, sentence

A, B, C = SystemAxis.MODEL, SystemAxis.RUNTIME, SystemAxis.OPTIONS
SIGNS = {"+": Outcome.FAIL, "-": Outcome.PASS, "?": Outcome.INCONCLUSIVE}


def swaps(alone: str, without: str = "") -> list[Swap]:
    """Return a swap for each sign: `+` fails, `-` passes, `?` was not measured."""
    return [
        Swap(axis=axis, before="1", after="2", alone=SIGNS[left], without=SIGNS[right])
        for axis, left, right in zip((A, B, C), alone, without or "?" * len(alone), strict=False)
    ]


@pytest.mark.parametrize(
    ("alone", "without", "same", "spare", "conclusion", "causes"),
    [
        ("+-", "", [A], [], Conclusion.ALL, (A,)),
        ("-+", "", [B], [], Conclusion.ALL, (B,)),
        ("-+-", "", [B], [], Conclusion.ALL, (B,)),
        ("?+", "", [B], [], Conclusion.ALL, (B,)),
        ("+-", "-+", [], [], Conclusion.SHARES, (A, B)),
        ("+--", "-++", [], [C], Conclusion.SHARES, (A, B)),
        ("++", "++", [], [], Conclusion.SHARES, (A, B)),
        ("++-", "+++", [], [C], Conclusion.SHARES, (A, B)),
        ("++", "++", [A, B], [A, B], Conclusion.SHARES, (A, B)),
        ("--", "--", [], [], Conclusion.TOGETHER, (A, B)),
        ("---", "--+", [], [C], Conclusion.TOGETHER, (A, B)),
        ("---", "---", [], [], Conclusion.TOGETHER, (A, B, C)),
        ("---", "+++", [], [], Conclusion.TOGETHER, (A, B, C)),
        ("?-", "-?", [], [], Conclusion.OPEN, (A, B)),
        ("??", "??", [], [], Conclusion.OPEN, (A, B)),
        ("?--", "-?+", [], [C], Conclusion.OPEN, (A, B)),
        ("?--", "+++", [], [], Conclusion.OPEN, (A,)),
    ],
)
def test_conclusions(
    alone: str, without: str, same: Sequence[SystemAxis], spare: Sequence[SystemAxis],
    conclusion: Conclusion, causes: tuple[SystemAxis, ...],
) -> None:  # fmt: skip
    """From what each part did alone, and the candidate without it."""
    assert conclude(swaps(alone, without), same, spare) == (conclusion, causes)


def test_a_cause_is_named_before_and_after() -> None:
    """Pinned packages by their versions, everything else as it is."""
    pinned = Swap(axis=B, before="onnxruntime==1.31.1", after="onnxruntime==1.32.0")
    assert sentence(Conclusion.ALL, (B,), [pinned], None) == (
        "runtime onnxruntime 1.31.1→1.32.0: all of it"
    )
    moved = Swap(axis=B, before="onnxruntime==1.31.1", after="openvino==2026.4.1")
    assert sentence(Conclusion.ONLY_CHANGE, (B,), [moved], 3.0) == (
        "runtime onnxruntime==1.31.1→openvino==2026.4.1: the only change"
    )


def test_what_could_not_be_tried_is_said_whatever_the_conclusion() -> None:
    """Shortened: runtimes have long messages."""
    untried = Swap(axis=A, before="a", after="b", note="no " * 500)
    other = Swap(axis=B, before="1", after="2", alone=Outcome.FAIL, used=2.0)
    for conclusion in (Conclusion.ALL, Conclusion.SHARES, Conclusion.OPEN):
        said = sentence(conclusion, (A, B), [untried, other], 4.0)
        assert "; model could not be swapped alone: no no" in said
        assert len(said) < 500


def test_shares_have_numbers_where_there_are_some() -> None:
    """A failure without a number is one all the same."""
    parts = [
        Swap(axis=A, before="a", after="b", alone=Outcome.FAIL),
        Swap(axis=B, before="1", after="2", alone=Outcome.PASS, used=0.5),
        Swap(axis=C, before="x", after="y", alone=Outcome.FAIL, used=1234.5),
    ]
    assert sentence(Conclusion.SHARES, (A, B, C), parts, None) == (
        "shared: model a→b alone fails; runtime 1→2 alone passes (0.5 times the limit); "
        "session options x→y alone needs 1.23e+03 times the limit"
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("node d3 at /a/b.cc:692: divided by zero", "node d7 at /x.cc:1: divided by zero", True),
        ("the worker was ended by SIGSEGV", "the worker was ended by SIGSEGV", True),
        ("FAIL : operator set 22 is under development", "INVALID_GRAPH : error in node mul", False),
        ("", "", True),
        ("out of memory", "", False),
    ],
)  # fmt: skip
def test_messages_that_say_the_same(one: str, other: str, expected: bool) -> None:
    """Numbers and paths differ from run to run."""
    assert alike(one, other) is expected
