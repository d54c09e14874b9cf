from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.config.discover import find_deployment
from ci_parity.config.load import load_deployment
from ci_parity.fixtures.signature import read_signature
from ci_parity.fixtures.store import open_fixtures
from ci_parity.records.identity import Axis, Change
from ci_parity.records.places import Part, Place
from ci_parity.stages.places import with_model, with_places
from tests.support.models import save_linear
from tests.support.user_repository import UserRepository, empty_repository, linear_repository
from tests.unit.report.samples import changes, passed

CONFIG = """\
version: 1
deployment: linear
variants:
  exported:
    path: model.onnx
    converter: {requires: tools/converter.txt}
  int8: {path: int8.onnx, from: exported, optimization: quantize.yml}
targets:
  cpu:
    runtime: current
    session_options: {graph_optimization_level: disable_all}
fixtures: fixtures
policy:
  latency: {measure: false}
  outputs:
    y: {rtol: 0.1}
contract:
  opset: 17
"""


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository whose deployment lies in a folder below the top."""
    made = empty_repository(tmp_path / "user")
    below = linear_repository(made.root / "ocr")
    (below.root / ".git").rename(tmp_path / "gone")
    made.write("ocr/ci-parity.yml", CONFIG)
    made.write("ocr/quantize.yml", "per_channel: true\n")
    made.write("ocr/tools/converter.txt", "numpy==2.0.0\nskl2onnx==1.18.0\n")
    save_linear(made.root / "ocr" / "int8.onnx")
    return made


def found(root: Path, *moved: Change) -> dict[tuple[Part, str], tuple[str, int | None]]:
    """Return every place of a deployment by part and name."""
    deployment = load_deployment(root / "ci-parity.yml")
    fixtures = open_fixtures(deployment.fixtures, read_signature(root / "model.onnx"))
    verdict = with_places(passed(changes=changes(*moved)), deployment, fixtures)
    return {(p.part, p.name): (p.path, p.line) for p in verdict.places}


def test_every_part_has_its_file_from_the_top_of_the_repository(repository: UserRepository) -> None:
    """And its line, where the config says it."""
    known = found(repository.root / "ocr")
    assert known[Part.MODEL, "exported"] == ("ocr/model.onnx", None)
    assert known[Part.VARIANT, "exported"] == ("ocr/ci-parity.yml", 4)
    assert known[Part.CONVERTER, "exported"] == ("ocr/tools/converter.txt", None)
    assert known[Part.VARIANT, "int8"] == ("ocr/ci-parity.yml", 7)
    assert known[Part.OPTIMIZATION, "int8"] == ("ocr/quantize.yml", None)
    assert known[Part.TARGET, "cpu"] == ("ocr/ci-parity.yml", 9)
    assert known[Part.RUNTIME, "cpu"] == ("ocr/ci-parity.yml", 10)
    assert known[Part.OPTIONS, "cpu"] == ("ocr/ci-parity.yml", 11)
    assert known[Part.POLICY, ""] == ("ocr/ci-parity.yml", 13)
    assert known[Part.POLICY, "outputs.y.rtol"] == ("ocr/ci-parity.yml", 16)
    assert known[Part.CONTRACT, "opset"] == ("ocr/ci-parity.yml", 18)
    assert known[Part.CASE, "one"] == ("ocr/fixtures/one/input_0.pb", None)
    assert known[Part.FIXTURES, ""] == ("ocr/fixtures/fixtures.yml", None)
    assert known[Part.CONFIG, ""] == ("ocr/ci-parity.yml", None)


def test_a_changed_pin_has_its_line(repository: UserRepository) -> None:
    """As the sentence on it says; a line of another file is not taken."""
    moved = Change(
        axis=Axis.CONVERTER, target="cpu", variant="exported", before="a", after="b",
        sentences=("x 1 → 2 (other.txt:9)", "skl2onnx 1.17.0 → 1.18.0 (tools/converter.txt:2)"),
    )  # fmt: skip
    known = found(repository.root / "ocr", moved)
    assert known[Part.CONVERTER, "exported"] == ("ocr/tools/converter.txt", 2)


def test_a_runtime_that_a_lock_pins_points_at_the_lock(repository: UserRepository) -> None:
    """Which is what an update bot edits."""
    repository.write("ocr/requirements.txt", "numpy==2.0.0\nonnxruntime==1.32.0\n")
    repository.replace(
        "ocr/ci-parity.yml", "runtime: current", "runtime: {requires: requirements.txt}"
    )
    known = found(repository.root / "ocr")
    assert known[Part.RUNTIME, "cpu"] == ("ocr/requirements.txt", 2)
    assert known[Part.TARGET, "cpu"] == ("ocr/ci-parity.yml", 9)


def test_a_discovered_runtime_points_at_its_pin(tmp_path: Path) -> None:
    """There is no config that could have a line."""
    repository = linear_repository(tmp_path / "user")
    (repository.root / "ci-parity.yml").unlink()
    (repository.root / "model.onnx").rename(repository.root / "fixtures" / "model.onnx")
    repository.write("requirements.txt", "# pinned\nonnxruntime==1.32.0\n")
    deployment = find_deployment(repository.root)
    verdict = with_places(passed(), deployment)
    assert Place(part=Part.RUNTIME, name="cpu", path="requirements.txt", line=2) in verdict.places
    assert not any(place.part is Part.CONFIG for place in verdict.places)


def test_what_lies_outside_of_the_repository_is_no_place(repository: UserRepository) -> None:
    """A report cannot point at it."""
    root = repository.root / "ocr"
    deployment = load_deployment(root / "ci-parity.yml")
    outside = replace(deployment.variants[0], path=repository.root.parent / "model.onnx")
    verdict = with_places(passed(), replace(deployment, variants=(outside,)))
    assert not any(place.part is Part.MODEL for place in verdict.places)


def test_a_config_that_is_gone_costs_lines_alone(tmp_path: Path) -> None:
    """The verdict stands as it was."""
    repository = linear_repository(tmp_path / "user")
    deployment = load_deployment(repository.root / "ci-parity.yml")
    repository.write("ci-parity.yml", "targets: [")
    assert with_places(passed(), deployment) == passed()


def test_a_diff_points_at_the_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As seen from where it was asked for; a file elsewhere is none."""
    monkeypatch.chdir(tmp_path)
    (place,) = with_model(passed(), Path("models/b.onnx")).places
    assert (place.part, place.path) == (Part.MODEL, "models/b.onnx")
    assert with_model(passed(), tmp_path.parent / "b.onnx").places == ()
