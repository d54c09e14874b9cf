"""From an application's picture to the tensor: rebuilt before any model runs, and told apart."""

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml
from jsonschema import Draft202012Validator

from ci_parity.base.errors import ConfigError
from ci_parity.base.progress import SilentProgress
from ci_parity.cli import run
from ci_parity.fixtures.signature import read_signature
from ci_parity.fixtures.store import open_fixtures
from ci_parity.pipeline import CheckOptions, check, detect
from ci_parity.records.finding import Finding
from ci_parity.records.identity import Axis
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.json_v1 import schema
from ci_parity.report.markdown import comment
from ci_parity.stages.shortcut import unchanged_by_git
from tests.support.models import scale_initializer
from tests.support.shapes import shapes_repository
from tests.support.user_repository import UserRepository, empty_repository

ENTRY = """\
import io

import numpy as np
from PIL import Image

import colours


def make(inputs):
    print("words of the user's own")
    picture = Image.open(io.BytesIO(inputs["raw"].tobytes())).convert("RGB")
    pixels = np.asarray(picture.resize((16, 16)), np.float32) / 255
    return {"pixels": (pixels - colours.MEAN).transpose(2, 0, 1)[None]}
"""


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return the shapes, committed."""
    return shapes_repository(tmp_path / "user")


def checked(repository: UserRepository, *, force: bool = True) -> Verdict:
    """Check a work tree."""
    return check(CheckOptions(root=repository.root, force=force), SilentProgress()).verdict


def rebuilt(verdict: Verdict) -> dict[str, Finding]:
    """Return what is said of each case's raw input."""
    return {f.subject.case: f for f in verdict.findings if f.id == "preprocess.rebuilt"}


def listed(repository: UserRepository, case: str, **changes: object) -> None:
    """Change what fixtures.yml says of a case."""
    path = repository.root / "fixtures.yml"
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    (entry,) = (entry for entry in value["cases"] if entry["name"] == case)
    entry.update(changes)
    path.write_text(yaml.safe_dump(value), encoding="utf-8")


def with_entry(repository: UserRepository, text: str = ENTRY) -> None:
    """Let a function of the repository be the pipeline, and store what it makes of one picture."""
    for case in ("turned", "batch", "blank"):
        listed(repository, case, raw=None)
    path = repository.root / "fixtures.yml"
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    value["cases"] = [{k: v for k, v in c.items() if v is not None} for c in value["cases"]]
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    repository.write("tools/prepare.py", text)
    repository.write("tools/colours.py", "MEAN = 0.5\n")
    repository.write("preprocess.yml", "version: 1\nentry: {call: 'tools/prepare.py:make'}\n")


def test_every_case_with_a_raw_file_is_rebuilt(repository: UserRepository) -> None:
    """PNG, a JPEG that lies on its side, a batch of four files, a white wall: all to the bit."""
    found = checked(repository)
    assert found.outcome is Outcome.PASS
    assert {case: f.outcome for case, f in rebuilt(found).items()} == dict.fromkeys(
        ("typical", "turned", "batch", "blank"), Outcome.PASS
    )


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ("channels: RGB", "channels: BGR", "RGB instead of BGR"),
        ("bicubic", "bilinear", "bicubic instead of bilinear"),
        ("exif: true", "exif: false", "EXIF"),
    ],
)
def test_another_representation_is_named_before_the_model(
    repository: UserRepository, before: str, after: str, cause: str
) -> None:
    """The stored tensors are what another pipeline gives; the model itself holds its references."""
    repository.replace("preprocess.yml", before, after)
    found = checked(repository)
    said = rebuilt(found)["turned"]
    assert found.outcome is Outcome.FAIL
    assert said.outcome is Outcome.FAIL
    assert said.evidence.startswith("before any model ran: ")
    assert cause in said.evidence
    assert all(f.outcome is Outcome.PASS for f in found.findings if f.id == "output.values")
    text = comment(found)[0]
    assert "first at preprocessing, before any model ran" in text.splitlines()[0]
    assert text.index("Wrong before any model ran") < text.index("What changed")


def test_a_wrong_model_is_told_apart_from_a_wrong_representation(
    repository: UserRepository,
) -> None:
    """What was fed is right: the failure is the model's."""
    model = repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    found = checked(repository)
    assert found.outcome is Outcome.FAIL
    assert {f.outcome for f in rebuilt(found).values()} == {Outcome.PASS}
    assert "Wrong before any model ran" not in comment(found)[0]


def test_a_changed_pipeline_is_an_axis_of_its_own(repository: UserRepository) -> None:
    """It is explained, and every pair runs for it; comments in its file change nothing."""
    _, changes = detect(CheckOptions(root=repository.root))
    assert not changes.must_run
    repository.replace("preprocess.yml", "version: 1", "# words\nversion:   1")
    assert not detect(CheckOptions(root=repository.root))[1].must_run
    repository.replace("preprocess.yml", "bicubic", "bilinear")
    _, changes = detect(CheckOptions(root=repository.root))
    (change,) = changes.changes
    assert change.axis is Axis.PREPROCESSING
    assert change.sentences == ("resize filter (step 1): bicubic became bilinear",)
    assert changes.must_run


def test_a_changed_picture_is_a_changed_fixture_set(repository: UserRepository) -> None:
    """Its bytes are part of the set's digest, so the case runs again and no longer fits."""
    data = (repository.root / "blank" / "wall.png").read_bytes()
    (repository.root / "typical" / "photo.png").write_bytes(data)
    found = checked(repository, force=False)
    assert found.changes is not None
    assert {change.axis for change in found.changes.changes} == {Axis.FIXTURES}
    assert rebuilt(found)["typical"].outcome is Outcome.FAIL


def test_raw_files_without_a_pipeline_are_an_open_question(repository: UserRepository) -> None:
    """Taking the key out of the config does not take the check away."""
    repository.replace("ci-parity.yml", "preprocess: preprocess.yml\n", "")
    found = checked(repository)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "names no pipeline" in rebuilt(found)["typical"].evidence


@pytest.mark.parametrize("data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_a_picture_that_cannot_be_decoded_is_inconclusive(
    repository: UserRepository, data: bytes
) -> None:
    """Nothing was measured, which is no pass."""
    (repository.root / "typical" / "photo.png").write_bytes(data)
    found = checked(repository)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert rebuilt(found)["typical"].outcome is Outcome.INCONCLUSIVE


def test_a_bomb_is_refused_by_its_size(repository: UserRepository) -> None:
    """A picture of 10^9 pixels in a few bytes costs nothing and proves nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check_sum = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + check_sum

    header = (40_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99))
    (repository.root / "typical" / "photo.png").write_bytes(bomb + chunk(b"IEND", b""))
    said = rebuilt(checked(repository))["typical"]
    assert said.outcome is Outcome.INCONCLUSIVE
    assert "could not be rebuilt" in said.evidence


@pytest.mark.parametrize(
    "raw",
    [
        "../batch/red-circle.png", "/etc/hostname", "a/../../x", ".hidden", "C:\\x", "", [], {},
        "gone.png",
    ],
)  # fmt: skip
def test_a_raw_path_cannot_leave_its_case(repository: UserRepository, raw: object) -> None:
    """Whatever fixtures.yml says."""
    listed(repository, "typical", raw=raw)
    assert run(["check", "--root", str(repository.root), "--force"]) == 4


def test_a_raw_link_cannot_leave_its_case(repository: UserRepository) -> None:
    """Not even for another case of the set."""
    place = repository.root / "typical" / "photo.png"
    place.unlink()
    place.symlink_to("../batch/red-circle.png")
    assert run(["check", "--root", str(repository.root), "--force"]) == 4


def test_a_raw_pipe_is_no_file(repository: UserRepository) -> None:
    """Nobody waits for what would be written to it."""
    place = repository.root / "typical" / "photo.png"
    place.unlink()
    os.mkfifo(place)
    assert run(["check", "--root", str(repository.root), "--force"]) == 4


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nimage: {input: pixels, sharpen: true}\n",
        "version: 1\ntext: {tokenizer: ../../tokenizer.json}\n",
        "version: 1\nentry: {call: '../../x.py:make'}\n",
        "version: 1\nentry: {call: 'os:system'}\n",
        "version: 1\n",
        "[]",
    ],
)
def test_a_wrong_pipeline_is_a_config_error(repository: UserRepository, text: str) -> None:
    """Unknown keys, files outside, no kind at all: exit code 2, and nothing runs."""
    repository.write("preprocess.yml", text)
    with pytest.raises(ConfigError):
        checked(repository)


def test_rows_must_be_as_many_as_raw_files(repository: UserRepository) -> None:
    """A batch of four rows that three files are listed for is none of theirs."""
    names = ["red-circle.png", "green-square.png", "blue-triangle.png"]
    listed(repository, "batch", raw=names)
    said = rebuilt(checked(repository))["batch"]
    assert said.outcome is Outcome.FAIL
    assert "3 raw files" in said.evidence


def test_a_raw_file_can_be_for_one_input(repository: UserRepository) -> None:
    """By its name; an input that is not stored is a finding."""
    listed(repository, "typical", raw={"pixels": "photo.png"})
    listed(repository, "blank", raw={"other": "wall.png"})
    said = rebuilt(checked(repository))
    assert said["typical"].outcome is Outcome.PASS
    assert said["typical"].subject.output == ""
    assert said["blank"].outcome is Outcome.FAIL
    assert "'other'" in said["blank"].evidence


def test_an_entry_point_runs_in_a_copy_and_a_process_of_its_own(
    repository: UserRepository,
) -> None:
    """What it prints is no answer of ours; the tensor that it makes is held against the stored."""
    with_entry(repository)
    said = rebuilt(checked(repository))
    assert list(said) == ["typical"]
    assert said["typical"].outcome is Outcome.FAIL
    added = ["fixtures", "add", "own", "--raw", str(repository.root / "typical" / "photo.png")]
    assert run([*added, "--snapshot", "--root", str(repository.root)]) == 0
    assert rebuilt(checked(repository))["own"].outcome is Outcome.PASS


def test_what_an_entry_point_imports_is_part_of_the_pipeline(repository: UserRepository) -> None:
    """An edit of a module beside it is a change of preprocessing, and travels in the bundle."""
    with_entry(repository)
    repository.commit("entry")
    repository.write("tools/colours.py", "MEAN = 0.25\n")
    _, changes = detect(CheckOptions(root=repository.root))
    (change,) = changes.changes
    assert change.axis is Axis.PREPROCESSING
    assert any("tools/colours.py" in sentence for sentence in change.sentences)
    out = repository.root.parent / "b"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    roles = {f["path"]: f["role"] for f in json.loads((out / "bundle.json").read_text())["files"]}
    assert roles["tools/colours.py"] == roles["tools/prepare.py"] == "preprocess"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("while True: pass", "no answer"),
        ("import os; os._exit(3)", "no answer"),
        ("raise ValueError('broken')", "broken"),
        ("return [inputs['raw']]", "no mapping"),
        ("return {'pixels': object()}", "could not be rebuilt"),
        ("return {'pixels': 'text'}", ""),
    ],
)
def test_an_entry_point_that_misbehaves_is_no_pass(
    repository: UserRepository, body: str, said: str
) -> None:
    """It hangs, dies, fails or returns what is no tensor: the run goes on, and says so."""
    with_entry(repository, f"import colours\n\ndef make(inputs):\n    {body}\n")
    repository.replace("ci-parity.yml", "policy:", "policy:\n  timeout_s: 3")
    found = checked(repository)
    assert found.outcome is not Outcome.PASS
    assert said in rebuilt(found)["typical"].evidence


def test_an_entry_point_writes_into_its_copy_alone(
    repository: UserRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model that runs is the one that was verified; secrets are not in its environment."""
    body = (
        "import os, pathlib\n    here = pathlib.Path.cwd()\n"
        "    for name in ('model.onnx', 'written.txt'):\n"
        "        (here / name).write_text('x')\n"
        "    raise ValueError(str('SECRET_TOKEN' in os.environ))"
    )
    with_entry(repository, f"import colours\n\ndef make(inputs):\n    {body}\n")
    out = repository.root.parent / "b.tar"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    report = repository.root.parent / "v.json"
    assert run(["bundle", "validate", str(out), "--json", str(report)]) == 3
    document = json.loads(report.read_text(encoding="utf-8"))
    (finding,) = (f for f in document["findings"] if f["id"] == "preprocess.rebuilt")
    assert "False" in finding["evidence"]
    assert all(f["outcome"] == "pass" for f in document["findings"] if f is not finding)
    assert not (repository.root / "written.txt").exists()


def test_a_pipeline_travels_in_the_bundle(repository: UserRepository) -> None:
    """With its role; another pipeline makes another bundle, and both validate on their own."""
    out = repository.root.parent / "b"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    said = json.loads((out / "bundle.json").read_text(encoding="utf-8"))
    roles = {file["path"]: file["role"] for file in said["files"]}
    assert roles["preprocess.yml"] == "preprocess"
    assert roles["typical/photo.png"] == "fixtures"
    assert run(["bundle", "validate", str(out)]) == 0


def test_a_forged_pipeline_in_a_bundle_is_refused(repository: UserRepository) -> None:
    """Rewritten with a manifest that fits, it still cannot name a file outside of the bundle."""
    secret = repository.root.parent / "tokenizer.json"
    secret.write_text("{}", encoding="utf-8")
    out = repository.root.parent / "b"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    (out / "preprocess.yml").write_text(
        f"version: 1\ntext: {{tokenizer: '{secret}'}}\n", encoding="utf-8"
    )
    assert run(["bundle", "validate", str(out)]) == 4
    (out / "bundle.json").unlink()
    (out / "BUNDLE.md").unlink()
    again = repository.root.parent / "c"
    assert run(["bundle", "build", "--root", str(out), "--out", str(again)]) == 2


def test_a_case_is_made_of_a_picture(repository: UserRepository) -> None:
    """The raw file, the tensor, the references: one command, and the case is rebuilt ever after."""
    photo = repository.root.parent / "input_0.pb.png"
    photo.write_bytes((repository.root / "batch" / "yellow-cross.png").read_bytes())
    words = ["fixtures", "add", "mine", "--raw", str(photo), "--class", "typical", "--snapshot"]
    assert run([*words, "--root", str(repository.root)]) == 0
    signature = read_signature(repository.root / "model.onnx")
    (case,) = (c for c in open_fixtures(repository.root, signature).cases if c.name == "mine")
    assert [file.name for file in case.raw["*"]] == ["raw_input_0.pb.png"]
    assert case.snapshot
    (stored,) = case.input_files
    assert onnx.load_tensor(stored).name == "pixels"
    found = checked(repository)
    assert rebuilt(found)["mine"].outcome is Outcome.PASS
    assert run([*words, "--root", str(repository.root)]) == 4


def test_one_target_is_judged_alone(repository: UserRepository) -> None:
    """A device validates what is its own; the digest is that of the whole bundle."""
    path = repository.root / "ci-parity.yml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["targets"]["far"] = {"runtime": {"command": ["./not-built-here"]}}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    repository.write("not-built-here", "")
    out = repository.root.parent / "b.tar"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    report = repository.root.parent / "v.json"
    words = ["bundle", "validate", str(out), "--json", str(report)]
    assert run([*words, "--target", "cpu"]) == 0
    said = json.loads(report.read_text(encoding="utf-8"))
    assert {row["target"] for row in said["rows"]} == {"cpu"}
    assert run([*words, "--target", "cup"]) == 2
    assert run(words) != 0


def explained(repository: UserRepository, case: str, code: int) -> dict[str, Any]:
    """Build a bundle, explain a case of it, and return the JSON, valid under its schema."""
    out = repository.root.parent / f"{case}.tar"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    report = out.with_suffix(".json")
    assert run(["bundle", "explain", str(out), case, "--json", str(report)]) == code
    document: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    assert not list(Draft202012Validator(schema("explain-v1")).iter_errors(document))
    return document


def test_a_case_is_explained_from_picture_to_label(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Raw file, steps, both tensors, the system that ran, limit, decision by name, policy line."""
    said = explained(repository, "typical", 0)
    (raw,) = said["raws"]
    assert [step["name"] for step in raw["steps"]] == [
        "decode", "resize", "crop", "scale", "normalise", "layout", "tensor",
    ]  # fmt: skip
    assert raw["diagnosis"]["match"] == "equal"
    (ran,) = said["runs"]
    assert ran["system"].startswith("onnxruntime ")
    assert ran["providers_used"] == ["CPUExecutionProvider"]
    (output,) = ran["outputs"]
    assert output["expected"]["shape"] == output["here"]["shape"] == [1, 4]
    assert output["unit"] == "x noise"
    assert output["rule"].startswith("calibrated")
    decision = next(d for d in ran["decisions"] if d["kind"] == "top_k")
    assert decision["here"][0]["name"] == "red circle"
    assert decision["policy"].startswith("ci-parity.yml:")
    text = capsys.readouterr().out
    assert "1. What the application got" in text
    assert "5. Verdict: ✅ pass" in text


def test_what_is_wrong_with_a_case_is_explained_where_it_is(repository: UserRepository) -> None:
    """A wrong pipeline is seen at its step, a wrong model behind it."""
    repository.replace("preprocess.yml", "bicubic", "bilinear")
    said = explained(repository, "typical", 1)
    assert said["fed"] == "fail"
    assert "bicubic" in said["raws"][0]["diagnosis"]["causes"][0]["words"]
    assert said["runs"][0]["outputs"][0]["outcome"] == "pass"
    repository.replace("preprocess.yml", "bilinear", "bicubic")
    model = repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    said = explained(repository, "turned", 1)
    assert said["fed"] == "pass"
    assert said["runs"][0]["outputs"][0]["outcome"] == "fail"


def test_a_case_or_target_that_is_not_there_is_named(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the one that was probably meant."""
    out = repository.root.parent / "b.tar"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    assert run(["bundle", "explain", str(out), "typcal"]) == 4
    assert "did you mean 'typical'?" in capsys.readouterr().err
    assert run(["bundle", "explain", str(out), "typical", "--target", "gpu"]) == 2


def test_a_run_that_has_nothing_to_do_rebuilds_nothing(
    repository: UserRepository, tmp_path: Path
) -> None:
    """Git vouches for pipeline and pictures; the manifest is the full path's all the same."""
    outer = empty_repository(tmp_path / "outer")
    inside = outer.root / "deployment"
    shutil.copytree(repository.root, inside, ignore=shutil.ignore_patterns(".git"))
    repository = UserRepository(root=inside)
    decisions = "  decisions:\n    scores: {top_k: {k: 1, labels: labels.txt}}\n"
    repository.replace("ci-parity.yml", decisions, "")
    repository.commit("no decisions, whose files git is not asked about")
    repository.git("checkout", "--quiet", "-b", "change")
    outer.write("README.md", "words")
    repository.commit("words")
    found = unchanged_by_git(repository.root, "", "")
    assert found is not None
    assert rebuilt(found[0]) == {}
    full = check(CheckOptions(root=repository.root), SilentProgress())
    assert found[1] == full.manifest
    repository.replace("preprocess.yml", "bicubic", "bilinear")
    assert unchanged_by_git(repository.root, "", "") is None
    repository.replace("preprocess.yml", "bilinear", "bicubic")
    with_entry(repository)
    repository.commit("entry")
    assert unchanged_by_git(repository.root, "", "HEAD") is None
