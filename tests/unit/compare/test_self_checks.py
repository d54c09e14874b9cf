from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.compare.self_checks import (
    REMEDIES,
    Agreement,
    Part,
    Ran,
    batch_axes,
    judge_check,
    unmeasured,
)
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.observation import RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ValueRecord
from tests.support.observations import LADDER, case_run, failed_run, floats

SUBJECT = Subject(target="cpu", variant="exported", boundary="self-checks")
WHOLE = Agreement(
    check="repeat", case="a", said="run 2 of 'a'", first=Part(case="a", called="at first"),
    second=Part(case="b", called="later"),
)  # fmt: skip


def ran(folder: Path, name: str, **outputs: Any) -> Ran:
    """Return a run with these outputs."""
    return Ran(run=case_run(folder, name, outputs), folder=folder)


def judged(
    folder: Path, agreement: Agreement, first: Any, second: Any, *, exact: bool = False,
    axes: dict[str, int] | None = None,
) -> tuple[Finding, OutputComparison | None]:  # fmt: skip
    """Judge one agreement of two runs with these outputs."""
    runs = {"a": ran(folder, "a", **first), "b": ran(folder, "b", **second)}
    return judge_check(SUBJECT, [agreement], runs, LADDER, axes or {}, exact=exact)


def test_equal_bytes_agree_exactly(tmp_path: Path) -> None:
    """Without a comparison of numbers."""
    finding, worst = judged(tmp_path, WHOLE, {"y": floats(1, 2)}, {"y": floats(1, 2)})
    assert (finding.id, finding.outcome, worst) == ("self.repeat", Outcome.PASS, None)
    assert finding.evidence == "1 output agrees exactly"
    assert finding.remedy == ""
    assert finding.subject == SUBJECT


def test_a_difference_inside_the_tolerance_passes_and_is_measured(tmp_path: Path) -> None:
    """It says how much of the limit it used."""
    finding, worst = judged(tmp_path, WHOLE, {"y": floats(1, 2)}, {"y": floats(1, 2 + 1e-6)})
    assert finding.outcome is Outcome.PASS
    assert worst is not None
    assert (finding.required, finding.limit) == (worst.required, worst.limit)
    assert "within tolerance" in finding.evidence


def test_bits_count_where_they_are_asked_for(tmp_path: Path) -> None:
    """A negative zero is another bit, and no other number."""
    for first, second in ((1.0, 1.0 + 1e-6), (0.0, -0.0)):
        sides = ({"y": floats(first)}, {"y": floats(second)})
        assert judged(tmp_path, WHOLE, *sides)[0].outcome is Outcome.PASS
        finding = judged(tmp_path, WHOLE, *sides, exact=True)[0]
        assert finding.outcome is Outcome.FAIL
        assert "the bits differ in run 2 of 'a'" in finding.evidence


def test_a_difference_beyond_the_tolerance_names_both_sides(tmp_path: Path) -> None:
    """With the element, the case and the output."""
    finding, worst = judged(tmp_path, WHOLE, {"y": floats(1, 2)}, {"y": floats(1, 3)})
    assert finding.outcome is Outcome.FAIL
    assert (finding.subject.case, finding.subject.output) == ("a", "y")
    assert "at [1] 2.0 at first, 3.0 later" in finding.evidence
    assert worst is not None
    assert finding.measured == worst.required
    assert finding.remedy == REMEDIES["repeat"]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"y": floats(1)}, {"y": floats(1, 2)}, "shape [2]"),
        ({"y": floats(1)}, {"y": floats(1, dtype=np.float64)}, "float64"),
        ({"y": floats(1), "z": floats(1)}, {"y": floats(1)}, "'z'"),
    ],
)
def test_another_form_fails(tmp_path: Path, first: Any, second: Any, said: str) -> None:
    """Shape, element type, an output that comes and goes."""
    finding, _ = judged(tmp_path, WHOLE, first, second)
    assert finding.outcome is Outcome.FAIL
    assert said in finding.evidence


def test_the_gravest_of_several_agreements_is_reported(tmp_path: Path) -> None:
    """And how many there were."""
    runs = {
        "a": ran(tmp_path, "a", y=floats(1), z=floats(1)),
        "b": ran(tmp_path, "b", y=floats(1.1), z=floats(1)),
        "c": ran(tmp_path, "c", y=floats(7), z=floats(1)),
    }
    other = replace(WHOLE, said="run 3 of 'a'", second=Part(case="c", called="later"))
    finding, _ = judge_check(SUBJECT, [WHOLE, other], runs, LADDER, {})
    assert "2 of 4 outputs differ" in finding.evidence
    assert "run 3 of 'a'" in finding.evidence


@pytest.mark.parametrize("status", [RunStatus.ERROR, RunStatus.CRASH, RunStatus.NOT_RUN])
def test_a_run_that_did_not_take_is_inconclusive(tmp_path: Path, status: RunStatus) -> None:
    """Even where everything else agrees; a failure beside it is still a failure."""
    good = ran(tmp_path, "a", y=floats(1))
    lost = Ran(run=failed_run("b", status), folder=tmp_path)
    other = replace(WHOLE, second=Part(case="c", called="later"))
    runs = {"a": good, "b": lost, "c": ran(tmp_path, "c", y=floats(1))}
    finding, _ = judge_check(SUBJECT, [WHOLE, other], runs, LADDER, {})
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "last words" in finding.evidence
    runs["c"] = ran(tmp_path, "c2", y=floats(5))
    assert judge_check(SUBJECT, [WHOLE, other], runs, LADDER, {})[0].outcome is Outcome.FAIL
    alone, _ = judge_check(SUBJECT, [WHOLE], {"a": good}, LADDER, {})
    assert alone.outcome is Outcome.INCONCLUSIVE


def test_what_cannot_be_read_is_inconclusive(tmp_path: Path) -> None:
    """A worker's answer that names a file it did not write."""
    run = case_run(tmp_path, "b", {"y": floats(1)})
    broken = ValueRecord(name="y", kind="tensor", dtype="float32", shape=(1,), file="none.bin")
    runs = {
        "a": ran(tmp_path, "a", y=floats(1)),
        "b": Ran(run=replace(run, outputs=(broken,)), folder=tmp_path),
    }
    assert judge_check(SUBJECT, [WHOLE], runs, LADDER, {})[0].outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("name", ["../outside.bin", "link.bin", "..", "a\0b", "/dev/stdin"])
def test_no_file_outside_the_exchange_folder_is_looked_at(tmp_path: Path, name: str) -> None:
    """Not even to see that it is equal: a worker chose the name."""
    outside = tmp_path / "outside.bin"
    outside.write_bytes(floats(1).tobytes())
    inside = tmp_path / "exchange"
    inside.mkdir()
    (inside / "link.bin").symlink_to(outside)
    record = ValueRecord(name="y", kind="tensor", dtype="float32", shape=(1,), file=name)
    run = replace(case_run(inside, "a", {}), outputs=(record,))
    runs = {"a": Ran(run=run, folder=inside), "b": Ran(run=run, folder=inside)}
    finding, _ = judge_check(SUBJECT, [WHOLE], runs, LADDER, {})
    assert finding.outcome is Outcome.INCONCLUSIVE


# Rows.


def rows(first: tuple[int, ...], second: tuple[int, ...], *, batch: int = 3) -> Agreement:
    """Return the agreement of some rows of a batch with rows of another run."""
    return Agreement(
        check="rows", case="a", said="row 1 of 'a'",
        first=Part(case="a", called="in the batch", rows=first, batch=batch),
        second=Part(case="b", called="alone", rows=second, batch=len(second)),
    )  # fmt: skip


BATCH = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_rows_are_cut_along_the_batch_dimension(tmp_path: Path) -> None:
    """Whichever that is, for every output its own."""
    first = {"y": BATCH, "turned": BATCH.T.copy()}
    second = {"y": BATCH[1:2], "turned": BATCH.T[:, 1:2].copy()}
    agreement = rows((1,), (0,))
    axes = {"y": 0, "turned": 1}
    assert judged(tmp_path, agreement, first, second, axes=axes)[0].outcome is Outcome.PASS
    second["turned"] = second["turned"] + 1
    finding, _ = judged(tmp_path, agreement, first, second, axes=axes)
    assert finding.outcome is Outcome.FAIL
    assert finding.subject.output == "turned"


def test_another_order_pairs_rows_with_themselves(tmp_path: Path) -> None:
    """Row by row, in the order each run had them."""
    turned = rows((1, 2, 0), (0, 1, 2))
    second = {"y": BATCH[[1, 2, 0]]}
    assert judged(tmp_path, turned, {"y": BATCH}, second, axes={"y": 0})[0].outcome is Outcome.PASS
    unturned = judged(tmp_path, turned, {"y": BATCH}, {"y": BATCH}, axes={"y": 0})[0]
    assert unturned.outcome is Outcome.FAIL


def test_sequences_have_rows_too(tmp_path: Path) -> None:
    """As the probabilities of a classifier come, one map a row."""
    maps: list[Any] = [{"cat": np.float32(i), "dog": np.float32(1 - i)} for i in (0.1, 0.2, 0.3)]
    agreement = rows((2,), (0,))
    sides = ({"p": maps}, {"p": maps[2:]})
    assert judged(tmp_path, agreement, *sides, axes={"p": 0})[0].outcome is Outcome.PASS
    other = judged(tmp_path, agreement, {"p": maps}, {"p": maps[:1]}, axes={"p": 0})[0]
    assert other.outcome is Outcome.FAIL


def test_outputs_without_rows_are_left_out_and_named(tmp_path: Path) -> None:
    """Where none is left, nothing was measured."""
    first, second = {"y": BATCH, "total": floats(66)}, {"y": BATCH[1:2], "total": floats(22)}
    agreement = rows((1,), (0,))
    finding, _ = judged(tmp_path, agreement, first, second, axes={"y": 0})
    assert finding.outcome is Outcome.PASS
    assert "left out, without a batch dimension: total" in finding.evidence
    nothing, _ = judged(tmp_path, agreement, first, second)
    assert nothing.outcome is Outcome.INCONCLUSIVE
    assert "nothing was compared" in nothing.evidence


def test_an_output_of_another_number_of_rows_is_no_pass(tmp_path: Path) -> None:
    """It was declared to have the batch dimension, and has another size there."""
    found = judged(tmp_path, rows((1,), (0,)), {"y": BATCH[:2]}, {"y": BATCH[1:2]}, axes={"y": 0})
    assert found[0].outcome is Outcome.INCONCLUSIVE
    assert "shape [2, 4] for a batch of 3" in found[0].evidence


def test_what_is_longer_is_cut_where_padding_is_compared(tmp_path: Path) -> None:
    """In every dimension; what is shorter than before fails."""
    padding = replace(WHOLE, check="padding", trimmed=True)
    longer = np.pad(BATCH, ((0, 0), (0, 2)), constant_values=9)
    assert judged(tmp_path, padding, {"y": BATCH}, {"y": longer})[0].outcome is Outcome.PASS
    assert judged(tmp_path, padding, {"y": BATCH}, {"y": longer + 1})[0].outcome is Outcome.FAIL
    assert judged(tmp_path, padding, {"y": BATCH}, {"y": BATCH[:, :3]})[0].outcome is Outcome.FAIL
    assert judged(tmp_path, padding, {"y": BATCH}, {"y": longer[0]})[0].outcome is Outcome.FAIL


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Rows are cut in a folder of their own, which goes with the comparison."""
    judged(tmp_path, rows((1,), (0,)), {"y": BATCH}, {"y": BATCH[1:2]}, axes={"y": 0})
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


# Which dimension is the batch.


def fed(folder: Path, *runs: tuple[int, Any]) -> Any:
    """Return runs of so many rows with these outputs."""
    for number, (batch, outputs) in enumerate(runs):
        part = Part(case=str(number), called="", rows=(), batch=batch)
        yield part, case_run(folder, str(number), outputs)


def test_runs_of_several_sizes_show_the_batch_dimension(tmp_path: Path) -> None:
    """The one that follows the number of rows; what follows it nowhere or twice has none."""
    found = batch_axes(
        {},
        fed(
            tmp_path,
            (3, {"y": np.zeros((4, 3)), "same": np.zeros(3), "pairs": np.zeros((3, 3))}),
            (1, {"y": np.zeros((4, 1)), "same": np.zeros(3), "pairs": np.zeros((1, 1))}),
        ),
    )
    assert found == {"y": 1}


def test_one_size_shows_nothing(tmp_path: Path) -> None:
    """Three may be the batch, or the width of everything; what is declared holds."""
    runs = [(3, {"y": np.zeros((3, 3))}), (3, {"y": np.zeros((3, 3))})]
    assert batch_axes({}, fed(tmp_path, *runs)) == {}
    assert batch_axes({"y": 1}, fed(tmp_path, *runs)) == {"y": 1}


def test_runs_without_rows_say_nothing(tmp_path: Path) -> None:
    """Repeats and padded inputs are no batches."""
    runs = [(0, {"y": np.zeros(0)}), (2, {"y": np.zeros(2)}), (1, {"y": np.zeros(1)})]
    assert batch_axes({}, fed(tmp_path, *runs)) == {"y": 0}


def test_a_check_that_was_not_made_is_inconclusive() -> None:
    """With the reason."""
    finding = unmeasured(SUBJECT, "padding", "the contract names no padding")
    assert (finding.id, finding.outcome) == ("self.padding", Outcome.INCONCLUSIVE)
    assert "the contract names no padding" in finding.evidence
