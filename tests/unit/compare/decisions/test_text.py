from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.text import symbols
from ci_parity.records.outcome import Outcome
from tests.unit.compare.decisions.judging import EXACT, case_of, judged, within
from tests.unit.compare.decisions.test_decoding import text

CTC = {"text": {"decode": "ctc"}}


def scores(steps: Any, classes: int = 4, margin: float = 1.0) -> Any:
    """Return class scores [rows, steps, classes] in which each step's class leads by a margin."""
    return (margin * np.eye(classes)[np.array(steps)]).astype(np.float32)


def test_a_text_that_changes_fails() -> None:
    """With the distance and both texts."""
    found = judged(CTC, scores([[1, 0, 2], [1, 0, 1]]), scores([[1, 0, 2], [2, 3, 1]]))
    assert (found.id, found.outcome) == ("decision.text", Outcome.FAIL)
    assert (found.measured, found.limit, found.required) == (2.0, 0.0, 2.0)
    assert "1 of 2 texts changed" in found.evidence
    assert "by up to 2 edits: row 1 read [1, 1], reads [2, 3, 1]" in found.evidence


def test_the_worst_row_is_what_is_limited() -> None:
    """Two rows with one edit each pass a limit of 1."""
    sides = scores([[1, 0, 2], [1, 0, 1]]), scores([[1, 0, 3], [1, 0, 2]])
    found = judged({"text": {"decode": "ctc", "max_edit_distance": 1}}, *sides)
    assert (found.outcome, found.measured) == (Outcome.PASS, 1.0)
    assert "2 of 2 texts changed" in found.evidence


def test_a_path_that_changes_without_its_text_passes() -> None:
    """A repeat instead of a blank reads alike, whatever the scores do."""
    found = judged(CTC, scores([[1, 1, 2]]), scores([[1, 0, 2]], margin=9))
    assert (found.outcome, found.evidence) == (Outcome.PASS, "1 text read alike")


@pytest.mark.parametrize("extra", [{"near_tie": 1e-3}, {}])
def test_a_text_that_changes_at_near_ties_alone_is_named_so(extra: dict[str, Any]) -> None:
    """It passes unless the policy says otherwise."""
    left, right = scores([[1, 0, 2]]), scores([[1, 0, 2]])
    left[0, 2, 3], right[0, 2, 3] = 0.9995, 1.0005
    shown = judged({"text": {"decode": "ctc", **extra}}, left, right, within(4e-4))
    assert (shown.outcome, shown.measured) == (Outcome.PASS, 0.0)
    assert "1 changed at near ties alone, by up to 1 edit: row 0" in shown.evidence
    failing = {"text": {"decode": "ctc", "near_ties": "fail", **extra}}
    assert judged(failing, left, right, within(4e-4)).outcome is Outcome.FAIL
    assert judged({"text": {"decode": "ctc"}}, left, right).outcome is Outcome.FAIL


def test_rows_of_both_kinds_are_told_apart() -> None:
    """Two rows change, one of them at a near tie."""
    left, right = (
        scores([[1, 0, 2], [1, 0, 2], [2, 0, 1]]),
        scores([[1, 0, 2], [3, 0, 1], [2, 0, 1]]),
    )
    left[0, 2, 3], right[0, 2, 3] = 0.9995, 1.0005
    found = judged({"text": {"decode": "ctc", "near_tie": 1e-3}}, left, right)
    assert (found.outcome, found.measured) == (Outcome.FAIL, 2.0)
    assert found.evidence.startswith("2 of 3 texts changed; 1 changed, by up to 2 edits: row 1")
    assert "1 changed at near ties alone, by up to 1 edit: row 0" in found.evidence


def test_one_real_change_beside_a_near_tie_is_none() -> None:
    """Every step that changed must be one."""
    left, right = scores([[1, 0, 2]]), scores([[3, 0, 2]])
    left[0, 2, 3], right[0, 2, 3] = 0.9995, 1.0005
    found = judged({"text": {"decode": "ctc", "near_tie": 1e-3}}, left, right)
    assert (found.outcome, found.measured) == (Outcome.FAIL, 2.0)


@given(st.integers(1, 3), st.integers(1, 6), st.floats(1e-4, 0.5), st.integers(0, 2**32))
@settings(deadline=None)
def test_noise_inside_the_tolerance_changes_texts_at_near_ties_alone(
    rows: int, steps: int, allowed: float, seed: int
) -> None:
    """Along whichever axes steps and classes lie."""
    rng = np.random.default_rng(seed)
    left = rng.uniform(-1, 1, (steps, rows, 3))
    right = left + rng.uniform(-allowed, allowed, left.shape)
    for order, axes in (((0, 1, 2), (-1, 0)), ((1, 2, 0), (1, 2)), ((2, 1, 0), (0, -1))):
        decision = {"text": {"decode": "ctc", "axis": axes[0], "time_axis": axes[1]}}
        found = judged(
            decision, left.transpose(order), right.transpose(order), within(allowed)
        )  # fmt: skip
        assert (found.outcome, found.measured) == (Outcome.PASS, 0.0)


def test_nan_is_no_text() -> None:
    """Lost by the candidate it fails; the baseline's keeps the question open."""
    left = scores([[1, 2], [1, 2]])
    right = left.copy()
    right[1, 0, 0] = np.nan
    assert judged(CTC, left, right).outcome is Outcome.FAIL
    assert judged(CTC, right, right).outcome is Outcome.INCONCLUSIVE
    worse = right.copy()
    worse[0, 0, 3] = 9
    assert judged(CTC, right, worse).outcome is Outcome.FAIL


def test_token_numbers_and_strings_are_texts() -> None:
    """The tensor comparison fails them exactly; this says by how much and shows both."""
    ids = {"text": {"decode": "ids", "end": 1, "max_edit_distance": 1}}
    sides = np.array([[5, 6, 1, 9]]), np.array([[5, 7, 1, 2]])
    assert judged(ids, *sides).outcome is Outcome.PASS
    assert "row 0 read [5, 6], reads [5, 7]" in judged(ids, *sides).evidence
    words = np.array(["ciao"], object), np.array(["caos"], object)
    found = judged({"text": {"decode": "strings", "max_edit_distance": 1}}, *words)
    assert (found.outcome, found.measured) == (Outcome.FAIL, 2.0)
    assert "row 0 read 'ciao', reads 'caos'" in found.evidence


def test_odd_characters_do_not_reach_a_report_raw() -> None:
    """A lone surrogate has no canonical JSON."""
    words = np.array(["a\udc80"], object), np.array(["b\n" * 5000], object)
    found = judged({"text": {"decode": "strings"}}, *words)
    assert "'a\\udc80'" in found.evidence
    assert len(found.evidence) < 400


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)])
def test_no_text_passes(shape: tuple[int, ...]) -> None:
    """Nothing changed."""
    assert judged(CTC, np.zeros(shape), np.zeros(shape)).outcome is Outcome.PASS


def test_too_many_changes_are_bounded() -> None:
    """From above: a bound never lets a change pass that a count would not."""
    left, right = scores([[1, 0, 1]] * 6_000), scores([[1, 0, 2]] * 6_000)
    found = judged({"text": {"decode": "ctc", "max_edit_distance": 1}}, left, right)
    assert (found.outcome, found.measured) == (Outcome.FAIL, 2.0)
    assert "upper bounds" in found.evidence


# The alphabet.


def with_alphabet(folder: Path, words: str, **changes: Any) -> Any:
    """Return what is found of a changed text with an alphabet; class 1 becomes class 2."""
    (folder / "dict.txt").write_text(words, encoding="utf-8")
    decisions = {"y": {"text": {"decode": "ctc", "alphabet": "dict.txt", **changes}}}
    sides = {"y": scores([[1, 0, 3]])}, {"y": scores([[2, 0, 3]])}
    (found,) = case_of(decisions, *sides, EXACT, root=folder).findings(())
    return found


@pytest.mark.parametrize(
    ("words", "changes"),
    [("a\nb\nc\n", {}), ("a\nb\nc", {}), ("\na\nb\nc\n", {}), ("a\r\nb\r\nc\r\n", {}),
     ("a\nb\n", {"append_space": True})],
)  # fmt: skip
def test_symbols_come_from_the_alphabet(tmp_path: Path, words: str, changes: Any) -> None:
    """With the blank or without, with the space that some recognisers append."""
    found = with_alphabet(tmp_path, words, **changes)
    last = " " if changes else "c"
    assert f"row 0 read 'a{last}', reads 'b{last}'" in found.evidence
    assert found.outcome is Outcome.FAIL


def test_an_alphabet_of_another_size_settles_nothing(tmp_path: Path) -> None:
    """Every symbol may be another; the change itself still fails."""
    found = with_alphabet(tmp_path, "a\nb\n", max_edit_distance=5)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "dict.txt names 2 classes, the output has 3 or 4" in found.evidence
    assert with_alphabet(tmp_path, "a\nb\n").outcome is Outcome.FAIL


def test_symbols_are_placed_around_the_blank() -> None:
    """Which may be the last class, as in some frameworks."""
    assert symbols(("a", "b"), text(blank=2), 3) == ("a", "b", "")
    assert symbols(("a", "b"), text(blank=1), 3) == ("a", "", "b")
    assert symbols(("-", "a", "b"), text(), 3) == ("-", "a", "b")
    assert symbols((), text(append_space=True), 3) == ()
    assert symbols(("a",), text("ids"), None) == ("a",)
