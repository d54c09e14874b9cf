"""Causes of failures between systems that really run, on a runtime whose faults are planted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.records.attribution import Attribution, Conclusion, SystemAxis
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import Job
from ci_parity.stages.attribute import attribute
from ci_parity.stages.judge import Judgement, judge
from ci_parity.stages.suite import Pair, run_pairs
from tests.support import systems
from tests.support.systems import LOOSE, SILENT

MODEL, RUNTIME, OPTIONS = SystemAxis.MODEL, SystemAxis.RUNTIME, SystemAxis.OPTIONS
PARALLEL = {"execution_mode": "parallel"}


def judged(
    folder: Path, baseline: Job, candidate: Job, *cases: str, variant: str = "exported"
) -> Judgement:
    """Run both sides and judge them, causes included."""
    given = systems.inputs(folder, *(cases or ("only",)))
    pair = Pair(target="cpu", variant=variant, candidate=candidate, baseline=baseline)
    runs = run_pairs([pair], given, None, LOOSE, folder / "runs", SILENT)
    return attribute(judge(runs, LOOSE), given, LOOSE, None, folder / "causes", SILENT)


def cause(judgement: Judgement) -> Attribution:
    """Return the one cause; the outcome is what it was without it."""
    assert judgement.outcome is Outcome.FAIL
    (found,) = judgement.attributions
    (finding,) = (f for f in judgement.findings if f.id == "attribution")
    assert (finding.evidence, finding.advisory) == (found.sentence, True)
    return found


def between(
    folder: Path, new: Mapping[str, Any], runtime: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> Attribution:  # fmt: skip
    """Return the cause of the failure of a candidate whose parts are these."""
    baseline = systems.job(systems.model(folder, "old.json"))
    launch = systems.runtime("adding==2.0", **runtime) if runtime is not None else systems.PLAIN
    candidate = systems.job(systems.model(folder, "new.json", **new), launch, options)
    return cause(judged(folder, baseline, candidate))


def test_the_only_change_is_said(tmp_path: Path) -> None:
    """Without another run."""
    found = between(tmp_path, {"adds": 5})
    assert found.conclusion is Conclusion.ONLY_CHANGE
    assert found.sentence == "model old.json→new.json: the only change"
    assert (found.used, found.cases) == (5.0, ())
    assert not (tmp_path / "causes").exists()


@pytest.mark.parametrize(
    ("new", "runtime", "axis"),
    [({"adds": 5}, {"adds": 0.25}, MODEL), ({"adds": 0.25}, {"adds": 5}, RUNTIME)],
)
def test_one_of_two_carries_all(
    tmp_path: Path, new: Mapping[str, Any], runtime: Mapping[str, Any], axis: SystemAxis
) -> None:
    """Both were tried alone, with what each needed of its limit."""
    found = between(tmp_path, new, runtime)
    assert (found.conclusion, found.causes) == (Conclusion.ALL, (axis,))
    assert {swap.axis: swap.used for swap in found.swaps} == {
        axis: 5.0, MODEL if axis is RUNTIME else RUNTIME: 0.25,
    }  # fmt: skip
    assert found.cases == ("only",)


def test_one_of_three_carries_all(tmp_path: Path) -> None:
    """With two that do next to nothing."""
    found = between(tmp_path, {"with": {"parallel": 0.5}}, {"adds": 5}, PARALLEL)
    assert (found.conclusion, found.causes) == (Conclusion.ALL, (RUNTIME,))
    assert {swap.axis: swap.used for swap in found.swaps} == {MODEL: 0, RUNTIME: 5, OPTIONS: 0}


def test_two_that_fail_on_their_own_share_it(tmp_path: Path) -> None:
    """The sentence has all three numbers."""
    found = between(tmp_path, {"adds": 4}, {"adds": 2})
    assert (found.conclusion, found.causes) == (Conclusion.SHARES, (MODEL, RUNTIME))
    assert found.sentence == (
        "shared: model old.json→new.json alone needs 4 times the limit; "
        "runtime adding 1.0→2.0 alone needs 2 times the limit; together 6 times the limit"
    )


def test_what_one_adds_to_the_other_is_shared_too(tmp_path: Path) -> None:
    """It passes alone, and makes the failure of the other worse than the limit."""
    found = between(tmp_path, {"adds": 4, "words": ["new"]}, {"with": {"new": 3}})
    assert (found.conclusion, found.causes) == (Conclusion.SHARES, (MODEL, RUNTIME))
    assert "runtime adding 1.0→2.0 alone passes" in found.sentence


def test_two_fail_only_together(tmp_path: Path) -> None:
    """Neither alone; a third change has nothing to do with it."""
    both = {"with": {"new": 7}}
    found = between(tmp_path, {"words": ["new"]}, both)
    assert (found.conclusion, found.causes) == (Conclusion.TOGETHER, (MODEL, RUNTIME))
    found = between(tmp_path / "b", {"words": ["new"]}, both, PARALLEL)
    assert (found.conclusion, found.causes) == (Conclusion.TOGETHER, (MODEL, RUNTIME))
    without = {swap.axis: swap.without for swap in found.swaps}
    assert without == {MODEL: Outcome.PASS, RUNTIME: Outcome.PASS, OPTIONS: Outcome.FAIL}


def test_two_halves_fail_only_together(tmp_path: Path) -> None:
    """Each within its limit, the sum is not."""
    found = between(tmp_path, {"adds": 0.75}, {"adds": 0.75})
    assert (found.conclusion, found.causes) == (Conclusion.TOGETHER, (MODEL, RUNTIME))
    assert [swap.used for swap in found.swaps] == [0.75, 0.75]


OLD = systems.runtime("adding==1.0", refuses=["opset22"])


@pytest.mark.parametrize(
    ("runtime", "new", "conclusion", "causes"),
    [
        ({"adds": 5}, {}, Conclusion.ALL, (RUNTIME,)),
        ({}, {"adds": 5}, Conclusion.OPEN, (MODEL, RUNTIME)),
    ],
    ids=["the runtime's", "not the runtime's"],
)
def test_a_model_that_the_old_runtime_does_not_load(
    tmp_path: Path, runtime: Mapping[str, Any], new: Mapping[str, Any],
    conclusion: Conclusion, causes: tuple[SystemAxis, ...],
) -> None:  # fmt: skip
    """It cannot be tried alone, which is said; the other still can."""
    baseline = systems.job(systems.model(tmp_path, "old.json"), OLD)
    candidate = systems.job(
        systems.model(tmp_path, "new.json", words=["opset22"], **new),
        systems.runtime("adding==2.0", **runtime),
    )
    found = cause(judged(tmp_path, baseline, candidate))
    assert (found.conclusion, found.causes) == (conclusion, causes)
    tried = {swap.axis: swap for swap in found.swaps}
    assert tried[MODEL].alone is Outcome.INCONCLUSIVE
    assert "operator set opset22 is not supported" in tried[MODEL].note
    assert "model could not be swapped alone: " in found.sentence
    if conclusion is Conclusion.OPEN:
        assert "model old.json→new.json, alone or together with runtime" in found.sentence


def test_a_load_that_fails_otherwise_is_not_the_failure(tmp_path: Path) -> None:
    """The candidate's own failure to load is; the old runtime's words are others."""
    baseline = systems.job(systems.model(tmp_path, "old.json"), OLD)
    new = systems.model(tmp_path, "new.json", words=["opset22"], raises=["load"])
    found = cause(judged(tmp_path, baseline, systems.job(new, systems.runtime("adding==2.0"))))
    assert (found.conclusion, found.causes) == (Conclusion.OPEN, (MODEL, RUNTIME))


def test_a_failure_to_load_has_a_cause_too(tmp_path: Path) -> None:
    """Wherever it comes from, no output is needed to find it."""
    found = between(tmp_path, {"raises": ["load"]}, {"adds": 0.25})
    assert (found.conclusion, found.causes) == (Conclusion.ALL, (MODEL,))
    assert found.used is None


@pytest.mark.parametrize("ends", ["crashes", "raises"])
def test_a_case_that_does_not_run_has_a_cause_too(tmp_path: Path, ends: str) -> None:
    """A crash, or an error."""
    found = between(tmp_path, {}, {ends: ["parallel"]}, PARALLEL)
    assert (found.conclusion, set(found.causes)) == (Conclusion.TOGETHER, {RUNTIME, OPTIONS})
    found = between(tmp_path / "b", {}, {ends: ["sequential"]})
    assert (found.conclusion, found.causes) == (Conclusion.ALL, (RUNTIME,))


def test_a_mixture_that_ends_as_the_baseline_did_passes(tmp_path: Path) -> None:
    """The baseline gives an error, the candidate dies: the new model still gives the error."""
    erring = systems.runtime("adding==1.0", raises=["sequential"])
    baseline = systems.job(systems.model(tmp_path, "old.json"), erring)
    crashing = systems.runtime("adding==2.0", crashes=["sequential"])
    candidate = systems.job(systems.model(tmp_path, "new.json", words=["new"]), crashing)
    found = cause(judged(tmp_path, baseline, candidate))
    assert (found.conclusion, found.causes) == (Conclusion.ALL, (RUNTIME,))


def test_a_provider_can_be_the_cause(tmp_path: Path) -> None:
    """It is swapped like the rest."""
    path = systems.model(tmp_path, "m.json")
    candidate = systems.job(path, systems.runtime("adding==2.0", adds=3), provider="Other")
    found = cause(judged(tmp_path, systems.job(path), candidate))
    assert [swap.axis for swap in found.swaps] == [RUNTIME, SystemAxis.PROVIDER]
    assert found.causes == (RUNTIME,)


DRIFTING = systems.runtime("adding==2.0", drifts=True)


def test_a_baseline_that_does_not_repeat_blames_nothing(tmp_path: Path) -> None:
    """It brings other numbers in every run: the difference is not the candidate's."""
    baseline = systems.job(systems.model(tmp_path, "m.json"), DRIFTING)
    candidate = systems.job(systems.model(tmp_path, "n.json"))
    found = cause(judged(tmp_path, baseline, candidate))
    assert (found.conclusion, found.causes) == (Conclusion.NOT_REPRODUCIBLE, ())
    assert "the baseline, run again, does not agree with itself" in found.sentence


def test_two_runs_of_one_system_have_no_part_to_blame(tmp_path: Path) -> None:
    """They were run twice all the same, and differ."""
    system = systems.job(systems.model(tmp_path, "m.json"), DRIFTING)
    found = cause(judged(tmp_path, system, system))
    assert (found.conclusion, found.swaps) == (Conclusion.NOT_REPRODUCIBLE, ())
    assert "nothing differs between the two sides" in found.sentence


def test_a_candidate_that_does_not_repeat_is_blamed_for_it(tmp_path: Path) -> None:
    """Its runtime brings other numbers in every run, and brings them alone."""
    baseline = systems.job(systems.model(tmp_path, "m.json"))
    candidate = systems.job(systems.model(tmp_path, "n.json"), DRIFTING)
    found = cause(judged(tmp_path, baseline, candidate))
    assert RUNTIME in found.causes
    assert found.conclusion is not Conclusion.TOGETHER


def test_the_worst_cases_are_tried(tmp_path: Path) -> None:
    """Three of those that failed, whatever their number."""
    given = systems.model(tmp_path, "new.json", adds=5)
    candidate = systems.job(given, systems.runtime("adding==2.0"))
    names = [f"case{number}" for number in range(8)]
    old = systems.job(systems.model(tmp_path, "old.json"))
    found = cause(judged(tmp_path, old, candidate, *names))
    assert len(found.cases) == 3
    assert set(found.cases) <= set(names)


def test_what_passes_has_no_cause(tmp_path: Path) -> None:
    """And nothing runs for it."""
    old = systems.job(systems.model(tmp_path, "old.json"))
    new = systems.job(systems.model(tmp_path, "new.json", adds=0.5))
    found = judged(tmp_path, old, new)
    assert (found.outcome, found.attributions) == (Outcome.PASS, ())
    assert not (tmp_path / "causes").exists()


def test_what_follows_another_has_its_cause(tmp_path: Path) -> None:
    """Two variants on one new runtime: the cause is looked for once."""
    given = systems.inputs(tmp_path, "only")
    faulty = systems.runtime("adding==2.0", adds=5)
    pairs = []
    for name, made_from in (("exported", ()), ("int8", ("exported",))):
        path = systems.model(tmp_path, f"{name}.json")
        pairs.append(
            Pair(
                target="cpu", variant=name, candidate=systems.job(path, faulty),
                baseline=systems.job(path), ancestors=made_from,
            )
        )  # fmt: skip
    runs = run_pairs(pairs, given, None, LOOSE, tmp_path / "runs", SILENT)
    found = attribute(judge(runs, LOOSE), given, LOOSE, None, tmp_path / "causes", SILENT)
    assert [row.outcome for row in found.rows] == [Outcome.FAIL, Outcome.FAIL]
    assert [attribution.variant for attribution in found.attributions] == ["exported"]
