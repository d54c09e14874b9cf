"""`ci-parity check` on real git histories, with the onnxruntime at hand: the whole path."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest

from ci_parity.cli import run
from ci_parity.release.store import open_log
from ci_parity.report.json_v1 import schema
from tests.support.models import save_linear, scale_initializer
from tests.support.user_repository import UserRepository, empty_repository, linear_repository
from tests.unit.release.keys import private_pem, write_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a check left behind."""

    code: int
    report: Mapping[str, Any]

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """The rows of two sides; what is judged of the candidate alone has tests of its own."""
        return [row for row in self.report["rows"] if row["boundary"] != "self-checks"]

    def ids(self, outcome: str) -> set[str]:
        """Return the kinds of binding findings with an outcome."""
        return {
            finding["id"]
            for finding in self.report["findings"]
            if finding["outcome"] == outcome and not finding["advisory"]
        }


def check(repository: UserRepository, *arguments: str) -> Result:
    """Run a check in a repository and read its report, which must fit the published schema."""
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder), *arguments])
    report = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("check-v1"))
    return Result(code=code, report=report)


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository with one validated-looking deployment and a branch off main."""
    made = linear_repository(tmp_path / "user")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def without_log(repository: UserRepository) -> None:
    """Take the release log out of the config, at the base too."""
    text = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    repository.write("ci-parity.yml", text.partition("release:")[0])
    repository.commit("no log")
    repository.git("branch", "--force", "main", "HEAD")


def test_nothing_changed_runs_nothing(repository: UserRepository) -> None:
    """A change that touches no model, runtime, option, fixture or policy runs no model."""
    without_log(repository)
    repository.write("README.md", "words")
    repository.commit("words")
    result = check(repository)
    assert result.code == 0
    assert result.report["ran"] is False
    assert result.report["findings"] == []


def test_with_a_log_only_what_it_validates_is_left_out(repository: UserRepository) -> None:
    """A base commit that was never validated is no evidence, however little has changed since."""
    repository.write("README.md", "words")
    repository.commit("words")
    result = check(repository)
    assert result.report["ran"] is True
    assert "no validated line" in result.report["changes"]["source"]["reason"]


def test_a_pair_that_did_not_run_is_shown_as_such(repository: UserRepository) -> None:
    """A target that nothing concerns keeps its row, marked as not run, in table and headline."""
    without_log(repository)
    two = 'cpu: {runtime: "current"}\n  other: {runtime: "current"}'
    repository.replace("ci-parity.yml", 'cpu: {runtime: "current"}', two)
    repository.commit("two targets")
    repository.git("branch", "--force", "main", "HEAD")
    option = 'other: {runtime: "current", session_options: {enable_mem_pattern: false}}'
    repository.replace("ci-parity.yml", 'other: {runtime: "current"}', option)
    repository.commit("one of them")
    result = check(repository)
    assert result.code == 0
    ran = {row["target"]: row["cases_expected"] for row in result.rows}
    assert ran == {"other": 2, "cpu": 0}
    comment = (repository.root / "ci-parity-report" / "comment.md").read_text(encoding="utf-8")
    assert "1 unchanged and not run" in comment.splitlines()[0]
    assert "| ⏭️ | `cpu` |" in comment


def test_an_option_change_is_run_and_explained(repository: UserRepository) -> None:
    """A session option is named before and after, and the verdict rests on both boundaries."""
    repository.replace(
        "ci-parity.yml",
        'cpu: {runtime: "current"}',
        'cpu: {runtime: "current", session_options: {graph_optimization_level: disable_all}}',
    )
    repository.commit("option")
    result = check(repository)
    assert result.code == 0
    (change,) = result.report["changes"]["changes"]
    assert (change["axis"], change["before"], change["after"]) == (
        "optimization",
        "graph_optimization_level=(default)",
        "graph_optimization_level=disable_all",
    )
    assert {row["boundary"] for row in result.rows} == {
        "source→exported",
        "baseline→candidate",
    }


def test_a_changed_weight_fails_at_both_boundaries(repository: UserRepository) -> None:
    """One per cent on the only weight is a failure against the source and the baseline."""
    model = repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    repository.commit("fault")
    result = check(repository)
    assert result.code == 1
    assert result.ids("fail") == {"output.values"}
    assert {row["outcome"] for row in result.rows} == {"fail"}
    assert [change["axis"] for change in result.report["changes"]["changes"]] == ["model"]
    worst = max(result.report["outputs"], key=lambda output: output["required"])
    assert (worst["unit"], worst["required"] > 1000 * worst["limit"]) == ("x noise", True)
    assert worst["rel_to_scale"] == pytest.approx(0.01, rel=0.25)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [(("z",), {"output.missing", "output.extra"}), (("y", "z"), {"output.extra"})],
    ids=["renamed", "extra"],
)
def test_outputs_that_are_not_the_baselines_fail(
    repository: UserRepository, outputs: tuple[str, ...], expected: set[str]
) -> None:
    """A renamed or added output is never paired by its place, at either boundary."""
    save_linear(repository.root / "model.onnx", outputs=outputs)
    repository.commit("outputs")
    result = check(repository)
    assert result.code == 1
    assert result.ids("fail") == expected
    assert all(row["outcome"] != "pass" for row in result.rows)


def test_a_changed_element_type_fails(repository: UserRepository) -> None:
    """The same numbers in float64 are another output."""
    path = repository.root / "model.onnx"
    model = onnx.load(path)
    model.graph.node[0].output[0] = "raw"
    model.graph.node.append(onnx.helper.make_node("Cast", ["raw"], ["y"], to=11))
    model.graph.output[0].type.tensor_type.elem_type = 11
    onnx.save(model, path)
    repository.commit("float64")
    result = check(repository)
    assert result.code == 1
    assert result.ids("fail") == {"output.dtype"}


def test_no_references_and_no_baseline_is_inconclusive(tmp_path: Path) -> None:
    """A run that compared nothing is not a pass."""
    repository = linear_repository(tmp_path / "user")
    for file in repository.root.glob("fixtures/*/output_*.pb"):
        file.unlink()
    repository.git("checkout", "--quiet", "--orphan", "other")
    repository.commit("orphan")
    repository.git("branch", "--quiet", "-D", "main")
    result = check(repository)
    assert result.code == 3
    assert result.ids("inconclusive") == {"compared.nothing"}


def test_a_reference_that_one_case_lacks_is_inconclusive(repository: UserRepository) -> None:
    """Some references missing is not measured for those cases, not a pass."""
    (repository.root / "fixtures" / "one" / "output_0.pb").unlink()
    repository.commit("lost reference")
    result = check(repository)
    assert result.code == 3
    assert result.ids("inconclusive") == {"baseline.case"}


def test_an_unknown_base_commit_is_inconclusive_and_says_how_to_get_it(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A baseline that exists somewhere but cannot be read leaves the question open."""
    repository.write("README.md", "words")
    repository.commit("words")
    result = check(repository, "--base", "1" * 40)
    assert result.code == 3
    assert result.ids("inconclusive") == {"baseline.unavailable"}
    assert "fetch-depth: 0" in capsys.readouterr().out


def test_the_first_deployment_is_judged_by_its_references(tmp_path: Path) -> None:
    """Where the base commit has no deployment, the references decide, and the report says so."""
    repository = empty_repository(tmp_path / "user")
    repository.write("README.md", "words")
    base = repository.commit("before")
    linear_repository(repository.root)
    result = check(repository, "--base", base)
    assert result.code == 0
    assert "no deployment" in result.report["changes"]["source"]["reason"]


def test_a_shallow_clone_fetches_its_baseline(repository: UserRepository, tmp_path: Path) -> None:
    """A checkout of depth one gets the base commit from the remote; its own .git is left alone."""
    base = repository.git("rev-parse", "main")
    repository.replace("ci-parity.yml", "measure: false", "measure: false, sessions: 2")
    repository.commit("policy")
    shallow = UserRepository(root=tmp_path / "shallow")
    url = f"file://{repository.root}"
    repository.git("clone", "--quiet", "--depth=1", "-b", "change", url, str(shallow.root))
    before = sorted(str(path) for path in (shallow.root / ".git").rglob("*"))
    result = check(shallow, "--base", base)
    assert result.code == 0
    assert result.report["changes"]["source"]["commit"] == base
    assert [change["axis"] for change in result.report["changes"]["changes"]] == ["policy"]
    assert sorted(str(path) for path in (shallow.root / ".git").rglob("*")) == before


def test_the_release_log_is_the_baseline_once_it_has_a_validated_line(
    repository: UserRepository,
) -> None:
    """A validated line makes the next run compare with it; a fault adds a blocked line only."""
    assert check(repository, "--force", "--record", "always").code == 0
    unchanged = check(repository, "--record", "always")
    assert unchanged.report["ran"] is False
    assert unchanged.report["changes"]["source"]["kind"] == "log"
    model = repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    repository.commit("fault")
    failed = check(repository, "--record", "always")
    assert failed.code == 1
    assert {row["boundary"] for row in failed.rows} == {
        "source→exported",
        "baseline→candidate",
    }
    lines = open_log("file:release-log.jsonl", repository.root).read()
    assert [line.entry.kind.value for line in lines] == ["validated", "blocked"]
    assert lines[0].entry.bundle != lines[1].entry.bundle
    assert run(["log", "verify", "--checkpoint", "none", "--root", str(repository.root)]) == 0


def test_a_run_with_a_signing_key_signs_the_log(
    repository: UserRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key comes from the environment; the line that the run wrote is covered."""
    monkeypatch.setenv("CI_PARITY_SIGNING_KEY", private_pem().decode())
    assert check(repository, "--force", "--record", "always").code == 0
    words = ["log", "verify", "--checkpoint", "none", "--root", str(repository.root)]
    assert run([*words, "--key", str(write_keys(tmp_path)[1])]) == 0
    assert run([*words, "--key", str(write_keys(tmp_path, "other")[1])]) == 3


def test_an_edited_log_is_no_baseline(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that does not verify ends the run with exit 4: its evidence cannot be trusted."""
    for _ in range(2):
        assert check(repository, "--force", "--record", "always").code == 0
    log = repository.root / "release-log.jsonl"
    first, second = log.read_text().splitlines(keepends=True)
    log.write_text(first.replace('"expected":2', '"expected":3') + second)
    code = run(["check", "--root", str(repository.root)])
    assert code == 4
    assert "release-log.jsonl" in capsys.readouterr().err


def test_without_a_config_the_test_layout_is_found(tmp_path: Path) -> None:
    """A model beside test_data_set_* folders is a deployment without a line of configuration."""
    repository = linear_repository(tmp_path / "user")
    (repository.root / "ci-parity.yml").unlink()
    folder = repository.root / "models" / "linear"
    folder.mkdir(parents=True)
    (repository.root / "model.onnx").rename(folder / "model.onnx")
    for number, case in enumerate(("one", "batch")):
        (repository.root / "fixtures" / case).rename(folder / f"test_data_set_{number}")
    (repository.root / "fixtures" / "fixtures.yml").unlink()
    repository.commit("layout")
    result = check(repository, "--force")
    assert result.code == 0
    assert result.report["deployment"] == "linear"
    assert result.report["inputs"] == {"source": "fixtures", "count": 2}


def test_external_data_belongs_to_the_artifact(repository: UserRepository) -> None:
    """One byte of an external data file changes the bundle digest and fails parity."""
    path = repository.root / "model.onnx"
    model = onnx.load(path)
    weight = onnx.numpy_helper.from_array(np.full(3, 2.0, np.float32), "w")
    model.graph.initializer[0].CopyFrom(weight)
    onnx.save_model(
        model, path, save_as_external_data=True, location="model.data", size_threshold=0
    )
    repository.commit("external")
    good = check(repository, "--force")
    data = repository.root / "model.data"
    data.write_bytes(np.array([2.0, 2.0, 2.5], np.float32).tobytes())
    repository.commit("one weight")
    bad = check(repository, "--force")
    assert (good.code, bad.code) == (0, 1)
    assert good.report["bundle_digest"] != bad.report["bundle_digest"]
