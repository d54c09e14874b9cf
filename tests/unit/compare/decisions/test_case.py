"""Every kind of decision as a part of the whole comparison: it adds, and excuses nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.config.load import policy
from ci_parity.records.outcome import Outcome
from tests.support.observations import (
    LOOSEST,
    against,
    case_run,
    compared,
    floats,
    judged,
    observation,
)

PROBS = np.array([[0.7, 0.2, 0.1]], np.float32)
SWAPPED = PROBS[:, [1, 0, 2]].copy()
STEPS = np.eye(3, dtype=np.float32)[[[1, 0, 2]]]
BOXES = np.array([[0, 0, 1, 1], [5, 5, 6, 6]], np.float32)
LOOSE = {"tolerance": {"rtol": 1, "atol": 1e300}}

KINDS = [
    pytest.param("top_k", {"near_tie": 0}, PROBS, SWAPPED, id="top_k"),
    pytest.param("threshold", {"at": 0.5, "near_tie": 0}, PROBS, SWAPPED, id="threshold"),
    pytest.param("kl", {"max": 0.01}, PROBS, SWAPPED, id="kl"),
    pytest.param("cosine", {"min": 0.9}, PROBS, SWAPPED, id="cosine"),
    pytest.param("text", {"decode": "ctc", "near_tie": 0}, STEPS, STEPS[:, ::-1], id="text"),
    pytest.param("detections", {}, BOXES, BOXES + np.float32(9), id="detections"),
]


def limits(kind: str, words: Any, **rest: Any) -> Any:
    """Return a policy with one decision on `y`."""
    return policy({"decisions": {"y": {kind: words}}, **rest})


@pytest.mark.parametrize(("kind", "words", "left", "right"), KINDS)
def test_a_decision_fails_where_every_number_passes(
    tmp_path: Path, kind: str, words: Any, left: Any, right: Any
) -> None:
    """Under the loosest tolerance there is."""
    sides = {"y": left}, {"y": right}
    assert compared(tmp_path / "0", *sides, policy=LOOSEST).outcome is Outcome.PASS
    found = compared(tmp_path / "1", *sides, policy=limits(kind, words, **LOOSE))
    assert found.outcome is Outcome.FAIL
    (finding,) = against(found)
    assert (finding.id, finding.subject.output) == (f"decision.{kind}", "y")
    assert finding.subject.case == "c"
    assert found.rows[0].outcome is Outcome.FAIL


@pytest.mark.parametrize(("kind", "words", "left", "right"), KINDS)
def test_a_decision_that_agrees_passes(
    tmp_path: Path, kind: str, words: Any, left: Any, right: Any
) -> None:
    """With one finding that says so, and excuses no number."""
    found = compared(tmp_path / "0", {"y": left}, {"y": left}, policy=limits(kind, words))
    assert found.outcome is Outcome.PASS
    assert [f.id for f in found.findings] == ["output.values", f"decision.{kind}"]
    scaled = left * np.float32(1.01)
    worse = compared(tmp_path / "1", {"y": left}, {"y": scaled}, policy=limits(kind, words))
    assert [f.id for f in against(worse)] == ["output.values"]
    del right


@pytest.mark.parametrize(("kind", "words", "left", "right"), KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_decision_passes_on_what_is_not_finite(
    tmp_path: Path, kind: str, words: Any, left: Any, right: Any, bad: float
) -> None:
    """Lost by the candidate, a failure; in the baseline already, nothing that was decided."""
    broken = left.copy()
    broken.reshape(-1)[-1] = bad
    outcomes = []
    for name, sides in (("lost", (left, broken)), ("both", (broken, broken))):
        found = compared(
            tmp_path / name, {"y": sides[0]}, {"y": sides[1]}, policy=limits(kind, words, **LOOSE)
        )
        outcomes += [f.outcome for f in found.findings if f.id == f"decision.{kind}"]
    ranked = np.isinf(bad) and kind in {"top_k", "threshold", "text"}
    assert outcomes == ([Outcome.FAIL, Outcome.PASS] if ranked else
                        [Outcome.FAIL, Outcome.INCONCLUSIVE])  # fmt: skip
    del right


@pytest.mark.parametrize(("kind", "words", "left", "right"), KINDS)
def test_a_decision_on_an_output_that_is_not_there_is_inconclusive(
    tmp_path: Path, kind: str, words: Any, left: Any, right: Any
) -> None:
    """Misspelt in the policy, or lost on one side; the outputs there are are named."""
    found = compared(tmp_path / "0", {"z": left}, {"z": left}, policy=limits(kind, words))
    assert found.outcome is Outcome.INCONCLUSIVE
    (finding,) = against(found)
    assert finding.id == f"decision.{kind}"
    assert "'z'" in finding.evidence
    lost = compared(tmp_path / "1", {"y": left, "z": left}, {"z": left}, policy=limits(kind, words))
    assert {f.id: f.outcome for f in against(lost)} == {
        "output.missing": Outcome.FAIL, f"decision.{kind}": Outcome.INCONCLUSIVE,
    }  # fmt: skip
    del right


@pytest.mark.parametrize(("kind", "words", "left", "right"), KINDS)
@pytest.mark.parametrize(
    "other",
    [np.array([[True]]), np.array([["a"]], object), np.zeros((1, 2), np.complex64), None, {}, []],
    ids=str,
)
def test_a_decision_on_another_kind_of_output_is_inconclusive(
    tmp_path: Path, kind: str, words: Any, left: Any, right: Any, other: Any
) -> None:
    """Also where both sides agree on it."""
    found = compared(tmp_path, {"y": other}, {"y": other}, policy=limits(kind, words))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert [f.id for f in against(found)] == [f"decision.{kind}"]
    assert found.findings[-1].evidence.startswith("not decided: ")
    del left, right


@pytest.mark.parametrize("kind", ["top_k", "threshold", "kl", "cosine", "text"])
def test_sides_of_other_shapes_are_not_decided(tmp_path: Path, kind: str) -> None:
    """The shape has failed already."""
    words = {param.values[0]: param.values[1] for param in KINDS}[kind]
    found = compared(
        tmp_path, {"y": STEPS}, {"y": np.concatenate([STEPS, STEPS])}, policy=limits(kind, words)
    )
    assert {f.id: f.outcome for f in against(found)} == {
        "output.shape": Outcome.FAIL, f"decision.{kind}": Outcome.INCONCLUSIVE,
    }  # fmt: skip


def test_an_output_may_have_several_decisions(tmp_path: Path) -> None:
    """Each is a finding."""
    decisions = {"y": {"top_k": {}, "kl": {"max": 1}, "threshold": {"at": 0.5}}}
    found = compared(tmp_path, {"y": PROBS}, {"y": PROBS}, policy=policy({"decisions": decisions}))
    assert [f.id for f in found.findings] == [
        "output.values", "decision.top_k", "decision.threshold", "decision.kl",
    ]  # fmt: skip


def test_zipmaps_scores_decide_by_name(tmp_path: Path) -> None:
    """An output of scikit-learn's converters; other names are another output."""

    def scores(**values: float) -> Any:
        return [{name: np.float32(value).reshape(()) for name, value in values.items()}]

    left = {"y": scores(cat=0.75, dog=0.25)}
    flip = compared(
        tmp_path / "0", left, {"y": scores(cat=0.25, dog=0.75)},
        policy=limits("top_k", {"near_tie": 0}),
    )  # fmt: skip
    assert "from 0 (cat) to 1 (dog)" in against(flip)[-1].evidence
    renamed = compared(
        tmp_path / "1", left, {"y": scores(cat=0.75, god=0.25)}, policy=limits("top_k", {})
    )
    assert "decision.top_k" in {f.id for f in against(renamed)}


@pytest.mark.parametrize("kind", ["top_k", "threshold"])
def test_labels_name_classes_and_are_counted(tmp_path: Path, kind: str) -> None:
    """A file with another number of names keeps even an agreement open."""
    words: dict[str, Any] = {"near_tie": 0, **({"at": 0.5} if kind == "threshold" else {})}
    (tmp_path / "names.txt").write_text("cat\ndog\nowl\n", encoding="utf-8")
    named = policy({"decisions": {"y": {kind: {**words, "labels": "names.txt"}}}}, tmp_path)
    found = compared(tmp_path / "0", {"y": PROBS}, {"y": SWAPPED}, policy=named)
    assert "0 (cat)" in against(found)[-1].evidence
    agreed = compared(tmp_path / "1", {"y": PROBS}, {"y": PROBS}, policy=named)
    assert agreed.outcome is Outcome.PASS
    (tmp_path / "names.txt").write_text("cat\ndog\n", encoding="utf-8")
    short = compared(tmp_path / "2", {"y": PROBS}, {"y": PROBS}, policy=named)
    assert short.outcome is Outcome.INCONCLUSIVE
    assert "names 2 classes, the output has 3" in against(short)[0].evidence
    (tmp_path / "names.txt").unlink()
    gone = compared(tmp_path / "3", {"y": PROBS}, {"y": PROBS}, policy=named)
    assert gone.outcome is Outcome.INCONCLUSIVE


def test_every_run_of_a_case_is_decided(tmp_path: Path) -> None:
    """The first agrees, a later one of the same input flips."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    found = judged(
        observation(left, case_run(left, "c", {"y": PROBS})),
        observation(right, case_run(right, "c", {"y": PROBS}, {"y": SWAPPED})),
        policy=limits("top_k", {"near_tie": 0}, **LOOSE),
    )
    assert [f.id for f in against(found)] == ["decision.top_k"]


def test_evidence_is_bounded(tmp_path: Path) -> None:
    """However long names and texts are."""
    (tmp_path / "names.txt").write_text(("x" * 9000 + "\n") * 3, encoding="utf-8")
    named = policy({"decisions": {"y": {"top_k": {"labels": "names.txt", "k": 2}}}}, tmp_path)
    found = compared(tmp_path, {"y": PROBS}, {"y": PROBS[:, [2, 1, 0]].copy()}, policy=named)
    assert all(len(finding.evidence) <= 1200 for finding in found.findings)


def test_without_a_policy_nothing_is_decided(tmp_path: Path) -> None:
    """One finding an output."""
    found = compared(tmp_path, {"y": floats(1, 2)}, {"y": floats(1, 2)})
    assert [f.id for f in found.findings] == ["output.values"]
