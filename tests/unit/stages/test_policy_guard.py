"""What the guard plans: from two deployments and their fixture sets, nothing being run."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ci_parity.config.load import build
from ci_parity.config.model import Deployment, Tolerance
from ci_parity.records.finding import Finding
from ci_parity.records.identity import BaselineSource, PairName
from ci_parity.records.outcome import Outcome
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.identify import Baseline, BaseRules, fixtures_of, identities_of
from ci_parity.stages.policy_guard import Guard, plan_guard
from tests.support.models import save_linear
from tests.support.user_repository import store_linear_cases

TODAY = date(2027, 1, 10)
STRICT, LAX = {"rtol": 1e-4}, {"rtol": 1e-2}
TARGETS = {"cpu": {}, "gpu": {"provider": "CUDAExecutionProvider"}}


class Sides:
    """Two trees that are alike: the baseline's and the candidate's."""

    def __init__(self, root: Path) -> None:
        self.base, self.own = root / "base", root / "own"
        model = save_linear(self.base / "model.onnx")
        store_linear_cases(self.base / "fixtures", model)
        shutil.copytree(self.base, self.own)
        self.source = BaselineSource(kind="merge-base", label="commit 1", commit="1" * 40)

    def planned(
        self, before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> Guard:  # fmt: skip
        """Plan the guard of two policies; `parts` are other keys of the candidate's config."""
        base = deployment(self.base, before or {})
        own = deployment(self.own, after or {}, **parts)
        rules = BaseRules(deployment=base, cases=opened(base))
        baseline = Baseline(
            source=self.source, rules=rules, identities=identities_of(base, rules.cases.fixtures)
        )
        return self.guard(own, baseline)

    def guard(self, own: Deployment, baseline: Baseline) -> Guard:
        """Plan the guard of a candidate against a baseline."""
        cases = opened(own)
        return plan_guard(own, cases, baseline, identities_of(own, cases.fixtures), TODAY)


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    """Return two trees that are alike."""
    return Sides(tmp_path)


def deployment(root: Path, policy: Mapping[str, Any], **parts: Any) -> Deployment:
    """Build the deployment in a tree."""
    value = {
        "version": 1,
        "variants": {"exported": {"path": "model.onnx"}},
        "targets": TARGETS,
        "fixtures": "fixtures",
        "policy": policy,
        **parts,
    }
    return build(value, root=root, origin="test")


def opened(of: Deployment) -> OpenSet:
    """Open the fixture set of a deployment."""
    signature, fixtures = fixtures_of(of)
    return OpenSet(fixtures=fixtures, signature=signature)


def ledger(*keys: str, until: str = "2027-03-01") -> Mapping[str, Any]:
    """Return a policy with entries for these keys."""
    entries = [{"key": key, "who": "ada", "why": "it rounds", "until": until} for key in keys]
    return {"ledger": entries}


def said(guard: Guard) -> dict[str, Finding]:
    """Return the findings by kind; each must be there once."""
    found = {finding.id: finding for finding in guard.findings}
    assert len(found) == len(guard.findings)
    return found


def test_nothing_loosened_asks_for_nothing(sides: Sides) -> None:
    """The rules are the candidate's own."""
    guard = sides.planned({"tolerance": LAX}, {"tolerance": STRICT})
    assert guard.findings == ()
    assert (guard.judged, guard.planned, guard.must_run) == (False, False, False)
    assert (guard.lost, guard.edited, guard.removed) == (None, None, ())
    assert guard.rules.policy.tolerance == Tolerance(rtol=1e-4)


def test_a_loosened_key_is_judged_by_the_baselines(sides: Sides) -> None:
    """It is listed, and never fails by itself."""
    guard = sides.planned({"tolerance": STRICT}, {"tolerance": LAX})
    assert guard.judged
    assert not guard.planned
    assert guard.rules.policy.tolerance == Tolerance(rtol=1e-4)
    finding = said(guard)["policy.loosened"]
    assert (finding.outcome, finding.advisory) == (Outcome.FAIL, True)
    assert '{"rtol":0.0001} → {"rtol":0.01}, looser; the baseline\'s' in finding.evidence
    assert "an entry for 'tolerance'" in finding.remedy


@pytest.mark.parametrize("keys", [("tolerance", "repeat"), ("repeat",)])
def test_the_ledger_takes_keys_out_one_by_one(sides: Sides, keys: tuple[str, ...]) -> None:
    """What has no entry is still the baseline's."""
    before = {"tolerance": STRICT, "repeat": 3}
    guard = sides.planned(before, {"tolerance": LAX, **ledger(*keys)})
    assert guard.judged is ("tolerance" not in keys)
    expected = LAX if "tolerance" in keys else STRICT
    assert guard.rules.policy.tolerance == Tolerance(**expected)
    assert guard.rules.policy.repeat == 1
    by_key = {f.evidence.partition(":")[0]: f.evidence for f in guard.findings}
    assert "allowed by ada until 2027-03-01" in by_key["repeat"]
    assert ("allowed by" in by_key["tolerance"]) is ("tolerance" in keys)


def test_an_expired_entry_takes_nothing_out(sides: Sides) -> None:
    """And is a failure of its own."""
    entries = ledger("tolerance", until="2027-01-09")
    guard = sides.planned({"tolerance": STRICT}, {"tolerance": LAX, **entries})
    assert guard.judged
    expired = said(guard)["ledger.expired"]
    assert (expired.outcome, expired.advisory) == (Outcome.FAIL, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [({"self_checks": {"repeat": 3}}, {}), ({}, {"self_checks": {"rows": False}})],
)
def test_self_checks_that_were_taken_back_are_planned_again(
    sides: Sides, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """They need runs of their own."""
    assert sides.planned(before, after).planned


def test_an_edited_judge_is_the_baselines(sides: Sides) -> None:
    """Its script lies in the baseline's tree, and can be allowed as a file."""
    policy = {"decisions": {"j": {"judge": {"entry": "judge.py:f"}}}}
    for root, text in ((sides.base, "def f(case): ..."), (sides.own, "def f(case): pass")):
        (root / "judge.py").write_text(text, encoding="utf-8")
    guard = sides.planned(policy, policy)
    judge = guard.rules.policy.decisions["j"].judge
    assert judge is not None
    assert judge.script == sides.base / "judge.py"
    assert "files.judge.py" in said(guard)["policy.loosened"].evidence
    assert not sides.planned(policy, {**policy, **ledger("files.judge.py")}).judged


def test_a_dropped_case_is_kept_from_the_baselines_set(sides: Sides) -> None:
    """Unless the ledger lets it go, by name or with the whole set."""
    shutil.rmtree(sides.own / "fixtures" / "batch")
    (sides.own / "fixtures" / "fixtures.yml").write_text(
        "version: 1\ncases: [{name: one}]\n", encoding="utf-8"
    )
    guard = sides.planned()
    assert guard.lost is not None
    assert [case.name for case in guard.lost.fixtures.cases] == ["batch"]
    assert guard.lost.fixtures.cases[0].folder.is_relative_to(sides.base)
    assert said(guard)["fixtures.case_dropped"].subject.case == "batch"
    for key in ("case:batch", "fixtures"):
        allowed = sides.planned(after=ledger(key))
        assert allowed.lost is None
        assert "allowed by ada" in said(allowed)["fixtures.case_dropped"].evidence
    assert sides.planned(after=ledger("case:one")).lost is not None


@pytest.mark.parametrize("key", ["reference:one/y", "reference:one", "case:one", "fixtures"])
def test_an_edited_reference_can_be_allowed_by_four_names(sides: Sides, key: str) -> None:
    """The narrowest is what the remedy offers."""
    (sides.own / "fixtures" / "one" / "output_0.pb").unlink()
    guard = sides.planned()
    assert guard.edited is not None
    assert [case.name for case in guard.edited.fixtures.cases] == ["one"]
    assert "'reference:one/y'" in said(guard)["fixtures.reference_edited"].remedy
    assert sides.planned(after=ledger(key)).edited is None


@pytest.mark.parametrize("key", ["target:gpu", "target:gpu/exported", "variant:exported"])
def test_a_removed_target_must_run(sides: Sides, key: str) -> None:
    """Even where no pair that is left has to."""
    guard = sides.planned(targets={"cpu": {}})
    assert guard.must_run
    assert guard.removed == (PairName(target="gpu", variant="exported"),)
    assert "'target:gpu'" in said(guard)["target.removed"].remedy
    assert not sides.planned(after=ledger(key), targets={"cpu": {}}).must_run


def test_a_variant_taken_from_one_target_is_a_pair_that_is_gone(sides: Sides) -> None:
    """Target and variant are both still there."""
    both = {"exported": {"path": "model.onnx"}, "second": {"path": "model.onnx"}}
    base = deployment(sides.base, {}, variants=both)
    targets = {"cpu": {}, "gpu": {"variants": ["exported"]}}
    own = deployment(sides.own, {}, variants=both, targets=targets)
    rules = BaseRules(deployment=base, cases=opened(base))
    found = identities_of(base, rules.cases.fixtures)
    guard = sides.guard(own, Baseline(source=sides.source, rules=rules, identities=found))
    assert guard.removed == (PairName(target="gpu", variant="second"),)
    assert "second no longer runs on target gpu" in said(guard)["variant.removed"].evidence


def test_rules_that_cannot_be_read_leave_it_open(sides: Sides) -> None:
    """Nobody knows what was loosened; an entry for the base says that it may be so."""
    baseline = Baseline(source=sides.source, rules_unreadable="the commit is gone")
    finding = said(sides.guard(deployment(sides.own, {}), baseline))["policy.unreadable"]
    assert (finding.outcome, finding.advisory) == (Outcome.INCONCLUSIVE, False)
    assert "the commit is gone" in finding.evidence
    allowed = sides.guard(deployment(sides.own, ledger("base")), baseline)
    assert said(allowed)["policy.unreadable"].advisory


def test_without_a_baseline_there_is_nothing_to_guard(sides: Sides) -> None:
    """The first deployment is judged by its own rules; its ledger still ends."""
    baseline = Baseline(source=replace(sides.source, kind="none"))
    guard = sides.guard(deployment(sides.own, ledger("repeat", until="2027-01-01")), baseline)
    assert list(said(guard)) == ["ledger.expired"]
    assert not guard.judged
