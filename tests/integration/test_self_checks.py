"""Self-checks on real runs: each has a model that keeps what it asks, and one that breaks it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.cli import run
from ci_parity.records.outcome import Outcome
from ci_parity.release.store import open_log
from tests.support import lone_models
from tests.support.alone import Cases, run_alone
from tests.support.user_repository import UserRepository, linear_repository

BATCH = {"inputs": {"x": {"shape": ["batch", "width"]}}, "batch": "batch"}
PADDED = {
    "inputs": {"x": {"shape": ["batch", "width"]}},
    "padding": {"axis": "width", "values": {"x": 0}},
}
Save = Callable[[Path], Path]


def rows(count: int, width: int = 5, seed: int = 3) -> Any:
    """Return rows of plain numbers, none like another."""
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def stored(*counts: int) -> Cases:
    """Return cases of so many rows each."""
    return {f"of{count}-{i}": {"x": rows(count, seed=i)} for i, count in enumerate(counts)}


# The same input twice.


@pytest.mark.parametrize(
    "save", [lone_models.save_noisy, lone_models.save_dropout, lone_models.save_multinomial]
)
def test_a_random_model_does_not_repeat(tmp_path: Path, save: Save) -> None:
    """Noise, a Dropout in training mode, and a draw of classes."""
    found = run_alone(save(tmp_path / "m.onnx"), stored(2, 3), tmp_path)
    finding = found.findings["self.repeat"]
    assert finding.outcome is Outcome.FAIL
    assert (finding.subject.target, finding.subject.variant) == ("cpu", "exported")
    assert finding.subject.output == "y"
    assert "later" in finding.evidence
    assert found.rows["self-checks"].outcome is Outcome.FAIL


def test_a_steady_model_repeats(tmp_path: Path) -> None:
    """Every stored case runs once more, in the session that is there."""
    found = run_alone(lone_models.save_steady(tmp_path / "m.onnx"), stored(2, 3), tmp_path)
    assert found.outcomes["self.repeat"] is Outcome.PASS
    assert "2 outputs agree exactly" in found.findings["self.repeat"].evidence
    row = found.rows["self-checks"]
    assert row.outcome is Outcome.PASS
    assert row.cases == row.cases_expected


@pytest.mark.parametrize("deterministic", [False, True])
def test_bits_matter_where_the_policy_says_so(tmp_path: Path, *, deterministic: bool) -> None:
    """Noise far inside the tolerance passes, until repeats are to be deterministic."""
    found = run_alone(
        lone_models.save_barely_noisy(tmp_path / "m.onnx"), stored(2), tmp_path,
        checks={"deterministic": deterministic, "rows": False, "order": False},
    )  # fmt: skip
    finding = found.findings["self.repeat"]
    assert finding.outcome is (Outcome.FAIL if deterministic else Outcome.PASS)
    assert finding.measured is not None
    assert finding.limit is not None
    assert 0 < finding.measured < finding.limit


def test_repeats_of_the_policy_are_judged_too(tmp_path: Path) -> None:
    """What a hundred runs on end bring is not lost among the repeats of the check."""
    found = run_alone(
        lone_models.save_noisy(tmp_path / "m.onnx"), stored(1), tmp_path, repeat=5,
    )  # fmt: skip
    assert len(found.runs[0].candidate.cases[0].repeats) == 4
    derived = found.runs[0].derived
    assert derived is not None
    assert [case.repeats for case in derived.cases] == [()] * len(derived.cases)
    assert "of 5 outputs differ" in found.findings["self.repeat"].evidence


# A row alone against the same row in a batch, and rows in another order.


@pytest.mark.parametrize("counts", [(3,), (1, 1, 1), (1,)], ids=["batch", "stacked", "lonely"])
@pytest.mark.parametrize(
    "save",
    [
        lone_models.save_centred,
        lone_models.save_quantized_at_run_time,
        lone_models.save_positional,
    ],
)
def test_rows_that_depend_on_their_neighbours_fail(
    tmp_path: Path, save: Save, counts: tuple[int, ...]
) -> None:
    """Whether a batch is stored, made of stored rows, or there is one row in all."""
    found = run_alone(save(tmp_path / "m.onnx"), stored(*counts), tmp_path, stated=BATCH)
    if save is lone_models.save_positional and counts == (1,):
        assert found.outcomes["self.order"] is Outcome.FAIL
        return
    finding = found.findings["self.rows"]
    assert (finding.outcome, finding.advisory) == (Outcome.FAIL, False)
    assert "in the batch" in finding.evidence
    assert "alone" in finding.evidence
    assert "batch" in finding.remedy


@pytest.mark.parametrize("counts", [(3,), (1, 1, 1), (1,), (2, 1, 4)])
def test_rows_that_stand_for_themselves_pass(tmp_path: Path, counts: tuple[int, ...]) -> None:
    """And so does their order."""
    model = lone_models.save_steady(tmp_path / "m.onnx")
    found = run_alone(model, stored(*counts), tmp_path, stated=BATCH)
    assert found.outcomes["self.rows"] is Outcome.PASS
    assert found.outcomes["self.order"] is Outcome.PASS
    assert not any(finding.advisory for finding in found.findings.values())


def test_a_place_in_the_batch_that_counts_fails(tmp_path: Path) -> None:
    """A running sum is another one when the rows are turned."""
    model = lone_models.save_positional(tmp_path / "m.onnx")
    found = run_alone(model, stored(4), tmp_path, stated=BATCH)
    finding = found.findings["self.order"]
    assert finding.outcome is Outcome.FAIL
    assert "turned" in finding.evidence


def test_an_order_that_does_not_matter_passes_where_rows_fail(tmp_path: Path) -> None:
    """A mean over the batch has no order; the two checks see different things."""
    model = lone_models.save_centred(tmp_path / "m.onnx")
    found = run_alone(model, stored(4), tmp_path, stated=BATCH)
    assert found.outcomes["self.order"] is Outcome.PASS
    assert found.outcomes["self.rows"] is Outcome.FAIL


def test_an_output_that_mixes_rows_is_left_out_and_named(tmp_path: Path) -> None:
    """A sum over the batch has no row that could be compared."""
    model = lone_models.save_with_total(tmp_path / "m.onnx")
    found = run_alone(model, stored(3), tmp_path, stated=BATCH)
    for check in ("self.rows", "self.order"):
        finding = found.findings[check]
        assert finding.outcome is Outcome.PASS
        assert "left out, without a batch dimension: total" in finding.evidence


def test_a_batch_along_another_dimension(tmp_path: Path) -> None:
    """Rows are columns where the contract says so: there the running sum keeps every promise."""
    model = lone_models.save_positional(tmp_path / "m.onnx")
    along = {"inputs": {"x": {"shape": ["time", "batch"]}}, "batch": "batch"}
    found = run_alone(model, stored(3), tmp_path, stated=along)
    assert found.outcomes["self.rows"] is Outcome.PASS
    assert found.outcomes["self.order"] is Outcome.PASS


def test_a_presumed_batch_dimension_warns(tmp_path: Path) -> None:
    """Without a contract, one symbol in every first place is looked at, and binds nobody."""
    model = lone_models.save_centred(tmp_path / "m.onnx")
    found = run_alone(model, stored(3), tmp_path)
    finding = found.findings["self.rows"]
    assert (finding.outcome, finding.advisory) == (Outcome.FAIL, True)
    assert found.rows["self-checks"].outcome is Outcome.PASS


def test_a_presumed_batch_dimension_that_is_refused_says_nothing(tmp_path: Path) -> None:
    """Nobody promised that other batches run; where the contract does, it is an open question."""
    model = lone_models.save_rigid(tmp_path / "m.onnx")
    cases = {"one": {"x": rows(1, 4)}}
    assert "self.rows" not in run_alone(model, cases, tmp_path / "a").findings
    stated = run_alone(model, {"three": {"x": rows(3, 4)}}, tmp_path / "b", stated=BATCH)
    assert stated.outcomes["self.rows"] is Outcome.INCONCLUSIVE


# Padded against unpadded.


def test_padding_that_changes_the_meaning_fails(tmp_path: Path) -> None:
    """A mean that counts the padding."""
    model = lone_models.save_unmasked_mean(tmp_path / "m.onnx")
    found = run_alone(model, stored(2), tmp_path, stated=PADDED)
    finding = found.findings["self.padding"]
    assert finding.outcome is Outcome.FAIL
    assert "padded from width 5 to 10" in finding.evidence


@pytest.mark.parametrize("save", [lone_models.save_masked_sum, lone_models.save_steady])
def test_padding_without_effect_passes(tmp_path: Path, save: Save) -> None:
    """A sum that zeros do not change, and an output that grows and is cut to what was there."""
    found = run_alone(save(tmp_path / "m.onnx"), stored(2), tmp_path, stated=PADDED)
    assert found.outcomes["self.padding"] is Outcome.PASS


def test_padding_goes_to_the_next_listed_size(tmp_path: Path) -> None:
    """A size nobody lists is never fed; where none is larger, nothing was measured."""
    model = lone_models.save_masked_sum(tmp_path / "m.onnx")
    listed = PADDED | {"sizes": {"width": [5, 32, 8]}}
    found = run_alone(model, stored(2), tmp_path / "a", stated=listed)
    assert found.outcomes["self.padding"] is Outcome.PASS
    derived = found.runs[0].derived
    assert derived is not None
    smaller = PADDED | {"sizes": {"width": [5, 3]}}
    found = run_alone(model, stored(2), tmp_path / "b", stated=smaller)
    finding = found.findings["self.padding"]
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "smaller in width" in finding.evidence


# One thread against several.


@pytest.mark.parametrize(
    ("configured", "words"), [(1, "threads"), (4, "1 thread")], ids=["one", "four"]
)
def test_a_sum_whose_order_depends_on_threads_fails(
    tmp_path: Path, configured: int, words: str
) -> None:
    """400 trees whose leaves cancel, 64 rows: onnxruntime splits them among its threads."""
    model = lone_models.save_cancelling_trees(tmp_path / "m.onnx")
    found = run_alone(
        model, {"many": {"x": np.zeros((64, 2), np.float32)}}, tmp_path,
        checks={"threads": "auto"}, options={"intra_op_num_threads": configured},
    )  # fmt: skip
    finding = found.findings["self.threads"]
    assert finding.outcome is Outcome.FAIL
    assert words in finding.evidence
    assert found.outcomes["self.repeat"] is Outcome.PASS


@pytest.mark.parametrize("configured", [0, 1, 4])
def test_a_sum_without_an_order_passes_on_any_number_of_threads(
    tmp_path: Path, configured: int
) -> None:
    """The same trees with leaves that add up exactly."""
    model = lone_models.save_cancelling_trees(tmp_path / "m.onnx", exact=True)
    found = run_alone(
        model, {"many": {"x": np.zeros((64, 2), np.float32)}}, tmp_path,
        checks={"threads": "auto"}, options={"intra_op_num_threads": configured},
    )  # fmt: skip
    assert found.outcomes["self.threads"] is Outcome.PASS


# The whole command.


def check(repository: UserRepository, *more: str) -> tuple[int, Any]:
    """Run a check that runs in any case; return its exit status and its report."""
    report = repository.root / "report"
    words = ["check", "--force", "--root", str(repository.root), "--report-dir", str(report)]
    code = run([*words, *more])
    return code, json.loads((report / "verdict.json").read_text(encoding="utf-8"))


def test_a_check_runs_them_and_they_decide(tmp_path: Path) -> None:
    """A candidate that meets every reference and is unsteady in itself is blocked by that alone."""
    repository = linear_repository(tmp_path / "user")
    repository.replace(
        "ci-parity.yml", "measure: false}", "measure: false}, self_checks: {deterministic: true}"
    )
    code, report = check(repository, "--record", "always")
    assert code == 0
    (line,) = open_log("file:release-log.jsonl", repository.root).read()
    assert (line.entry.cases_run, line.entry.cases_expected) == (2, 2)
    alone = {f["id"]: f["outcome"] for f in report["findings"] if f["id"].startswith("self.")}
    names = ("self.repeat", "self.rows", "self.order", "self.threads")
    assert alone == dict.fromkeys(names, "pass")
    row = next(row for row in report["rows"] if row["boundary"] == "self-checks")
    assert (row["outcome"], row["cases"]) == ("pass", row["cases_expected"])
    lone_models.save_barely_noisy_double(repository.root / "model.onnx")
    code, report = check(repository)
    assert code == 1
    against = [f for f in report["findings"] if not f["advisory"] and f["outcome"] != "pass"]
    assert {f["id"] for f in against} == {"self.repeat"}
    outcomes = {row["boundary"]: row["outcome"] for row in report["rows"]}
    assert outcomes.pop("self-checks") == "fail"
    assert set(outcomes.values()) == {"pass"}


def test_they_can_be_left_out(tmp_path: Path) -> None:
    """Then nothing beyond the stored cases runs, and no row claims that it did."""
    repository = linear_repository(tmp_path / "user")
    off = "{repeat: 1, rows: false, order: false, padding: false, threads: false}"
    repository.replace("ci-parity.yml", "measure: false}", f"measure: false}}, self_checks: {off}")
    repository.commit("off at the base too, else its self-checks count as well")
    code, report = check(repository)
    assert code == 0
    assert not [f["id"] for f in report["findings"] if f["id"].startswith("self.")]
    assert "self-checks" not in {row["boundary"] for row in report["rows"]}


def test_what_was_asked_for_and_cannot_be_made_is_inconclusive(tmp_path: Path) -> None:
    """A padding that no contract names, and rows where no batch dimension is known."""
    model = lone_models.save_cancelling_trees(tmp_path / "m.onnx", exact=True)
    cases = {"one": {"x": np.zeros((1, 2), np.float32)}}
    found = run_alone(model, cases, tmp_path, checks={"padding": True, "rows": True})
    assert found.outcomes["self.padding"] is Outcome.INCONCLUSIVE
    assert found.outcomes["self.rows"] is Outcome.PASS
    fixed = lone_models.save_fixed(tmp_path / "fixed.onnx")
    found = run_alone(
        fixed, {"one": {"x": rows(2, 3)}}, tmp_path / "b", checks={"rows": True, "order": True}
    )
    assert found.outcomes["self.rows"] is Outcome.INCONCLUSIVE
    assert found.outcomes["self.order"] is Outcome.INCONCLUSIVE
    assert "names no batch dimension" in found.findings["self.rows"].evidence
    assert found.rows["self-checks"].outcome is Outcome.INCONCLUSIVE
