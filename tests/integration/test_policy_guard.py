"""The policy guard on real histories: what is loosened is judged by the baseline's rules too."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.progress import SilentProgress
from ci_parity.cli import run
from ci_parity.pipeline import CheckOptions, check
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.release.store import open_log
from tests.support.clock import FakeClock
from tests.support.models import save, save_linear, scale_initializer
from tests.support.user_repository import UserRepository, linear_repository

TOLERANCE = "tolerance: {rtol: 1.0e-3, atol: 1.0e-6}"
LOOSE = "tolerance: {rtol: 0.1, atol: 1.0e-6}"
QUICK = "self_checks: {repeat: 1, rows: false, order: false, padding: false, threads: false}"
TARGETS = 'cpu: {runtime: "current"}'
OTHER = '  other: {runtime: "current", session_options: {graph_optimization_level: disable_all}}'
CONFIG = f"""\
version: 1
deployment: linear
variants:
  exported: {{path: model.onnx}}
targets:
  {TARGETS}
fixtures: fixtures
policy:
  {TOLERANCE}
  latency: {{measure: false}}
  {QUICK}
"""
NOW = datetime(2027, 1, 10, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository with y = 2 x under an explicit tolerance, on a branch off main."""
    made = linear_repository(tmp_path / "user")
    made.write("ci-parity.yml", CONFIG)
    made.commit("base")
    made.git("checkout", "--quiet", "-b", "change")
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A verdict, read by what it found."""

    verdict: Verdict

    @property
    def outcome(self) -> Outcome:
        """The outcome of the run."""
        return self.verdict.outcome

    def binding(self, outcome: Outcome) -> set[tuple[str, str]]:
        """Return kind and boundary of the binding findings with an outcome."""
        return {
            (f.id, f.subject.boundary)
            for f in self.verdict.findings
            if f.outcome is outcome and not f.advisory
        }

    def warned(self, kind: str) -> list[Finding]:
        """Return the warnings of a kind."""
        return [f for f in self.verdict.findings if f.id == kind and f.advisory]

    @property
    def rows(self) -> dict[tuple[str, str], Outcome]:
        """The outcome of every row, by target and boundary."""
        return {(row.target, row.boundary): row.outcome for row in self.verdict.rows}


def checked(repository: UserRepository) -> Checked:
    """Commit the work tree and check it."""
    repository.commit("change")
    clock = FakeClock(NOW).time
    done = check(CheckOptions(root=repository.root, clock=clock), SilentProgress())
    return Checked(verdict=done.verdict)


def merged(repository: UserRepository) -> None:
    """Make what is here the base."""
    repository.commit("merged")
    repository.git("branch", "--force", "main", "HEAD")


def loosen(repository: UserRepository) -> None:
    """Allow a tenth."""
    repository.replace("ci-parity.yml", TOLERANCE, LOOSE)


def fault(repository: UserRepository, factor: float = 1.01) -> None:
    """Change the weight by a hundredth."""
    scale_initializer(repository.root / "model.onnx", repository.root / "model.onnx", factor)


def allow(repository: UserRepository, key: str, until: str = "2027-03-01") -> None:
    """Add an entry to the ledger."""
    entry = f'ledger: [{{key: "{key}", who: ada, why: "the new export rounds", until: "{until}"}}]'
    repository.replace("ci-parity.yml", QUICK, f"{QUICK}\n  {entry}")


# The policy.


def test_a_loosened_tolerance_does_not_let_a_fault_through(repository: UserRepository) -> None:
    """What passes under the new policy alone fails, and the key is listed with both values."""
    loosen(repository)
    fault(repository)
    found = checked(repository)
    assert found.outcome is Outcome.FAIL
    assert found.binding(Outcome.FAIL) == {
        ("output.values", "source→exported, baseline's policy"),
        ("output.values", "baseline→candidate, baseline's policy"),
    }
    assert found.rows["cpu", "source→exported"] is Outcome.PASS
    assert found.rows["cpu", "source→exported, baseline's policy"] is Outcome.FAIL
    (said,) = found.warned("policy.loosened")
    assert said.evidence.startswith(
        'tolerance: {"atol":0.000001,"rtol":0.001} → {"atol":0.000001,"rtol":0.1}, looser'
    )
    assert "policy.ledger" in said.remedy


def test_a_loosening_that_nothing_needs_passes_and_is_listed(repository: UserRepository) -> None:
    """The run holds by the base branch's rules too; a reviewer sees what was loosened."""
    loosen(repository)
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    assert len(found.warned("policy.loosened")) == 1
    assert found.rows["cpu", "source→exported, baseline's policy"] is Outcome.PASS


def test_once_merged_the_new_policy_is_the_base(repository: UserRepository) -> None:
    """A loosening is accepted with the commit that has it."""
    loosen(repository)
    merged(repository)
    fault(repository)
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    assert not found.warned("policy.loosened")


def test_tightened_and_added_rules_are_no_finding(repository: UserRepository) -> None:
    """Nothing is judged twice for them."""
    repository.replace("ci-parity.yml", "rtol: 1.0e-3", "rtol: 1.0e-4")
    repository.replace("ci-parity.yml", QUICK, f"{QUICK}\n  decisions: {{y: {{top_k: {{}}}}}}")
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    assert not found.warned("policy.loosened")
    assert all("baseline's policy" not in boundary for _, boundary in found.rows)


def test_both_directions_at_once_take_the_stricter_of_each(repository: UserRepository) -> None:
    """One key tightened does not pay for another."""
    loosen(repository)
    repository.replace("ci-parity.yml", QUICK, f"{QUICK}\n  repeat: 3")
    fault(repository)
    found = checked(repository)
    assert found.outcome is Outcome.FAIL
    assert [f.evidence.partition(":")[0] for f in found.warned("policy.loosened")] == ["tolerance"]


def test_the_ledger_allows_what_it_names(repository: UserRepository) -> None:
    """The loosening is shown with who, why and until when, and does not bind."""
    loosen(repository)
    fault(repository)
    allow(repository, "tolerance")
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    (said,) = found.warned("policy.loosened")
    assert "allowed by ada until 2027-03-01: the new export rounds" in said.evidence
    assert all("baseline's policy" not in boundary for _, boundary in found.rows)


def test_an_entry_for_another_key_allows_nothing(repository: UserRepository) -> None:
    """The run is judged under the new policy for exactly the keys that are named."""
    loosen(repository)
    fault(repository)
    allow(repository, "repeat")
    assert checked(repository).outcome is Outcome.FAIL


def test_an_expired_entry_allows_nothing_and_fails(repository: UserRepository) -> None:
    """Both: the base branch's rule counts again, and the entry itself is a failure."""
    loosen(repository)
    fault(repository)
    allow(repository, "tolerance", until="2027-01-09")
    found = checked(repository)
    assert found.outcome is Outcome.FAIL
    assert ("ledger.expired", "policy") in found.binding(Outcome.FAIL)
    assert ("output.values", "baseline→candidate, baseline's policy") in found.binding(Outcome.FAIL)


@pytest.mark.parametrize(
    ("until", "outcome", "binding", "warnings"),
    [
        ("2027-03-01", Outcome.PASS, set(), []),
        ("2027-01-20", Outcome.PASS, set(), ["ledger.expiring"]),
        ("2027-01-09", Outcome.FAIL, {("ledger.expired", "policy")}, []),
    ],
)
def test_the_calendar_counts_where_nothing_changed(
    repository: UserRepository, until: str, outcome: Outcome, binding: set[tuple[str, str]],
    warnings: list[str],
) -> None:  # fmt: skip
    """A permission ends on its day, whether or not anybody touches the model."""
    loosen(repository)
    allow(repository, "tolerance", until=until)
    merged(repository)
    repository.write("README.md", "words")
    found = checked(repository)
    assert found.verdict.ran is False
    assert found.outcome is outcome
    assert found.binding(Outcome.FAIL) == binding
    assert [f.id for f in found.verdict.findings if f.advisory] == warnings


def test_a_ledger_takes_the_full_path_on_the_command_line(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shortcut of an unchanged repository knows no calendar."""
    allow(repository, "tolerance", until="2001-01-01")
    merged(repository)
    repository.write("README.md", "words")
    repository.commit("words")
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder)])
    assert code == 1
    printed = capsys.readouterr().out
    assert "PARITY FAIL" in printed.splitlines()[0]
    assert "ledger.expired" in printed


def test_a_contract_that_was_taken_back_is_run_again(repository: UserRepository) -> None:
    """The baseline's contract plans its own runs: a newer operator set fails by it."""
    contract = "contract: {opset: 17, inputs: {x: {shape: [batch, 3]}}, sizes: {batch: [1, 2]}}\n"
    repository.write("ci-parity.yml", CONFIG + contract)
    merged(repository)
    repository.write("ci-parity.yml", CONFIG)
    w = numpy_helper.from_array(np.full(3, 2, np.float32), "w")
    save(
        repository.root / "model.onnx", [helper.make_node("Mul", ["x", "w"], ["y"])],
        {"x": (TensorProto.FLOAT, ["batch", 3])}, {"y": (TensorProto.FLOAT, ["batch", 3])}, [w],
        opset=18,
    )  # fmt: skip
    found = checked(repository)
    assert found.outcome is Outcome.FAIL
    assert found.binding(Outcome.FAIL) == {("contract.opset", "contract, baseline's policy")}
    assert ("contract.shape", "contract, baseline's policy") in found.binding(Outcome.PASS)


def test_repeats_that_were_lowered_run_all_the_same(repository: UserRepository) -> None:
    """What the base branch asks to be run three times is run three times."""
    repository.replace("ci-parity.yml", QUICK, f"{QUICK}\n  repeat: 3")
    merged(repository)
    repository.replace("ci-parity.yml", "repeat: 3", "repeat: 1")
    noisy = helper.make_node("RandomUniformLike", ["x"], ["noise"], low=0.0, high=1e-5)
    double = helper.make_node("Mul", ["x", "w"], ["twice"])
    w = numpy_helper.from_array(np.full(3, 2, np.float32), "w")
    save(
        repository.root / "model.onnx",
        [noisy, double, helper.make_node("Add", ["twice", "noise"], ["y"])],
        {"x": (TensorProto.FLOAT, ["batch", 3])}, {"y": (TensorProto.FLOAT, ["batch", 3])}, [w],
    )  # fmt: skip
    found = checked(repository)
    assert found.warned("repeat.differs")
    assert found.warned("policy.loosened")


# The fixture set.


def save_counting(path: Path) -> None:
    """Save y = 2 x + (rows - 1) / 10: what it gets wrong, it does only in batches."""
    number = {
        name: numpy_helper.from_array(np.asarray(value, np.float32), name)
        for name, value in {"w": [2, 2, 2], "one": 1, "tenth": 0.1}.items()
    }
    save(
        path,
        [
            helper.make_node("Mul", ["x", "w"], ["twice"]),
            helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
            helper.make_node("Cast", ["rows"], ["count"], to=TensorProto.FLOAT),
            helper.make_node("Sub", ["count", "one"], ["others"]),
            helper.make_node("Mul", ["others", "tenth"], ["extra"]),
            helper.make_node("Add", ["twice", "extra"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, ["batch", 3])}, {"y": (TensorProto.FLOAT, ["batch", 3])},
        list(number.values()),
    )  # fmt: skip


def drop_batch(repository: UserRepository) -> None:
    """Take the case of four rows out of the set."""
    shutil.rmtree(repository.root / "fixtures" / "batch")
    manifest = repository.root / "fixtures" / "fixtures.yml"
    lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join(x for x in lines if "batch" not in x), encoding="utf-8")


def shrink_batch(repository: UserRepository) -> None:
    """Leave the case its name, and one row."""
    for file in (repository.root / "fixtures" / "batch").glob("*.pb"):
        proto = onnx.TensorProto.FromString(file.read_bytes())
        short = numpy_helper.from_array(numpy_helper.to_array(proto)[:1], proto.name)
        file.write_bytes(short.SerializeToString())


@pytest.mark.parametrize(
    ("edit", "kind"),
    [(drop_batch, "fixtures.case_dropped"), (shrink_batch, "fixtures.inputs_edited")],
)
def test_a_case_that_is_gone_still_runs(
    repository: UserRepository, edit: Callable[[UserRepository], None], kind: str
) -> None:
    """With the base branch's inputs and references: the case that finds the fault, finds it."""
    edit(repository)
    save_counting(repository.root / "model.onnx")
    found = checked(repository)
    assert found.outcome is Outcome.FAIL
    assert {said.subject.case for said in found.warned(kind)} == {"batch"}
    failing = {f.subject.case for f in found.verdict.findings if f.id == "output.values"
               and f.outcome is Outcome.FAIL}  # fmt: skip
    assert failing == {"batch"}
    assert found.rows["cpu", "source→exported"] is Outcome.PASS
    assert found.rows["cpu", "source→exported, baseline's cases"] is Outcome.FAIL
    assert found.rows["cpu", "baseline→candidate, baseline's cases"] is Outcome.FAIL


def test_a_case_may_be_dropped_by_the_ledger(repository: UserRepository) -> None:
    """It is shown, and no longer runs."""
    drop_batch(repository)
    allow(repository, "case:batch")
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    (said,) = found.warned("fixtures.case_dropped")
    assert "allowed by ada" in said.evidence
    assert all("baseline's cases" not in boundary for _, boundary in found.rows)


def edit_references(repository: UserRepository, factor: float) -> None:
    """Make the references what the faulty model says."""
    for file in repository.root.glob("fixtures/*/output_0.pb"):
        proto = onnx.TensorProto.FromString(file.read_bytes())
        moved = (numpy_helper.to_array(proto) * np.float32(factor)).astype(np.float32)
        file.write_bytes(numpy_helper.from_array(moved, proto.name).SerializeToString())


def test_an_edited_reference_is_judged_beside_the_one_before(repository: UserRepository) -> None:
    """The model agrees with the new reference; the old one says what happened."""
    fault(repository)
    edit_references(repository, 1.01)
    found = checked(repository)
    assert found.outcome is Outcome.FAIL
    assert found.rows["cpu", "source→exported"] is Outcome.PASS
    assert found.rows["cpu", "source→exported, baseline's references"] is Outcome.FAIL
    said = {f.subject.case: f for f in found.warned("fixtures.reference_edited")}
    assert set(said) == {"one", "batch"}
    assert said["one"].subject.output == "y"
    assert said["one"].measured == pytest.approx(0.02, rel=1e-3)
    assert "largest difference 0.02" in said["one"].evidence


def test_removed_references_are_judged_too(repository: UserRepository) -> None:
    """A reference that is not there cannot disagree; the one before still can."""
    fault(repository)
    for file in repository.root.glob("fixtures/*/output_0.pb"):
        file.unlink()
    found = checked(repository)
    assert ("output.values", "source→exported, baseline's references") in found.binding(
        Outcome.FAIL
    )


def test_another_name_for_a_case_is_no_finding(repository: UserRepository) -> None:
    """Nor is a case that was added."""
    fixtures = repository.root / "fixtures"
    (fixtures / "batch").rename(fixtures / "four")
    shutil.copytree(fixtures / "four", fixtures / "more")
    repository.replace("fixtures/fixtures.yml", "batch", "four")
    text = (fixtures / "fixtures.yml").read_text(encoding="utf-8")
    (fixtures / "fixtures.yml").write_text(f"{text.rstrip()}\n  - name: more\n", encoding="utf-8")
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    assert not [f for f in found.verdict.findings if f.id.startswith("fixtures.")]


# Targets and variants.


@pytest.fixture
def two_targets(repository: UserRepository) -> UserRepository:
    """Return a repository whose base has two targets."""
    repository.replace("ci-parity.yml", TARGETS, f"{TARGETS}\n{OTHER}")
    merged(repository)
    return repository


def remove_other(repository: UserRepository) -> None:
    """Take the second target out."""
    repository.replace("ci-parity.yml", f"{TARGETS}\n{OTHER}", TARGETS)


def test_a_removed_target_still_runs(two_targets: UserRepository) -> None:
    """Even where nothing else has to: its rows are there, and it must hold."""
    remove_other(two_targets)
    found = checked(two_targets)
    assert found.outcome is Outcome.PASS
    (said,) = found.warned("target.removed")
    assert said.subject.target == "other"
    assert found.rows["other", "source→exported"] is Outcome.PASS
    assert found.rows["other", "baseline→candidate"] is Outcome.PASS


def test_a_fault_on_a_removed_target_fails(two_targets: UserRepository) -> None:
    """Removing what fails is no repair."""
    remove_other(two_targets)
    fault(two_targets)
    found = checked(two_targets)
    assert found.outcome is Outcome.FAIL
    assert found.rows["other", "source→exported"] is Outcome.FAIL


def test_a_removed_target_may_go_by_the_ledger(two_targets: UserRepository) -> None:
    """It does not run any more."""
    remove_other(two_targets)
    allow(two_targets, "target:other")
    found = checked(two_targets)
    assert found.outcome is Outcome.PASS
    assert "allowed by ada" in found.warned("target.removed")[0].evidence
    assert all(target != "other" for target, _ in found.rows)


def test_a_removed_target_that_cannot_run_is_inconclusive(repository: UserRepository) -> None:
    """A program that is gone with its target shows nothing."""
    runner = '  other: {runtime: {command: ["tools/runner"]}}'
    repository.write("tools/runner", "#!/bin/sh\nexit 1\n")
    (repository.root / "tools" / "runner").chmod(0o755)
    repository.replace("ci-parity.yml", TARGETS, f"{TARGETS}\n{runner}")
    merged(repository)
    repository.replace("ci-parity.yml", f"\n{runner}", "")
    (repository.root / "tools" / "runner").unlink()
    found = checked(repository)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.binding(Outcome.INCONCLUSIVE) == {("removed.not_run", "")}


def test_a_removed_variant_runs_from_the_file_that_is_left(repository: UserRepository) -> None:
    """And without the file it is inconclusive."""
    variants = "exported: {path: model.onnx}"
    two = f"{variants}\n  second: {{path: second.onnx}}"
    save_linear(repository.root / "second.onnx")
    repository.replace("ci-parity.yml", variants, two)
    merged(repository)
    repository.replace("ci-parity.yml", two, variants)
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    (said,) = found.warned("variant.removed")
    assert said.subject.variant == "second"
    (repository.root / "second.onnx").unlink()
    found = checked(repository)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.binding(Outcome.INCONCLUSIVE) == {("removed.not_run", "")}


# The release log as the baseline.


@pytest.fixture
def logged(repository: UserRepository) -> UserRepository:
    """Return a repository whose release log has validated it."""
    log = 'release: {log: "file:release-log.jsonl"}\n'
    repository.write("ci-parity.yml", CONFIG + log)
    repository.commit("with a log")
    folder = str(repository.root / "ci-parity-report")
    words = ["check", "--root", str(repository.root), "--report-dir", folder]
    assert run([*words, "--force", "--record", "always"]) == 0
    return repository


def test_the_validated_commit_is_the_base(logged: UserRepository) -> None:
    """Its policy and its cases are read from git, whatever the default branch says."""
    loosen(logged)
    fault(logged)
    drop_batch(logged)
    merged(logged)
    found = checked(logged)
    assert found.verdict.changes is not None
    assert found.verdict.changes.source.kind == "log"
    assert found.outcome is Outcome.FAIL
    assert ("output.values", "source→exported, baseline's policy") in found.binding(Outcome.FAIL)
    assert ("output.values", "source→exported, baseline's cases") in found.binding(Outcome.FAIL)


def test_a_target_that_the_log_validated_is_missed(logged: UserRepository) -> None:
    """The line knows it, even where no pair that is left has changed."""
    logged.replace("ci-parity.yml", TARGETS, f"{TARGETS}\n{OTHER}")
    logged.commit("two targets")
    words = ["check", "--root", str(logged.root), "--report-dir", str(logged.root / "report")]
    assert run([*words, "--force", "--record", "always"]) == 0
    remove_other(logged)
    found = checked(logged)
    assert found.outcome is Outcome.PASS
    assert found.warned("target.removed")
    assert found.rows["other", "source→exported"] is Outcome.PASS
    assert found.rows["other", "baseline→candidate"] is Outcome.PASS


def test_a_validated_commit_that_is_lost_is_inconclusive(logged: UserRepository) -> None:
    """Nobody knows what was loosened; the ledger can say that it does not matter."""
    loosen(logged)
    logged.git("add", "--all")
    logged.git("commit", "--quiet", "--amend", "--message", "other")
    logged.git("reflog", "expire", "--expire=now", "--all")
    logged.git("gc", "--quiet", "--prune=now")
    found = checked(logged)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert ("policy.unreadable", "policy") in found.binding(Outcome.INCONCLUSIVE)
    allow(logged, "base")
    found = checked(logged)
    assert found.outcome is Outcome.PASS
    assert "allowed by ada" in found.warned("policy.unreadable")[0].evidence


def test_what_holds_by_both_rules_is_validated(logged: UserRepository) -> None:
    """A case fewer is no incomplete run: the line says what the candidate's own set has."""
    drop_batch(logged)
    loosen(logged)
    logged.commit("less")
    words = ["check", "--root", str(logged.root), "--report-dir", str(logged.root / "report")]
    assert run([*words, "--record", "always"]) == 0
    lines = open_log("file:release-log.jsonl", logged.root).read()
    assert [line.entry.kind.value for line in lines] == ["validated", "validated"]
    assert [(line.entry.cases_run, line.entry.cases_expected) for line in lines] == [(2, 2), (1, 1)]
    fault(logged, 1.05)
    found = checked(logged)
    assert ("output.values", "baseline→candidate") not in found.binding(Outcome.FAIL)
    assert not found.warned("policy.loosened")
