"""`ci-parity bundle` on real repositories: built, verified, unpacked and judged elsewhere."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import yaml

from ci_parity.base.digest import sha256_bytes
from ci_parity.cli import run
from ci_parity.config.discover import find_deployment
from ci_parity.release.store import open_log
from tests.support.models import save_linear, scale_initializer
from tests.support.user_repository import (
    DIGITS,
    PROJECT,
    UserRepository,
    linear_repository,
)

LICENCE = "MIT Licence, as it were"


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a deployment with a licence, a lock, labels, a judge and a raw input."""
    made = linear_repository(tmp_path / "user")
    made.write("LICENSE", LICENCE)
    made.write("labels.txt", "a\nb\nc\n")
    made.write("tools/judge.py", "import helper\n\ndef judge(case):\n    return helper.good\n")
    made.write("tools/helper.py", "good = []\n")
    made.write("quantize.yml", "bits: 8\n")
    made.write("fixtures/one/raw.txt", "what the application got\n")
    made.write("tools.lock", "-r more.lock\nonnx==1.19.0\n")
    made.write("more.lock", "numpy==2.1.0\n")
    config = yaml.safe_load((made.root / "ci-parity.yml").read_text())
    config["variants"]["exported"]["optimization"] = {
        "recipe": "quantize.yml", "requires": "tools.lock",
    }  # fmt: skip
    config["policy"]["decisions"] = {"y": {"top_k": {"k": 1, "labels": "labels.txt"}}}
    made.write("ci-parity.yml", yaml.safe_dump(config))
    made.commit("more")
    return made


def build(repository: UserRepository, name: str = "b.tar") -> Path:
    """Build the bundle beside the repository."""
    out = repository.root.parent / name
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 0
    return out


def manifest(folder: Path) -> dict[str, str]:
    """Return the role of each file of a bundle in a folder."""
    said = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    return {file["path"]: file["role"] for file in said["files"]}


def test_everything_that_gives_the_model_its_meaning_is_in_it(repository: UserRepository) -> None:
    """Each file under its role; what belongs to the repository alone stays there."""
    assert manifest(build(repository, "b")) == {
        "LICENSE": "licence",
        "ci-parity.yml": "config",
        "fixtures/batch/input_0.pb": "fixtures",
        "fixtures/batch/output_0.pb": "references",
        "fixtures/fixtures.yml": "fixtures",
        "fixtures/one/input_0.pb": "fixtures",
        "fixtures/one/output_0.pb": "references",
        "fixtures/one/raw.txt": "fixtures",
        "labels.txt": "labels",
        "model.onnx": "graph",
        "more.lock": "lock",
        "quantize.yml": "config",
        "tools.lock": "lock",
    }


def test_a_judge_brings_what_it_imports(repository: UserRepository) -> None:
    """The script and its neighbour."""
    config = yaml.safe_load((repository.root / "ci-parity.yml").read_text())
    config["policy"]["decisions"] = {"all": {"judge": {"entry": "tools/judge.py:judge"}}}
    repository.write("ci-parity.yml", yaml.safe_dump(config))
    roles = manifest(build(repository, "b"))
    assert [name for name, role in roles.items() if role == "judge"] == [
        "tools/helper.py", "tools/judge.py",
    ]  # fmt: skip


def test_the_log_report_and_bundle_name_one_digest(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `check` records is what `build` makes of the same state."""
    report = repository.root / "ci-parity-report"
    words = ["--root", str(repository.root), "--report-dir", str(report), "--record", "always"]
    assert run(["check", *words]) == 0
    digest = open_log("file:release-log.jsonl", repository.root).read()[-1].entry.bundle
    capsys.readouterr()
    out = build(repository)
    assert f"sha256:{digest}" in capsys.readouterr().out
    assert sha256_bytes((report / "bundle.json").read_bytes()) == digest
    assert run(["bundle", "verify", str(out), "--digest", f"sha256:{digest}"]) == 0


def test_a_stranger_verifies_unpacks_and_judges_it(repository: UserRepository) -> None:
    """In another place, without the repository; the unpacked state is the same bundle."""
    out = build(repository)
    shutil.rmtree(repository.root)
    copy = out.parent / "copy"
    assert run(["bundle", "verify", str(out)]) == 0
    assert run(["bundle", "extract", str(out), "--out", str(copy)]) == 0
    report = out.parent / "v.json"
    assert run(["bundle", "validate", str(out), "--json", str(report)]) == 0
    said = json.loads(report.read_text())
    assert (said["outcome"], said["ran"]) == ("pass", True)
    assert said["bundle_digest"] == sha256_bytes((copy / "bundle.json").read_bytes())
    assert run(["bundle", "build", "--root", str(copy), "--out", str(out.parent / "2.tar")]) == 0
    assert (out.parent / "2.tar").read_bytes() == out.read_bytes()


def test_validating_judges_rather_than_believes(repository: UserRepository) -> None:
    """A whole bundle whose model is not what its references are of fails."""
    scale_initializer(repository.root / "model.onnx", repository.root / "model.onnx", 1.01)
    assert run(["bundle", "validate", str(build(repository))]) == 1


def test_a_tampered_bundle_is_refused_everywhere(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verifying says 1; nothing is unpacked or run."""
    made = build(repository, "b")
    scale_initializer(made / "model.onnx", made / "model.onnx", 1.001)
    assert run(["bundle", "verify", str(made)]) == 1
    assert "model.onnx: was changed" in capsys.readouterr().out
    assert run(["bundle", "extract", str(made), "--out", str(made.parent / "x")]) == 4
    assert run(["bundle", "validate", str(made)]) == 4
    assert not (made.parent / "x").exists()


def test_external_data_is_in_it(repository: UserRepository) -> None:
    """The weights file of a model with external data, and not another beside it."""
    model = onnx.load(repository.root / "model.onnx")
    onnx.save(
        model, repository.root / "model.onnx", save_as_external_data=True, location="w.bin",
        size_threshold=0,
    )  # fmt: skip
    repository.write("other.bin", "x")
    roles = manifest(build(repository, "b"))
    assert roles["w.bin"] == "weights"
    assert "other.bin" not in roles


@pytest.mark.parametrize("location", ["../w.bin", "a/../../w.bin", "/etc/passwd", "a\\w", "C:/w"])
def test_1_external_data_elsewhere_is_refused(repository: UserRepository, location: str) -> None:
    """Before anything is packed."""
    model = onnx.load(repository.root / "model.onnx")
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    (repository.root / "model.onnx").write_bytes(model.SerializeToString())
    words = ["--root", str(repository.root), "--out", str(repository.root.parent / "b.tar")]
    assert run(["bundle", "build", *words]) == 4
    assert not (repository.root.parent / "b.tar").exists()


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x08"])
def test_26_what_is_no_model_is_not_packed(repository: UserRepository, content: bytes) -> None:
    """Empty, garbage and truncated files."""
    (repository.root / "model.onnx").write_bytes(content)
    words = ["--root", str(repository.root), "--out", str(repository.root.parent / "b")]
    assert run(["bundle", "build", *words]) == 4


def test_25_a_protobuf_beyond_its_limit_is_refused(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the way out; the file is a hole and holds no bytes."""
    os.truncate(repository.root / "model.onnx", 2**31)
    words = ["--root", str(repository.root), "--out", str(repository.root.parent / "b.tar")]
    assert run(["bundle", "build", *words]) == 4
    assert "external data" in capsys.readouterr().err


def test_a_missing_file_is_named(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bundle without its labels is none."""
    (repository.root / "labels.txt").unlink()
    words = ["--root", str(repository.root), "--out", str(repository.root.parent / "b.tar")]
    assert run(["bundle", "build", *words]) == 4
    assert "labels.txt" in capsys.readouterr().err


def test_a_link_inside_the_fixture_set_is_packed_as_a_file(repository: UserRepository) -> None:
    """A set may share values between cases; the bundle holds both."""
    place = repository.root / "fixtures/two"
    place.mkdir()
    for name in ("input_0.pb", "output_0.pb"):
        (place / name).symlink_to(f"../one/{name}")
    listed = repository.root / "fixtures/fixtures.yml"
    value = yaml.safe_load(listed.read_text())
    value["cases"].append({"name": "two"})
    listed.write_text(yaml.safe_dump(value))
    made = build(repository, "b")
    assert (made / "fixtures/two/input_0.pb").read_bytes() == (
        (repository.root / "fixtures/one/input_0.pb").read_bytes()
    )
    assert run(["bundle", "validate", str(made)]) == 0


def test_a_discovered_deployment_has_a_bundle(tmp_path: Path) -> None:
    """Without a config the layout says it again, and the pinned runtime comes along."""
    root = tmp_path / "user"
    made = linear_repository(root)
    (root / "ci-parity.yml").unlink()
    shutil.rmtree(root / "fixtures/batch")
    (root / "fixtures/fixtures.yml").unlink()
    (root / "fixtures/one").rename(root / "fixtures/test_data_set_0")
    save_linear(root / "fixtures/model.onnx")
    out = build(made, "b")
    assert manifest(out) == {
        "fixtures/model.onnx": "graph",
        "fixtures/test_data_set_0/input_0.pb": "fixtures",
        "fixtures/test_data_set_0/output_0.pb": "references",
    }
    assert run(["bundle", "validate", str(out)]) == 0


def test_a_second_build_is_byte_identical_anywhere(tmp_path: Path) -> None:
    """Another umask, working directory, locale, time zone, hash seed and home."""
    shutil.copytree(DIGITS, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "zwei/drei")
    for number, path in enumerate((tmp_path / "zwei").rglob("*.pb")):
        os.utime(path, (number, number))
    first = built(tmp_path / "one", ".", tmp_path / "1.tar", "022", LC_ALL="C.UTF-8", TZ="UTC")
    second = built(
        tmp_path, "zwei/drei", tmp_path / "2.tar", "077", LC_ALL="C", TZ="Pacific/Kiritimati",
        PYTHONHASHSEED="7", HOME="/nowhere",
    )  # fmt: skip
    assert first == second


def built(cwd: Path, root: str, out: Path, umask: str, **variables: str) -> bytes:
    """Build in a process of its own and return the archive's bytes."""
    words = [sys.executable, "-m", "ci_parity", "bundle", "build", "--root", root]
    done = subprocess.run(
        ["sh", "-c", f'umask {umask}; exec "$@"', "sh", *words, "--out", str(out)],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out.read_bytes()


@pytest.mark.parametrize(
    ("lock", "files"),
    [
        ("runtime.txt", {"runtime.txt": "-r more.txt\n", "more.txt": "onnxruntime==1.31.1\n"}),
        (
            "uv.lock",
            {
                "uv.lock": 'version = 1\n[[package]]\nname = "onnxruntime"\nversion = "1.31.1"\n'
                'source = { registry = "https://pypi.org/simple" }\n',
                "pyproject.toml": '[project]\nname = "p"\nversion = "1"\n'
                'dependencies = ["onnxruntime"]\n',
            },
        ),
    ],
)
def test_the_lock_of_a_runtime_travels(
    repository: UserRepository, lock: str, files: dict[str, str]
) -> None:
    """Unpacked elsewhere, the config pins what it pinned at home."""
    for name, text in files.items():
        repository.write(name, text)
    config = yaml.safe_load((repository.root / "ci-parity.yml").read_text())
    config["targets"]["cpu"]["runtime"] = {"requires": lock}
    repository.write("ci-parity.yml", yaml.safe_dump(config))
    made = build(repository, "b")
    assert dict.fromkeys(files, "lock").items() <= manifest(made).items()
    at_home = find_deployment(repository.root).targets
    assert find_deployment(made).targets == at_home
    assert at_home[0].runtime == "onnxruntime==1.31.1"


def test_an_image_stands_in_it_by_its_digest(repository: UserRepository) -> None:
    """Nothing is pulled or packed; the digest pins it."""
    digest = "sha256:" + "0123456789abcdef" * 4
    config = yaml.safe_load((repository.root / "ci-parity.yml").read_text())
    config["targets"]["cpu"]["runtime"] = {"image": f"registry.example/ort@{digest}"}
    repository.write("ci-parity.yml", yaml.safe_dump(config))
    said = json.loads((build(repository, "b") / "bundle.json").read_text(encoding="utf-8"))
    assert [target["image"] for target in said["targets"]] == [digest]


def test_a_looser_policy_is_another_bundle(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tolerance and contract are part of what is released."""
    build(repository, "one.tar")
    repository.replace("ci-parity.yml", "policy:", "policy:\n  tolerance: ladder")
    build(repository, "two.tar")
    digests = [line for line in capsys.readouterr().out.splitlines() if line.startswith("sha256:")]
    assert len(set(digests)) == 2
