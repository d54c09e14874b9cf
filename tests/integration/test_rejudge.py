"""Stored observations judged again: the same verdict, other policies, nothing that was edited."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ci_parity.cli import run
from ci_parity.report.json_v1 import schema
from tests.support.models import save_linear, scale_initializer
from tests.support.user_repository import UserRepository, linear_repository

TOLERANCE = "tolerance: {rtol: 1.0e-3, atol: 1.0e-6}"
LOOSE = "tolerance: {rtol: 0.1, atol: 1.0e-6}"
CHECKS = "self_checks: {threads: true}"
CONFIG = f"""\
version: 1
deployment: linear
variants:
  exported: {{path: model.onnx}}
targets:
  cpu: {{runtime: "current"}}
fixtures: fixtures
contract: {{inputs: {{x: {{shape: [batch, 3]}}}}, sizes: {{batch: [1, 2]}}, batch: batch}}
policy:
  {TOLERANCE}
  latency: {{measure: false}}
  {CHECKS}
"""
Edit = Callable[[Path], None]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep observations in a cache of this test."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository of this test alone."""
    return make_repository(tmp_path / "user")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[UserRepository, Path]:
    """Return a repository whose limits hold, and its observations; nobody may change either."""
    folder = tmp_path_factory.mktemp("once")
    made = make_repository(folder / "user")
    made.replace("ci-parity.yml", TOLERANCE, LOOSE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CI_PARITY_CACHE", str(folder / "cache"))
        check(made, "--keep-observations", str(folder / "observed"))
    return made, folder / "observed"


@pytest.fixture
def observed(once: tuple[UserRepository, Path], tmp_path: Path) -> Path:
    """Return a copy of observations, to be changed."""
    copied: Path = shutil.copytree(once[1], tmp_path / "observed")
    return copied


def make_repository(root: Path) -> UserRepository:
    """Make a repository with a contract and self-checks, on a branch whose weight is off."""
    made = linear_repository(root)
    made.write("ci-parity.yml", CONFIG)
    made.commit("base")
    made.git("checkout", "--quiet", "-b", "change")
    scale_initializer(made.root / "model.onnx", made.root / "model.onnx", 1.01)
    made.commit("fault")
    return made


def check(repository: UserRepository, *arguments: str) -> tuple[int, Mapping[str, Any]]:
    """Run a check; return its exit code and its report."""
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder), *arguments])
    return code, json.loads((folder / "verdict.json").read_text(encoding="utf-8"))


def judge(repository: UserRepository, folder: Path, *arguments: str) -> tuple[int, Any]:
    """Judge a folder again; return the exit code and the report, which must fit its schema."""
    out = folder.parent / "judged.json"
    out.unlink(missing_ok=True)
    words = ["judge", str(folder), "--root", str(repository.root), "--json", str(out)]
    code = run([*words, *arguments])
    if not out.exists():
        return code, None
    report = json.loads(out.read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("check-v1"))
    return code, report


def facts(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return what a report found, without causes and nodes, which cannot be looked for again."""
    return [
        (f["id"], f["outcome"], f["subject"]["boundary"], f["subject"]["case"], f["evidence"])
        for f in report["findings"]
        if f["id"] not in {"attribution", "divergence"}
    ]


# The command.


def test_the_same_policy_says_the_same(
    repository: UserRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings, numbers and rows, contract and self-checks among them; no worker is started."""
    code, report = check(repository, "--keep-observations", str(tmp_path / "observed"))
    assert code == 1
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    again, judged = judge(repository, tmp_path / "observed")
    assert again == 1
    assert facts(judged) == facts(report)
    assert judged["outputs"] == report["outputs"]
    assert judged["rows"] == report["rows"]
    assert judged["changes"] == report["changes"]
    assert (len(report["divergences"]), judged["divergences"]) == (1, [])
    assert {"contract", "self-checks"} <= {row["boundary"] for row in judged["rows"]}
    assert any(fact[:2] == ("self.threads", "pass") for fact in facts(judged))
    assert "judged again" in judged["summary"]


def test_another_policy_says_something_else(repository: UserRepository, tmp_path: Path) -> None:
    """A hundredth is within a tenth; the observations are the same."""
    observed = tmp_path / "observed"
    assert check(repository, "--keep-observations", str(observed))[0] == 1
    text = CONFIG.replace(TOLERANCE, "tolerance: {rtol: 0.1}")
    repository.write("other.yml", text)
    code, judged = judge(repository, observed, "--config", "other.yml")
    assert code == 0
    assert {row["outcome"] for row in judged["rows"]} == {"pass"}
    repository.write("other.yml", text.replace("rtol: 0.1", "rtol: 0.001"))
    assert judge(repository, observed, "--config", "other.yml")[0] == 1


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("batch: [1, 2]", "batch: [1, 2, 7]", "contract.not_run"),
        (CHECKS, f"{CHECKS}\n  repeat: 5", "rejudge.settings"),
        (CHECKS, f"{CHECKS}\n  timeout_s: 1", "rejudge.settings"),
        (CHECKS, "self_checks: {threads: true, padding: true}", "self.padding"),
        (CHECKS, f"{CHECKS}\n  ledger: [{{key: base, who: a, why: b, until: '2001-01-01'}}]",
         "ledger.expired"),
    ],
)  # fmt: skip
def test_what_was_not_observed_is_no_pass(
    once: tuple[UserRepository, Path], before: str, after: str, kind: str
) -> None:
    """A policy that asks for more than there is has an open question."""
    repository, observed = once
    assert judge(repository, observed)[0] == 0
    text = CONFIG.replace(TOLERANCE, LOOSE)
    assert before in text
    repository.write("other.yml", text.replace(before, after))
    code, judged = judge(repository, observed, "--config", "other.yml")
    assert code in {1, 3}
    binding = {f["id"] for f in judged["findings"] if f["outcome"] != "pass" and not f["advisory"]}
    assert kind in binding


def test_another_model_is_not_taken_for_the_observed_one(
    repository: UserRepository, tmp_path: Path
) -> None:
    """The graph that the contract is about is gone: that part cannot be measured."""
    observed = tmp_path / "observed"
    repository.replace("ci-parity.yml", TOLERANCE, "tolerance: {rtol: 0.1}")
    check(repository, "--keep-observations", str(observed))
    save_linear(repository.root / "model.onnx", weight=3.0)
    code, judged = judge(repository, observed)
    assert code == 3
    assert ("contract.graph", "inconclusive") in {fact[:2] for fact in facts(judged)}


def test_calibrated_limits_come_from_the_floors_that_were_kept(
    repository: UserRepository, tmp_path: Path
) -> None:
    """The same limits as in the run, though no model can be perturbed any more."""
    repository.replace("ci-parity.yml", TOLERANCE, "tolerance: calibrated")
    code, report = check(repository, "--keep-observations", str(tmp_path / "observed"))
    assert code == 1
    shutil.rmtree(tmp_path / "cache" / "noise", ignore_errors=True)
    (repository.root / "model.onnx").unlink()
    _, judged = judge(repository, tmp_path / "observed")
    before, after = (
        [(o["case"], o["boundary"], o["rule"], o["limit"]) for o in side["outputs"]]
        for side in (report, judged)
    )
    assert after == [fact for fact in before if "baseline's policy" not in fact[1]]
    assert after
    assert all(rule.startswith("calibrated") for _, _, rule, _ in after)


def test_a_folder_with_something_else_is_not_written_over(
    repository: UserRepository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict stands; that the observations are not kept is exit 6."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years", encoding="utf-8")
    code, report = check(repository, "--keep-observations", str(tmp_path / "mine"))
    assert code == 6
    assert report["outcome"] == "fail"
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_observations_of_another_deployment_are_refused(
    once: tuple[UserRepository, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Names would pair what has nothing to do with each other."""
    repository, observed = once
    repository.write("other.yml", CONFIG.replace("deployment: linear", "deployment: other"))
    assert judge(repository, observed, "--config", "other.yml")[0] == 4
    assert "deployment 'linear', not 'other'" in capsys.readouterr().err


# Tampering.


def a_value(folder: Path) -> Path:
    """Return a file of a candidate's output."""
    return min(path for path in folder.glob("values*/*.bin") if path.name.startswith("c0_o"))


def flip(folder: Path) -> None:
    """Change one byte of a value."""
    path = a_value(folder)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.unlink()
    path.write_bytes(bytes(data))


def cut(folder: Path) -> None:
    """Shorten a value."""
    path = a_value(folder)
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-4])


def lose(folder: Path) -> None:
    """Remove a value."""
    a_value(folder).unlink()


def link(folder: Path) -> None:
    """Put a value elsewhere and a link in its place."""
    path = a_value(folder)
    path.rename(folder.parent / "elsewhere.bin")
    path.symlink_to(folder.parent / "elsewhere.bin")


def link_folder(folder: Path) -> None:
    """Put a folder elsewhere and a link in its place."""
    place = a_value(folder).parent
    place.rename(folder.parent / "elsewhere")
    place.symlink_to(folder.parent / "elsewhere")


def edited(change: Callable[[dict[str, Any]], object]) -> Edit:
    """Return an edit of the record."""

    def edit(folder: Path) -> None:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        change(record)
        (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")

    return edit


def first_output(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a value of the first observation."""
    found: dict[str, Any] = record["observations"][0]["cases"][0]["outputs"][0]
    return found


def escape_file(record: dict[str, Any]) -> None:
    """Let a listed file climb."""
    record["files"][0]["path"] = "values0/../../secret"


def escape_input(record: dict[str, Any]) -> None:
    """Let an input climb."""
    record["inputs"]["cases"][0]["inputs"][0]["file"] = "../../secret"


def escape_folder(record: dict[str, Any]) -> None:
    """Let an observation lie elsewhere."""
    record["observations"][0]["folder"] = "/etc"


def unlist(record: dict[str, Any]) -> None:
    """Leave a file there that the list does not know."""
    name = first_output(record)["file"]
    record["files"] = [file for file in record["files"] if not file["path"].endswith(name)]


@pytest.mark.parametrize(
    "edit",
    [
        flip, cut, lose, link, link_folder,
        edited(escape_file), edited(escape_input), edited(escape_folder), edited(unlist),
        edited(lambda record: record.update(version=2)),
        edited(lambda record: record.update(surprise=1)),
        edited(lambda record: record.pop("settings")),
        edited(lambda record: record["pairs"][0].update(references=99)),
        edited(lambda record: record["pairs"][0]["candidate"].update(observation=-1)),
        edited(lambda record: record["pairs"][0]["candidate"].update(options="[]")),
        edited(lambda record: record.update(settings="{}")),
        edited(lambda record: record.update(bundle="")),
        edited(lambda record: record["files"].append(record["files"][0])),
        lambda folder: (folder / "run.json").write_text("[" * 10_000, encoding="utf-8"),
        lambda folder: (folder / "run.json").unlink(),
    ],
)  # fmt: skip
def test_what_was_edited_is_refused(
    once: tuple[UserRepository, Path], observed: Path, edit: Edit,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """With exit 4 and the place: evidence that is not what was recorded is none."""
    edit(observed)
    code, judged = judge(once[0], observed)
    assert (code, judged) == (4, None)
    assert "where:" in capsys.readouterr().err


def test_a_record_that_leads_out_of_its_folder_is_no_value(
    once: tuple[UserRepository, Path], observed: Path
) -> None:
    """As a worker could have written it: the case cannot be read, and nothing is read instead."""
    (observed.parent / "secret.bin").write_bytes(b"\0" * 12)
    edited(lambda record: first_output(record).update(file="../../secret.bin"))(observed)
    code, judged = judge(once[0], observed)
    assert code in {1, 3}
    assert any("is not a plain name" in fact[-1] for fact in facts(judged))


# The check that need not run.


def runs_models(capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether progress told of a model that ran."""
    return "candidate on" in capsys.readouterr().err


def settled(repository: UserRepository) -> None:
    """Make the branch the base, and have its observations kept."""
    repository.replace("ci-parity.yml", TOLERANCE, "tolerance: {rtol: 0.05}")
    repository.commit("settled")
    repository.git("branch", "--force", "main", "HEAD")
    assert check(repository, "--force")[0] == 0


@pytest.mark.parametrize(("rtol", "code"), [("0.02", 0), ("0.001", 1)])
def test_a_changed_policy_alone_is_judged_by_stored_observations(
    repository: UserRepository, capsys: pytest.CaptureFixture[str], rtol: str, code: int
) -> None:
    """No model runs; the verdict says whose observations it rests on."""
    settled(repository)
    repository.replace("ci-parity.yml", "rtol: 0.05", f"rtol: {rtol}")
    repository.commit("policy")
    capsys.readouterr()
    found, report = check(repository)
    assert not runs_models(capsys)
    assert found == code
    assert "judged again" in report["summary"]
    assert report["ran"] is True
    again = check(repository, "--force")
    assert runs_models(capsys)
    assert again[0] == code
    assert "judged again" not in again[1]["summary"]


def test_the_guard_judges_stored_observations_too(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loosened policy is judged by the base branch's, without a run."""
    settled(repository)
    repository.replace("ci-parity.yml", "rtol: 0.05", "rtol: 0.5")
    repository.commit("policy")
    capsys.readouterr()
    code, report = check(repository)
    assert not runs_models(capsys)
    assert code == 0
    assert "policy.loosened" in {f["id"] for f in report["findings"]}
    assert any("baseline's policy" in row["boundary"] for row in report["rows"])


def more_sizes(repository: UserRepository) -> None:
    """Ask for a size that was not run."""
    repository.replace("ci-parity.yml", "batch: [1, 2]", "batch: [1, 2, 7]")


def more_repeats(repository: UserRepository) -> None:
    """Ask for more runs."""
    repository.replace("ci-parity.yml", CHECKS, f"{CHECKS}\n  repeat: 2")


def less_checked(repository: UserRepository) -> None:
    """Take a self-check back: the base branch's must run."""
    repository.replace("ci-parity.yml", CHECKS, "self_checks: {threads: false}")


def also_options(repository: UserRepository) -> None:
    """Change an option with the policy."""
    repository.replace("ci-parity.yml", "rtol: 0.05", "rtol: 0.02")
    repository.replace(
        "ci-parity.yml", 'runtime: "current"',
        'runtime: "current", session_options: {enable_mem_pattern: false}',
    )  # fmt: skip


def calibrated(repository: UserRepository) -> None:
    """Ask for limits that were not measured."""
    repository.replace("ci-parity.yml", "tolerance: {rtol: 0.05}", "tolerance: calibrated")


@pytest.mark.parametrize("edit", [more_sizes, more_repeats, less_checked, also_options, calibrated])
def test_what_stored_observations_cannot_show_is_run(
    repository: UserRepository, capsys: pytest.CaptureFixture[str],
    edit: Callable[[UserRepository], None],
) -> None:  # fmt: skip
    """A policy that changes what must be run is no matter of judging alone."""
    settled(repository)
    edit(repository)
    repository.commit("change")
    capsys.readouterr()
    _, report = check(repository)
    assert runs_models(capsys)
    assert "judged again" not in report["summary"]


def test_edited_observations_are_run_anew(
    repository: UserRepository, cache: Path, capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The cache is no evidence by itself."""
    settled(repository)
    (kept,) = (path.parent for path in (cache / "observations").glob("*/*/run.json"))
    flip(kept)
    repository.replace("ci-parity.yml", "rtol: 0.05", "rtol: 0.02")
    repository.commit("policy")
    capsys.readouterr()
    code, report = check(repository)
    assert runs_models(capsys)
    assert "not what was recorded" in caplog.text
    assert code == 0
    assert "judged again" not in report["summary"]


def test_without_references_the_version_before_is_needed(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Observations whose baseline was another one leave nothing to compare with."""
    for file in repository.root.glob("fixtures/*/output_0.pb"):
        file.unlink()
    repository.commit("no references")
    repository.git("branch", "--force", "main", "HEAD")
    scale_initializer(repository.root / "model.onnx", repository.root / "model.onnx", 1.0001)
    repository.commit("another version")
    assert check(repository)[0] == 0
    repository.git("branch", "--force", "main", "HEAD")
    repository.replace("ci-parity.yml", "rtol: 1.0e-3", "rtol: 1.0e-4")
    repository.commit("policy")
    capsys.readouterr()
    _, report = check(repository)
    assert runs_models(capsys)
    assert "judged again" not in report["summary"]
