"""Several runners, one verdict: real legs, and every way in which what arrives is not what ran."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.progress import SilentProgress
from ci_parity.cli import run
from ci_parity.fanout import GateOptions, PlanOptions, gate, plan, run_leg
from ci_parity.pipeline import CheckOptions, check
from ci_parity.records.leg_report import Origin
from ci_parity.records.outcome import Outcome
from ci_parity.records.plan import Plan
from ci_parity.records.verdict import Verdict
from tests.support.models import scale_initializer
from tests.support.user_repository import DIGITS, UserRepository, empty_repository

SILENT = SilentProgress()
CONFIG = """\
version: 1
deployment: digits
variants:
  exported: {path: model.onnx}
targets:
  cpu: {runtime: current}
  plain:
    runtime: current
    session_options: {graph_optimization_level: disable_all}
    runs_on: [self-hosted, plain]
fixtures: .
policy: {latency: {measure: false}, repeat: 2}
release: {log: "file:release-log.jsonl"}
"""
ORIGIN = Origin(run="acme/models/71", attempt=2)
FINISHED = {"plan": "success", "run": "success"}
SHARDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A run that was cut and observed: its repository, its plan, and what the legs brought."""

    repository: UserRepository
    plan: Plan
    artifacts: Path

    @property
    def options(self) -> CheckOptions:
        """Where it is checked."""
        return CheckOptions(root=self.repository.root, base="main")

    @property
    def origin(self) -> Origin:
        """The run that the gate is in."""
        return replace(ORIGIN, commit=self.plan.commit)

    def gate(
        self, artifacts: Path | None = None, results: Mapping[str, str] = FINISHED,
        origin: Origin | None = None,
    ) -> Verdict:  # fmt: skip
        """Judge what arrived."""
        given = GateOptions(
            plan=self.plan, artifacts=artifacts or self.artifacts, results=results,
            origin=origin or self.origin,
        )  # fmt: skip
        return gate(self.options, given, SILENT).verdict


def made(folder: Path, change: Callable[[UserRepository], None]) -> UserRepository:
    """Return the digits deployment on main, and a change on a branch."""
    repository = empty_repository(folder)
    shutil.copytree(DIGITS, folder, dirs_exist_ok=True)
    repository.write("ci-parity.yml", CONFIG)
    repository.write(".gitignore", "ci-parity-report/\nrelease-log.jsonl*\n")
    repository.commit("first")
    repository.git("checkout", "--quiet", "-b", "change")
    change(repository)
    repository.commit("change")
    return repository


def spread(folder: Path, repository: UserRepository, shards: int = SHARDS) -> Spread:
    """Plan a run and run every leg."""
    options = CheckOptions(root=repository.root, base="main")
    planned, _ = plan(options, PlanOptions(shards=shards))
    for leg in planned.legs:
        place = folder / f"ci-parity-{leg.name}"
        run_leg(options, planned, leg, place, replace(ORIGIN, commit=planned.commit), SILENT)
    drop_empty(folder)
    return Spread(repository=repository, plan=planned, artifacts=folder)


def drop_empty(folder: Path) -> None:
    """Do what an artifact store does with folders that hold no file."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def touched(repository: UserRepository) -> None:
    """Ask for more repetitions: everything must run, and nothing computes anything else."""
    repository.replace("ci-parity.yml", "repeat: 2", "repeat: 3")
    repository.replace("ci-parity.yml", "current\n    session", "current\n    # again\n    session")


def scaled(repository: UserRepository) -> None:
    """Change a weight by one per cent."""
    path = repository.root / "model.onnx"
    scale_initializer(path, path, 1.01)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Spread:
    """Return a run in which all is well."""
    folder = tmp_path_factory.mktemp("good")
    return spread(folder / "artifacts", made(folder / "user", touched))


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Spread:
    """Return a run whose model computes something else."""
    folder = tmp_path_factory.mktemp("bad")
    return spread(folder / "artifacts", made(folder / "user", scaled))


@pytest.fixture
def artifacts(good: Spread, tmp_path: Path) -> Path:
    """Return a copy of what the legs brought, to be tampered with."""
    return Path(shutil.copytree(good.artifacts, tmp_path / "artifacts"))


def kinds(verdict: Verdict) -> set[str]:
    """Return the kinds of the findings that leave a verdict open."""
    return {f.id for f in verdict.findings if f.outcome is Outcome.INCONCLUSIVE and not f.advisory}


def summary(verdict: Verdict) -> list[tuple[str, str, str, str, int, int]]:
    """Return the rows as a reader sees them."""
    return [
        (r.target, r.variant, r.boundary, r.outcome.value, r.cases, r.cases_expected)
        for r in verdict.rows
    ]


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a leg says of itself."""
    path = folder / "leg.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    change(said)
    path.write_text(json.dumps(said), encoding="utf-8")


def test_the_gate_judges_as_one_machine_does(good: Spread, bad: Spread) -> None:
    """Row by row and number by number, however the cases were dealt."""
    for one in (good, bad):
        spread_out, together = one.gate(), check(one.options, SILENT).verdict
        assert spread_out.outcome is together.outcome
        assert summary(spread_out) == summary(together)
        assert spread_out.outputs == together.outputs
        assert spread_out.graphs == together.graphs
        assert spread_out.places == together.places
        assert spread_out.bundle_digest == together.bundle_digest
        assert spread_out.inputs_count == together.inputs_count == 6
        assert spread_out.changes is not None
        assert together.changes is not None
        assert spread_out.changes.identities == together.changes.identities


def test_all_is_well_only_with_all_of_it(good: Spread) -> None:
    """Four legs, no finding that binds."""
    assert [leg.name for leg in good.plan.legs] == ["cpu@1", "cpu@2", "plain@1", "plain@2"]
    verdict = good.gate()
    assert verdict.outcome is Outcome.PASS
    assert not kinds(verdict)


def test_a_failure_comes_with_what_its_leg_found_out(bad: Spread) -> None:
    """The node, the cause, and where the reproduction is."""
    verdict = bad.gate()
    assert verdict.outcome is Outcome.FAIL
    assert verdict.divergences
    assert all(found.nodes for found in verdict.divergences)
    places = {found.reproduction for found in verdict.divergences}
    assert all((bad.artifacts / place / "repro.json").is_file() for place in places)
    assert any(cause.causes for cause in verdict.attributions)


def test_a_forged_verdict_is_not_read(bad: Spread, tmp_path: Path) -> None:
    """Whatever a leg claims beside its observations, they are judged."""
    artifacts = Path(shutil.copytree(bad.artifacts, tmp_path / "artifacts"))
    for folder in artifacts.iterdir():
        (folder / "verdict.json").write_text('{"outcome": "pass"}', encoding="utf-8")
        rewritten(folder, lambda said: said.update(explained=[], divergences=[], attributions=[]))
    assert bad.gate(artifacts).outcome is Outcome.FAIL


def test_a_forged_finding_that_binds_is_dropped(good: Spread, artifacts: Path) -> None:
    """A leg explains; it can neither fail nor excuse."""
    forged = {
        "id": "output.values", "outcome": "fail", "subject": {
            "target": "cpu", "variant": "exported", "boundary": "", "case": "", "output": "",
        },
        "evidence": "forged", "measured": None, "limit": None, "required": None, "unit": "",
        "remedy": "", "advisory": False,
    }  # fmt: skip
    rewritten(artifacts / "ci-parity-cpu@1", lambda said: said["explained"].append(forged))
    assert good.gate(artifacts).outcome is Outcome.PASS


def lost(artifacts: Path) -> None:
    """A leg brought nothing."""
    shutil.rmtree(artifacts / "ci-parity-plain@2")


def foreign_run(artifacts: Path) -> None:
    """An older run finished last, and its artifact stands in the place of ours."""
    rewritten(
        artifacts / "ci-parity-cpu@1", lambda said: said["origin"].update(run="acme/models/70")
    )


def later_attempt(artifacts: Path) -> None:
    """An attempt that has not been made yet."""
    rewritten(artifacts / "ci-parity-cpu@1", lambda said: said["origin"].update(attempt=3))


def foreign_commit(artifacts: Path) -> None:
    """Another commit was observed."""
    rewritten(artifacts / "ci-parity-cpu@1", lambda said: said["origin"].update(commit="f" * 40))


def doubled(artifacts: Path) -> None:
    """One part came twice."""
    shutil.copytree(artifacts / "ci-parity-cpu@1", artifacts / "ci-parity-cpu@1 (1)")


def swapped(artifacts: Path) -> None:
    """One part says that it is the other."""
    for name in ("leg.json",):
        shutil.copy(artifacts / "ci-parity-cpu@2" / name, artifacts / "ci-parity-cpu@1" / name)


def renamed(artifacts: Path) -> None:
    """A target calls itself another."""
    rewritten(artifacts / "ci-parity-cpu@1", lambda said: said["leg"].update(name="gpu@1"))


def fewer_variants(artifacts: Path) -> None:
    """A leg did not run what it was to run."""
    rewritten(artifacts / "ci-parity-cpu@1", lambda said: said.update(ran=[]))


def without_trials(artifacts: Path) -> None:
    """A leg says that it ran, and kept nothing."""
    rewritten(artifacts / "ci-parity-cpu@1", lambda said: said.update(trials=[]))


def other_baseline(artifacts: Path) -> None:
    """A leg compared with something else."""
    rewritten(artifacts / "ci-parity-cpu@1", lambda said: said["source"].update(commit="e" * 40))


def torn(artifacts: Path) -> None:
    """An upload ended early."""
    (artifacts / "ci-parity-cpu@1" / "trials" / "trial" / "run.json").unlink()


def altered(artifacts: Path) -> None:
    """A tensor is not what was recorded."""
    folder = artifacts / "ci-parity-cpu@1" / "trials" / "trial"
    file = next(folder.glob("values1/*_o0*"), None) or next(folder.glob("values*/*.bin"))
    file.write_bytes(bytes(len(file.read_bytes())))


def escaping(artifacts: Path) -> None:
    """A trial's name leads out of the folder."""
    rewritten(
        artifacts / "ci-parity-cpu@1", lambda said: said.update(trials=["../../ci-parity-cpu@2"])
    )


def linked(artifacts: Path) -> None:
    """A folder is a link to another."""
    folder = artifacts / "ci-parity-cpu@1"
    folder.rename(artifacts.parent / "elsewhere")
    folder.symlink_to(artifacts.parent / "elsewhere")


def stranger(artifacts: Path) -> None:
    """An artifact that nobody planned lies beside the others."""
    (artifacts / "ci-parity-extra").mkdir()
    (artifacts / "ci-parity-extra" / "readme.md").write_text("# PASS", encoding="utf-8")


def garbled(artifacts: Path) -> None:
    """A record is no record."""
    (artifacts / "ci-parity-cpu@1" / "leg.json").write_bytes(b"\x00" * 100)


def other_model(artifacts: Path) -> None:
    """A leg measured another model under this name."""
    rewritten(
        artifacts / "ci-parity-cpu@1",
        lambda said: said["identities"][0].update(model="d" * 64),
    )


def other_machine(artifacts: Path) -> None:
    """Two parts of one target ran on two kinds of machine."""
    rewritten(
        artifacts / "ci-parity-cpu@1",
        lambda said: said["identities"][0].update(host='{"cpu":"another"}'),
    )


@pytest.mark.parametrize(
    ("tamper", "kind", "words"),
    [
        (lost, "gate.leg_missing", "leg plain@2 brought no observations"),
        (foreign_run, "gate.artifact_refused", "of run acme/models/70, not of acme/models/71"),
        (later_attempt, "gate.artifact_refused", "attempt 3"),
        (foreign_commit, "gate.artifact_refused", "of commit ffffffffffff"),
        (doubled, "gate.leg_doubled", "leg cpu@1 is there 2 times"),
        (swapped, "gate.leg_doubled", "leg cpu@2 is there 2 times"),
        (renamed, "gate.artifact_refused", "leg 'gpu@1', which was not planned"),
        (fewer_variants, "gate.not_run", "leg cpu@1 did not run exported"),
        (without_trials, "gate.leg_empty", "leg cpu@1 brought no case"),
        (other_baseline, "gate.baseline_moved", "leg cpu@1 compared with"),
        (torn, "gate.artifact_refused", "no kept observations"),
        (altered, "gate.artifact_refused", "not what was recorded"),
        (escaping, "gate.artifact_refused", "is no trial's name"),
        (linked, "gate.artifact_refused", "there is no leg.json"),
        (stranger, "gate.artifact_refused", "artifact ci-parity-extra"),
        (garbled, "gate.artifact_refused", "malformed JSON"),
        (other_model, "gate.other_identity", "another model on its runner"),
        (other_machine, "gate.other_machine", "cpu/exported ran where host differ"),
    ],
)
def test_what_is_not_the_run_is_no_pass(
    good: Spread, artifacts: Path, tamper: Callable[[Path], None], kind: str, words: str
) -> None:
    """Each is inconclusive, and says what is wrong."""
    tamper(artifacts)
    verdict = good.gate(artifacts)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    found = [f for f in verdict.findings if f.id == kind]
    assert any(words in f.evidence for f in found), [f.evidence for f in verdict.findings]
    assert all(f.remedy for f in found)


@pytest.mark.parametrize("result", ["skipped", "cancelled", "failure", "timed_out", "anything"])
def test_a_job_that_did_not_succeed_is_no_pass(good: Spread, result: str) -> None:
    """Though every artifact is there."""
    verdict = good.gate(results={**FINISHED, "run": result})
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert any(f.evidence == f"job run: {result}" for f in verdict.findings)


def test_nothing_at_all_is_no_pass(good: Spread, tmp_path: Path) -> None:
    """Every pair is in the table, with no case run."""
    (tmp_path / "none").mkdir()
    verdict = good.gate(tmp_path / "none")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert {(r.target, r.cases, r.cases_expected) for r in verdict.rows} == {
        ("cpu", 0, 6), ("plain", 0, 6),
    }  # fmt: skip
    verdict = good.gate(tmp_path / "missing")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert {"gate.no_artifacts", "gate.leg_missing"} <= kinds(verdict)


def test_a_plan_for_another_commit_is_refused(good: Spread) -> None:
    """There would be nothing to hold the artifacts against."""
    other = replace(good, plan=replace(good.plan, commit="c" * 40))
    with pytest.raises(EvidenceError, match="the plan is for commit cccc"):
        other.gate()


def test_a_plan_that_leaves_a_pair_out_is_no_pass(good: Spread) -> None:
    """The gate knows itself what must run."""
    legs = tuple(leg for leg in good.plan.legs if leg.target == "cpu")
    verdict = replace(good, plan=replace(good.plan, legs=legs)).gate()
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert {"gate.not_planned", "gate.artifact_refused"} <= kinds(verdict)


def test_other_inputs_than_those_here_are_refused(good: Spread, tmp_path: Path) -> None:
    """The fixtures of the checkout decide, not those that a leg brings."""
    user = Path(shutil.copytree(good.repository.root, tmp_path / "user"))
    case = user / "blank" / "input_0.pb"
    assert case.is_file()
    shutil.copy(user / "smallest" / "input_0.pb", case)
    moved = replace(good, repository=UserRepository(root=user))
    verdict = moved.gate()
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert any("other inputs than those of case 'blank'" in f.evidence for f in verdict.findings)


def test_nothing_changed_needs_no_leg(tmp_path: Path) -> None:
    """Skipped jobs are right then, and only then."""
    repository = made(tmp_path / "user", lambda made: made.write("notes.md", "words\n"))
    log = f"file:{tmp_path / 'log.jsonl'}"
    root = str(repository.root)
    assert run(["check", "--root", root, "--log", log, "--record", "always", "--force"]) == 0
    options = CheckOptions(root=repository.root, base="main", log=log)
    planned, _ = plan(options, PlanOptions())
    assert planned.legs == ()
    given = GateOptions(
        plan=planned, artifacts=tmp_path / "none", origin=ORIGIN,
        results={"plan": "success", "run": "skipped"},
    )  # fmt: skip
    verdict = gate(options, given, SILENT).verdict
    assert verdict.outcome is Outcome.PASS
    assert not verdict.ran
    failed = replace(given, results={"plan": "success", "run": "cancelled"})
    assert gate(options, failed, SILENT).verdict.outcome is Outcome.INCONCLUSIVE


def test_what_the_guard_asks_for_runs_on_the_legs(tmp_path: Path) -> None:
    """A dropped case, a variant that is gone, and a contract that was loosened."""

    def loosen(repository: UserRepository) -> None:
        repository.git("rm", "-r", "--quiet", "saturated")
        text = (repository.root / "fixtures.yml").read_text(encoding="utf-8")
        head, _, _ = text.partition("  - name: saturated")
        repository.write("fixtures.yml", head)
        repository.replace("ci-parity.yml", "  plain:\n", "  other:\n")
        off = "repeat: 2, self_checks: {rows: false}"
        repository.replace("ci-parity.yml", "repeat: 2", off)
        scaled(repository)

    repository = made(tmp_path / "user", loosen)
    one = spread(tmp_path / "artifacts", repository)
    assert {leg.target for leg in one.plan.legs} == {"cpu", "other", "plain"}
    spread_out, together = one.gate(), check(one.options, SILENT).verdict
    assert sorted(summary(spread_out)) == sorted(summary(together))
    assert spread_out.outcome is together.outcome is Outcome.FAIL
    boundaries = {row.boundary for row in spread_out.rows}
    assert any("baseline's cases" in boundary for boundary in boundaries)
    assert "self-checks, baseline's policy" in boundaries
    assert {row.target for row in spread_out.rows} == {"cpu", "other", "plain"}


def test_on_a_schedule_each_machine_runs_what_differs_there(tmp_path: Path) -> None:
    """Where the log knows these very machines, nothing runs, and that is a pass."""
    repository = made(tmp_path / "user", lambda made: made.write("notes.md", "words\n"))
    log = f"file:{tmp_path / 'log.jsonl'}"
    root = str(repository.root)
    assert run(["check", "--root", root, "--log", log, "--record", "always", "--force"]) == 0
    options = CheckOptions(root=repository.root, log=log)
    planned, _ = plan(options, PlanOptions(drift=True))
    assert [leg.name for leg in planned.legs] == ["cpu", "plain"]
    origin = replace(ORIGIN, commit=planned.commit)
    for leg in planned.legs:
        run_leg(options, planned, leg, tmp_path / "artifacts" / leg.name, origin, SILENT)
    given = GateOptions(
        plan=planned, artifacts=tmp_path / "artifacts", origin=origin, results=FINISHED
    )
    verdict = gate(options, given, SILENT).verdict
    assert (verdict.outcome, verdict.ran) == (Outcome.PASS, False)


def test_what_an_earlier_leg_left_is_gone(tmp_path: Path) -> None:
    """A leg that cannot run leaves no leg behind, on a runner that keeps its folder."""
    repository = made(tmp_path / "user", scaled)
    one = spread(tmp_path / "artifacts", repository, shards=1)
    folder = one.artifacts / "ci-parity-cpu"
    assert list(folder.glob("repro-*"))
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    other = replace(one.plan, commit="c" * 40)
    with pytest.raises(EvidenceError):
        run_leg(one.options, other, other.legs[0], folder, one.origin, SILENT)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert one.gate().outcome is not Outcome.PASS


def test_by_hand_it_is_three_commands(tmp_path: Path) -> None:
    """For systems that are not GitHub."""
    repository = made(tmp_path / "user", scaled)
    root, file = ["--root", str(repository.root), "--base", "main"], tmp_path / "plan.json"
    assert run(["plan", *root, "--json", str(file)]) == 0
    given = ["--plan", str(file), "--run-id", "17"]
    for leg in ("cpu", "plain"):
        out = ["--leg", leg, "--out", str(tmp_path / "artifacts" / leg)]
        assert run(["run", *root, *given, *out]) == 0
    words = ["gate", *root, "--plan", str(file), "--artifacts", str(tmp_path / "artifacts")]
    report = ["--report-dir", str(tmp_path / "report")]
    assert run([*words, *report, "--run-id", "17"]) == 1
    assert run([*words, *report, "--run-id", "18"]) == 3
    assert run(["run", *root, *given, "--leg", "gpu", "--out", str(tmp_path / "none")]) == 2
