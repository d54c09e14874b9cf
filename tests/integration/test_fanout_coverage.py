"""Tests of single operators on several runners: judged at the gate, as one machine judges them."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.fanout import GateOptions, PlanOptions, gate, plan, run_leg
from ci_parity.pipeline import Checked, CheckOptions, check
from ci_parity.records.finding import Finding
from ci_parity.records.leg_report import Origin
from ci_parity.records.outcome import Outcome
from ci_parity.records.plan import Plan
from ci_parity.records.verdict import Verdict
from ci_parity.release.objects.opening import open_store
from tests.support.user_repository import linear_repository

SILENT = SilentProgress()
ORIGIN = Origin(run="acme/models/71")
PLAIN = """
  plain: {runtime: current, session_options: {graph_optimization_level: disable_all}}
fixtures:"""


class Spread:
    """A run that was cut, and what its legs brought."""

    def __init__(self, options: CheckOptions, planned: Plan, artifacts: Path) -> None:
        self.options, self.planned, self.artifacts = options, planned, artifacts

    def gate(self, artifacts: Path | None = None, **more: Any) -> Checked:
        """Judge what arrived."""
        given = GateOptions(
            plan=self.planned, artifacts=artifacts or self.artifacts,
            origin=replace(ORIGIN, commit=self.planned.commit), results={"run": "success"},
        )  # fmt: skip
        return gate(replace(self.options, **more), given, SILENT)


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Spread:
    """Return a run of two targets, the cases of each in two parts."""
    folder = tmp_path_factory.mktemp("spread")
    user = linear_repository(folder / "user")
    policy = "policy: {latency: {measure: false}"
    user.replace("ci-parity.yml", policy, f"{policy}, coverage: {{measure: true}}")
    user.replace("ci-parity.yml", "\nfixtures:", PLAIN)
    user.replace("ci-parity.yml", "release: {", 'release: {store: "file:store", ')
    user.write(".gitignore", "ci-parity-report/\nrelease-log.jsonl*\nstore/\n")
    user.commit("two targets, with their operators")
    options = CheckOptions(root=user.root, base="main", force=True)
    planned, _ = plan(options, PlanOptions(shards=2))
    for leg in planned.legs:
        place = folder / "artifacts" / f"ci-parity-{leg.name}"
        origin = replace(ORIGIN, commit=planned.commit)
        run_leg(replace(options, records=True), planned, leg, place, origin, SILENT)
    return Spread(options, planned, folder / "artifacts")


@pytest.fixture
def artifacts(spread: Spread, tmp_path: Path) -> Path:
    """Return a copy of what the legs brought, to be tampered with."""
    return Path(shutil.copytree(spread.artifacts, tmp_path / "artifacts"))


def about_coverage(verdict: Verdict) -> list[Finding]:
    """Return the findings on single operators."""
    return [finding for finding in verdict.findings if finding.id.startswith("coverage.")]


def rewritten(artifacts: Path, change: Callable[[Any], None]) -> None:
    """Change what the leg of `cpu` observed, and let its report name that."""
    folder = artifacts / "ci-parity-cpu@1"
    said = json.loads((folder / "coverage.json").read_bytes())
    change(said)
    data = json.dumps(said).encode()
    (folder / "coverage.json").write_bytes(data)
    report = json.loads((folder / "leg.json").read_bytes())
    report["coverage"] = hashlib.sha256(data).hexdigest()
    (folder / "leg.json").write_text(json.dumps(report))


def test_the_gate_says_what_one_machine_says(spread: Spread) -> None:
    """Finding by finding, word by word, in one order; the first part of each target brings it."""
    together = check(spread.options, SILENT).verdict
    apart = spread.gate().verdict
    assert about_coverage(apart) == about_coverage(together)
    assert apart.outcome is together.outcome is Outcome.PASS
    assert {f.subject.target for f in about_coverage(apart)} == {"cpu", "plain"}
    brought = {path.parent.name for path in spread.artifacts.rglob("coverage.json")}
    assert brought == {"ci-parity-cpu@1", "ci-parity-plain@1"}


def test_a_failing_operator_is_judged_at_the_gate(spread: Spread, artifacts: Path) -> None:
    """The leg's verdict is not looked at: what its tests showed is."""

    def fail(said: Any) -> None:
        for model in said["models"]:
            for case in model["cases"]:
                if any(one["op_type"] == "Mul" for one in case["signatures"]):
                    result = said["targets"][0]["results"][case["id"]]
                    result.update(outcome="fail", evidence="y: 1 of 4 elements differ")

    rewritten(artifacts, fail)
    verdict = spread.gate(artifacts).verdict
    assert verdict.outcome is Outcome.FAIL
    failing = [f for f in about_coverage(verdict) if f.outcome is Outcome.FAIL and not f.advisory]
    assert failing
    assert {(f.id, f.subject.target) for f in failing} == {("coverage.failing", "cpu")}
    assert all("Mul" in finding.evidence for finding in failing)


def altered(artifacts: Path) -> None:
    """The bytes are not those that the report names."""
    path = artifacts / "ci-parity-cpu@1" / "coverage.json"
    path.write_bytes(path.read_bytes().replace(b'"pass"', b'"fail"', 1))


def gone(artifacts: Path) -> None:
    """An upload ended early."""
    (artifacts / "ci-parity-cpu@1" / "coverage.json").unlink()


def linked(artifacts: Path) -> None:
    """It is a link to a file with the right bytes."""
    path = artifacts / "ci-parity-cpu@1" / "coverage.json"
    path.rename(artifacts.parent / "elsewhere")
    path.symlink_to(artifacts.parent / "elsewhere")


def huge(artifacts: Path) -> None:
    """It is larger than anything that is read."""
    with (artifacts / "ci-parity-cpu@1" / "coverage.json").open("ab") as stream:
        stream.truncate((64 << 20) + 1)


def garbled(artifacts: Path) -> None:
    """It has the right digest, and a key that no record has."""
    rewritten(artifacts, lambda said: said.update(verdict="pass"))


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (altered, "not those that the leg wrote"),
        (gone, "there is no coverage.json"),
        (linked, "there is no coverage.json"),
        (huge, "larger than 64 MiB"),
        (garbled, "not a CoverageObservation record"),
    ],
)
def test_an_artifact_that_is_not_whole_is_refused(
    spread: Spread, artifacts: Path, tamper: Callable[[Path], None], words: str
) -> None:
    """The whole leg does not count."""
    tamper(artifacts)
    verdict = spread.gate(artifacts).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    refused = [f for f in verdict.findings if f.id == "gate.artifact_refused"]
    assert any(words in finding.evidence for finding in refused)


def nothing(artifacts: Path) -> None:
    """The leg says that it was not asked for any."""
    path = artifacts / "ci-parity-cpu@1" / "leg.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"coverage": ""}))


def of_the_other_target(artifacts: Path) -> None:
    """What another leg of the run observed stands in the place of this one's."""
    other = json.loads((artifacts / "ci-parity-plain@1" / "coverage.json").read_bytes())
    rewritten(artifacts, lambda said: said.update(other))


def of_another_model(artifacts: Path) -> None:
    """As of a run of another plan, before the model changed."""
    rewritten(artifacts, lambda said: said["models"][0].update(sha256="d" * 64))


def of_another_provider(artifacts: Path) -> None:
    """It ran where it was not to."""
    rewritten(artifacts, lambda said: said["targets"][0].update(provider="OtherProvider"))


def without_an_operator(artifacts: Path) -> None:
    """What would fail is left out of what the model asks for."""

    def drop(said: Any) -> None:
        used = said["models"][0]["used"]
        used[:] = [one for one in used if one["signature"]["op_type"] != "Mul"]

    rewritten(artifacts, drop)


def without_a_model(artifacts: Path) -> None:
    """There is nothing to find anything in."""
    rewritten(artifacts, lambda said: said.update(models=[]))


def without_a_result(artifacts: Path) -> None:
    """One test has none."""
    rewritten(artifacts, lambda said: said["targets"][0]["results"].popitem())


def under_another_name(artifacts: Path) -> None:
    """One result stands for another test."""

    def swap(said: Any) -> None:
        results = said["targets"][0]["results"]
        next(iter(results.values()))["case"] = "onnx/test_abs_of_another_world"

    rewritten(artifacts, swap)


def twice(artifacts: Path) -> None:
    """One test is named twice."""
    rewritten(artifacts, lambda said: said["models"][0]["cases"].append(
        said["models"][0]["cases"][0]
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (nothing, "no leg of cpu brought any"),
        (of_the_other_target, "it is about other targets"),
        (of_another_model, "it is about another model"),
        (of_another_provider, "it is about OtherProvider"),
        (without_an_operator, "it leaves out operators of exported: Mul"),
        (without_a_model, "it is about other variants"),
        (without_a_result, "one result for each test"),
        (under_another_name, "a result is of another test"),
        (twice, "it names a test twice"),
    ],
)
def test_what_is_not_of_the_plan_is_no_pass(
    spread: Spread, artifacts: Path, tamper: Callable[[Path], None], words: str
) -> None:
    """Its target alone is open, with the reason; the other one is judged."""
    tamper(artifacts)
    verdict = spread.gate(artifacts).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    found = about_coverage(verdict)
    (opened,) = [finding for finding in found if finding.subject.target == "cpu"]
    assert opened.id == "coverage.unmeasured"
    assert words in opened.evidence
    assert opened.remedy
    assert [f.outcome for f in found if f.subject.target == "plain"] == [Outcome.PASS]


def test_a_gate_that_records_hands_on_what_the_legs_measured(spread: Spread) -> None:
    """A gate that does not keeps nothing for others; nor does what a leg knew from before count."""
    asked = spread.gate().shared
    assert asked is None or asked.publish() == ""
    shared = spread.gate(records=True).shared
    assert shared is not None
    assert shared.publish()
    store = open_store("file:store", spread.options.root)
    lines = [
        json.loads(line[65:])
        for stored in store.objects()
        for line in store.read(stored.sha256, 1 << 25).splitlines()
        if b'"outcome"' in line
    ]
    wanted = json.loads((spread.artifacts / "ci-parity-cpu@1" / "coverage.json").read_bytes())
    measured = wanted["targets"][0]["measured"]
    assert measured
    assert set(measured) <= {line["case"] for line in lines}
