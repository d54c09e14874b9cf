"""A chain on two targets through `ci-parity check`: what breaks at one boundary is blamed on it.

The policy is the default: no boundary has a tolerance of its own. Noise floors, and the environment
of the baseline, are kept in the test cache.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ci_parity.cli import run
from ci_parity.report.json_v1 import schema
from tests.integration.support import chain
from tests.integration.support.diff_command import environments
from tests.support.user_repository import UserRepository

pytestmark = pytest.mark.network

Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a check left behind."""

    code: int
    report: Mapping[str, Any]

    @property
    def rows(self) -> dict[Place, Mapping[str, Any]]:
        """The boundaries that were judged, by target, variant and name, in their order."""
        return {
            (row["target"], row["variant"], row["boundary"]): row
            for row in self.report["rows"]
            if row["cases_expected"]
        }

    @property
    def blamed(self) -> list[Place]:
        """The boundaries that failed on their own."""
        found = self.rows.items()
        return [at for at, row in found if row["outcome"] == "fail" and not row["inherits"]]

    @property
    def inherited(self) -> dict[Place, str]:
        """The boundaries that inherit, with where from."""
        return {at: row["inherits"] for at, row in self.rows.items() if row["inherits"]}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep environments and noise floors out of the user's own cache."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(environments()))


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return the chain on a branch off main."""
    return chain.chain_repository(tmp_path / "user")


def check(repository: UserRepository, *arguments: str) -> Result:
    """Commit what there is, run a check, and read its report."""
    repository.commit("change")
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder), *arguments])
    report = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("check-v1"))
    return Result(code=code, report=report)


def words(result: Result) -> str:
    """Return what the summary says of the first broken boundary."""
    _, _, found = result.report["summary"].partition("first broken boundary: ")
    return str(found)


def failing(result: Result) -> Iterator[Mapping[str, Any]]:
    """Yield the binding findings that failed."""
    for finding in result.report["findings"]:
        if finding["outcome"] == "fail" and not finding["advisory"]:
            yield finding


VERSION = "baseline→candidate"
WHOLE = [
    ("cpu", "exported", "source→exported"),
    ("cpu", "simplified", "exported→simplified"),
    ("cpu", "int8", "simplified→int8"),
    ("edge", "simplified", "exported→simplified"),
    ("edge", "int8", "simplified→int8"),
    *(("edge", variant, "cpu→edge") for variant in ("exported", "simplified", "int8")),
    ("edge", "exported", "source→exported"),
    *(("cpu", variant, VERSION) for variant in ("exported", "simplified", "int8")),
    *(("edge", variant, VERSION) for variant in ("exported", "simplified", "int8")),
]


def test_every_boundary_is_judged_in_its_order(repository: UserRepository) -> None:
    """However the config lists the variants; a sound chain passes at each, int8 too."""
    result = check(repository, "--force")
    assert result.code == 0
    assert list(result.rows) == WHOLE
    assert {row["outcome"] for row in result.rows.values()} == {"pass"}
    assert {(row["cases"], row["cases_expected"]) for row in result.rows.values()} == {(2, 2)}
    assert result.report["attributions"] == []


def test_a_wrong_export_is_blamed_on_the_export(repository: UserRepository) -> None:
    """What was made from it follows it faithfully, on either target."""
    chain.export(repository.root, 1.2)
    chain.simplify(repository.root)
    chain.quantize(repository.root)
    result = check(repository)
    assert result.code == 1
    assert words(result) == "cpu/exported: source→exported"
    assert result.blamed == [("cpu", "exported", "source→exported")]
    assert result.inherited == {
        ("edge", "exported", "source→exported"): "cpu/exported: source→exported",
        ("cpu", "exported", VERSION): "source→exported",
        ("cpu", "simplified", VERSION): "exported: source→exported",
        ("cpu", "int8", VERSION): "exported: source→exported",
        ("edge", "exported", VERSION): "cpu/exported: source→exported",
        ("edge", "simplified", VERSION): "cpu/exported: source→exported",
        ("edge", "int8", VERSION): "cpu/exported: source→exported",
    }
    for finding in failing(result):
        where = finding["subject"]
        place = (where["target"], where["variant"], where["boundary"])
        origin = result.inherited.get(place)
        assert finding["evidence"].startswith(f"inherits from {origin}; ") is (origin is not None)
    (cause,) = result.report["attributions"]
    assert cause["causes"] == ["model"]


def test_a_wrong_simplification_is_blamed_on_it(repository: UserRepository) -> None:
    """The variant before it is not even run again on its own account."""
    chain.simplify(repository.root, 1.2)
    chain.quantize(repository.root)
    result = check(repository)
    assert words(result) == "cpu/simplified: exported→simplified"
    assert result.blamed == [("cpu", "simplified", "exported→simplified")]
    assert set(result.inherited) == {
        ("edge", "simplified", "exported→simplified"),
        *((target, variant, VERSION) for target in ("cpu", "edge")
          for variant in ("simplified", "int8")),
    }  # fmt: skip


def test_a_wrong_quantization_is_blamed_on_it(repository: UserRepository) -> None:
    """By the noise of int8, which is what that step may bring; every other boundary passes."""
    chain.quantize(repository.root, 1.3)
    result = check(repository)
    assert words(result) == "cpu/int8: simplified→int8"
    assert result.blamed == [("cpu", "int8", "simplified→int8")]
    assert set(result.inherited) == {
        ("edge", "int8", "simplified→int8"), ("cpu", "int8", VERSION), ("edge", "int8", VERSION),
    }  # fmt: skip
    assert result.rows["edge", "int8", "cpu→edge"]["outcome"] == "pass"


def test_a_wrong_target_is_blamed_on_it(repository: UserRepository) -> None:
    """It breaks all variants alike, so that the steps between them pass there."""
    chain.write_edge(repository, 1.05)
    result = check(repository)
    assert words(result) == "edge/exported: cpu→edge"
    assert result.blamed == [("edge", "exported", "cpu→edge")]
    assert result.inherited == {
        ("edge", "simplified", "cpu→edge"): "exported: cpu→edge",
        ("edge", "int8", "cpu→edge"): "exported: cpu→edge",
        ("edge", "exported", "source→exported"): "cpu→edge",
        ("edge", "exported", VERSION): "cpu→edge",
        ("edge", "simplified", VERSION): "exported: cpu→edge",
        ("edge", "int8", VERSION): "exported: cpu→edge",
    }
    assert {cause["conclusion"] for cause in result.report["attributions"]} == {"only change"}
    assert {tuple(cause["causes"]) for cause in result.report["attributions"]} == {("runtime",)}


def test_without_references_the_version_is_blamed(repository: UserRepository) -> None:
    """Nothing else can tell; what follows it inherits."""
    chain.drop_references(repository.root)
    repository.commit("no references")
    repository.git("branch", "--force", "main", "HEAD")
    chain.export(repository.root, 1.2)
    chain.simplify(repository.root)
    chain.quantize(repository.root)
    result = check(repository)
    assert words(result) == f"cpu/exported: {VERSION}"
    assert result.blamed == [("cpu", "exported", VERSION)]
    assert result.inherited["cpu", "int8", VERSION] == f"exported: {VERSION}"
    assert result.inherited["edge", "int8", VERSION] == f"cpu/exported: {VERSION}"


def test_a_variant_that_did_not_follow_shows_the_step_back(repository: UserRepository) -> None:
    """Exported is wrong, what was made of it earlier is not: one fault, seen from both sides."""
    chain.export(repository.root, 1.2)
    result = check(repository, "--force")
    assert result.blamed == [("cpu", "exported", "source→exported")]
    assert result.inherited["cpu", "simplified", "exported→simplified"] == (
        "exported: source→exported"
    )
    assert result.rows["cpu", "simplified", VERSION]["outcome"] == "pass"


def test_a_second_fault_is_not_taken_for_the_first(repository: UserRepository) -> None:
    """A wrong export and a wrong quantization of it are two."""
    chain.export(repository.root, 1.2)
    chain.simplify(repository.root)
    chain.quantize(repository.root, 1.5)
    result = check(repository)
    assert words(result) == "cpu/exported: source→exported"
    assert ("cpu", "int8", "simplified→int8") in result.blamed
    assert ("cpu", "simplified", VERSION) in result.inherited


def test_the_quantized_variant_alone_needs_what_it_was_made_from(
    repository: UserRepository,
) -> None:
    """References of the source do not tell quantization from conversion."""
    text = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if "simplified" not in line or "int8" in line]
    lines = [line for line in lines if "exported.onnx" not in line and "edge" not in line]
    alone = "\n".join(lines).replace(", from: simplified", "")
    repository.write("ci-parity.yml", f"{alone}\n")
    repository.commit("int8 alone")
    repository.git("branch", "--force", "main", "HEAD")
    result = check(repository, "--force")
    assert result.code != 0
    assert set(result.rows) == {("cpu", "int8", "source→int8"), ("cpu", "int8", VERSION)}
    assert result.rows["cpu", "int8", "source→int8"]["outcome"] != "pass"
    (finding,) = (f for f in result.report["findings"] if f["id"] == "boundary.unquantized")
    assert (finding["outcome"], finding["advisory"]) == ("inconclusive", False)
    assert "an unquantized baseline is required" in finding["evidence"]


def test_a_target_that_runs_int8_alone_is_led_back_to_the_source(
    repository: UserRepository,
) -> None:
    """A target that breaks int8 and what it was made from alike would else pass."""
    here = "edge: {runtime"
    repository.replace("ci-parity.yml", here, "edge: {variants: [int8], runtime")
    repository.replace("ci-parity.yml", "cpu: {runtime", "cpu: {variants: [exported], runtime")
    repository.commit("int8 at the edge")
    repository.git("branch", "--force", "main", "HEAD")
    sound = check(repository, "--force")
    assert sound.code == 0
    assert ("edge", "int8", "simplified→int8") in sound.rows
    assert ("edge", "simplified", "source→simplified") in sound.rows
    chain.write_edge(repository, 1.05)
    result = check(repository)
    assert result.code == 1
    assert result.blamed == [("edge", "simplified", "source→simplified")]
    assert result.rows["edge", "int8", "simplified→int8"]["outcome"] == "pass"
