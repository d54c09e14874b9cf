"""`ci-parity fixtures capture` with real frameworks, and what a check makes of its references."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType

from ci_parity.base.digest import sha256_file
from ci_parity.cli import run
from ci_parity.fixtures.importer import import_arrays, parse_source
from ci_parity.fixtures.signature import read_signature
from tests.integration.support.diff_command import environments
from tests.integration.support.torch_environment import (
    TORCH,
    torch_environment,
    write_torch_requirements,
)
from tests.support.models import scale_initializer
from tests.support.source_repository import DOUBLE, SourceRepository, doubled
from tests.support.user_repository import UserRepository, empty_repository

CONFIG = """\
version: 1
deployment: digits
variants: {exported: {path: models/digits.onnx}}
source:
  entry: tools/reference.py:predict
  framework: scikit-learn
  checkpoint: models/digits.joblib
fixtures: fixtures/digits
policy: {latency: {measure: false}}
"""
# What docs/fixtures.md shows for scikit-learn.
REFERENCE = """\
import joblib
import numpy as np

model = joblib.load("models/digits.joblib")

def predict(inputs):
    probabilities = model.predict_proba(inputs["x"])
    return {
        "label": model.classes_[probabilities.argmax(axis=1)],
        "probabilities": probabilities.astype(np.float32),
    }
"""


@pytest.fixture(autouse=True)
def environment_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep environments in the test cache."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(environments()))


@pytest.fixture
def digits(tmp_path: Path) -> UserRepository:
    """Return a repository with a trained pipeline, its export, and inputs without references."""
    import joblib  # type: ignore[import-untyped]
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    repository = empty_repository(tmp_path / "user")
    pixels, labels = load_digits(return_X_y=True)
    classifier = MLPClassifier(hidden_layer_sizes=(16,), max_iter=500, tol=1e-2, random_state=7)
    pipeline = make_pipeline(StandardScaler(), classifier)
    pipeline.fit(pixels[:500], labels[:500])
    (repository.root / "models").mkdir()
    joblib.dump(pipeline, repository.root / "models" / "digits.joblib")
    exported = to_onnx(
        pipeline, initial_types=[("x", FloatTensorType([None, 64]))], options={"zipmap": False}
    )
    path = repository.root / "models" / "digits.onnx"
    path.write_bytes(exported.SerializeToString())
    for name, rows in {"smallest": pixels[500:501], "typical": pixels[501:509]}.items():
        np.savez(tmp_path / f"{name}.npz", x=rows.astype(np.float32))
    sources = [parse_source(str(tmp_path / f"{n}.npz")) for n in ("smallest", "typical")]
    import_arrays(sources, read_signature(path), repository.root / "fixtures" / "digits")
    repository.write("ci-parity.yml", CONFIG)
    repository.write("tools/reference.py", REFERENCE)
    repository.write(".gitignore", "ci-parity-report/\n__pycache__/\n")
    repository.commit("first")
    return repository


def manifest(fixtures: Path) -> Any:
    """Return what fixtures.yml says."""
    return yaml.safe_load((fixtures / "fixtures.yml").read_text(encoding="utf-8"))


def verdict(repository: UserRepository) -> tuple[int, Any]:
    """Run a check without a baseline and return its exit code and report."""
    folder = repository.root / "ci-parity-report"
    words = ["--root", str(repository.root), "--report-dir", str(folder), "--force"]
    code = run(["check", *words])
    return code, json.loads((folder / "verdict.json").read_text(encoding="utf-8"))


def test_references_of_scikit_learn_judge_its_export(
    digits: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Captured, they pass the faithful export and fail a weight that is one per cent off."""
    import sklearn

    assert run(["fixtures", "capture", "--root", str(digits.root)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "captured smallest: label int64[1], probabilities float32[1, 10], repeats exactly",
        "captured typical: label int64[8], probabilities float32[8, 10], repeats exactly",
    ]
    assert said[2].startswith(f"  source: scikit-learn {sklearn.__version__}, tools/reference.py")
    for case in manifest(digits.root / "fixtures" / "digits")["cases"]:
        found = case["provenance"]
        assert found["version"] == sklearn.__version__
        assert found["checkpoint_sha256"] == sha256_file(digits.root / "models" / "digits.joblib")
        assert found["python"] == sys.version.split()[0]
    digits.commit("references")
    code, report = verdict(digits)
    assert code == 0
    assert "source→exported" in {row["boundary"] for row in report["rows"]}
    model = digits.root / "models" / "digits.onnx"
    scale_initializer(model, model, 1.01)
    code, report = verdict(digits)
    assert code == 1
    assert {f["id"] for f in report["findings"] if f["outcome"] == "fail"} >= {"output.values"}


def test_double_precision_is_not_cast_in_silence(
    digits: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """scikit-learn computes in float64; who rounds must be read in the script."""
    digits.replace("tools/reference.py", ".astype(np.float32)", "")
    assert run(["fixtures", "capture", "--root", str(digits.root)]) == 4
    message = capsys.readouterr().err
    assert "'probabilities' does not fit: it is float64, the model declares float32" in message
    assert "remedy: return what the deployed model gives" in message
    assert not list(digits.root.glob("fixtures/digits/*/output_*.pb"))


def test_the_exports_own_answers_are_refused(
    digits: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference made by the candidate is refused, also where ONNX sources are allowed."""
    digits.write(
        "tools/reference.py",
        "import onnxruntime\n"
        "session = onnxruntime.InferenceSession('models/digits.onnx')\n"
        "def predict(inputs):\n    return session.run(None, inputs)\n",
    )
    for allowed in ("false", "true"):
        allow = f"  allow_onnx: {allowed}\nfixtures:"
        digits.write("ci-parity.yml", CONFIG.replace("fixtures:", allow))
        assert run(["fixtures", "capture", "--root", str(digits.root)]) == 4
        assert "a reference made by the candidate is refused" in capsys.readouterr().err
    assert not list(digits.root.glob("fixtures/digits/*/output_*.pb"))


def test_a_replacement_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """First without storing it, then stored, then nothing is left."""
    repository = SourceRepository(tmp_path / "user")
    words = ["fixtures", "capture", "--root", str(repository.root), "--case", "one"]
    assert run(words) == 0
    repository.source(DOUBLE.replace("2 *", "np.float32(0.25) + 2 *"))
    capsys.readouterr()
    assert run([*words, "--replace", "--dry-run"]) == 0
    would = capsys.readouterr().out
    assert would.startswith("would capture one: y float32[1, 3], repeats exactly, ")
    assert "the old references differ by at most 0.25, in y" in would
    assert run([*words, "--replace"]) == 0
    assert capsys.readouterr().out == would.replace("would capture", "captured")
    assert run([*words, "--replace"]) == 0
    assert "the old references are equal" in capsys.readouterr().out
    assert run(words) == 4
    assert "pass --replace" in capsys.readouterr().err


SKLEARN = """\
import numpy as np
import sklearn
from sklearn.preprocessing import FunctionTransformer

assert sklearn.__version__ == "1.6.1"
double = FunctionTransformer(lambda x: 2 * x)

def predict(inputs):
    return double.transform(inputs["x"])
"""


@pytest.mark.network
def test_a_source_has_an_environment_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pinned by a requirements file: another scikit-learn than the one beside us is measured."""
    repository = SourceRepository(tmp_path / "user")
    requires = repository.root / "requirements-source.txt"
    requires.write_text("scikit-learn==1.6.1\nnumpy==2.2.6\n", encoding="utf-8")
    repository.source(SKLEARN, framework="scikit-learn", requires=requires.name)
    assert run(["fixtures", "capture", "--root", str(repository.root)]) == 0, capsys.readouterr()
    assert repository.references()["one"] == {"y": doubled(1)}
    for case in manifest(repository.fixtures)["cases"]:
        assert case["provenance"]["version"] == "1.6.1"
        assert case["provenance"]["requires_sha256"] == sha256_file(requires)


@pytest.mark.network
def test_an_environment_without_numpy_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What carries the values must be pinned with the rest."""
    repository = SourceRepository(tmp_path / "user")
    repository.user.write("requirements-source.txt", "packaging==25.0\n")
    repository.source(requires="requirements-source.txt")
    assert run(["fixtures", "capture", "--root", str(repository.root)]) == 2
    assert "the source's environment has no NumPy" in capsys.readouterr().err


@pytest.mark.network
def test_a_source_runs_in_an_interpreter_of_its_own(tmp_path: Path) -> None:
    """A virtual environment of the repository, whatever it was made with."""
    repository = SourceRepository(tmp_path / "user")
    venv = repository.root / ".venv"
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, venv], check=True)
    subprocess.run([*uv, "pip", "install", "--python", venv, "numpy==2.2.6"], check=True)
    repository.source(python=".venv/bin/python")
    assert run(["fixtures", "capture", "--root", str(repository.root)]) == 0
    versions = {case["provenance"]["version"] for case in manifest(repository.fixtures)["cases"]}
    assert versions == {"2.2.6"}


# What docs/fixtures.md shows for PyTorch.
NET = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3, bias=False)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.linear(x))
"""
TORCH_SOURCE = """\
import torch
from net import Net

model = Net()
model.load_state_dict(torch.load("net.pt", weights_only=True))
model.eval()

def predict(inputs):
    return {"y": model(torch.from_numpy(inputs["x"]))}
"""
SAVE = """\
import sys
sys.path.insert(0, "tools")
import torch
from net import Net
model = Net().eval()
model.load_state_dict({"linear.weight": 2 * torch.eye(3)})
torch.save(model.state_dict(), "net.pt")
torch.jit.script(model).save("scripted.pt")
"""


@pytest.fixture
def torch_repository(tmp_path: Path) -> SourceRepository:
    """Return a repository whose source is a PyTorch module with its saved weights."""
    repository = SourceRepository(tmp_path / "user")
    environment = torch_environment(repository.root)
    repository.user.write("tools/net.py", NET)
    subprocess.run(
        [environment.python, "-c", SAVE], cwd=repository.root, check=True, capture_output=True
    )
    return repository


def torch_capture(repository: SourceRepository, code: str, *words: str, **settings: Any) -> int:
    """Capture from a PyTorch source."""
    requires = write_torch_requirements(repository.root).name
    known = {"framework": "pytorch", "requires": requires, "checkpoint": "net.pt"}
    repository.source(code, **(known | settings))
    return run(["fixtures", "capture", "--root", str(repository.root), *words])


@pytest.mark.torch
@pytest.mark.network
def test_references_of_pytorch(
    torch_repository: SourceRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that wants gradients, in its own environment, weights from its checkpoint."""
    assert torch_capture(torch_repository, TORCH_SOURCE) == 0
    said = capsys.readouterr().out
    assert "repeats exactly" in said
    assert "warning" not in said
    assert torch_repository.references() == {"batch": {"y": doubled(4)}, "one": {"y": doubled(1)}}
    for case in manifest(torch_repository.fixtures)["cases"]:
        assert case["provenance"]["version"].partition("+")[0] == TORCH
        digest = sha256_file(torch_repository.root / "net.pt")
        assert case["provenance"]["checkpoint_sha256"] == digest


@pytest.mark.torch
@pytest.mark.network
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="native opens are seen on Linux")
def test_a_checkpoint_that_pytorch_opens_natively_is_seen(
    torch_repository: SourceRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """TorchScript is read without Python; its digest is part of the provenance all the same."""
    code = (
        'import torch\nmodel = torch.jit.load("scripted.pt")\n'
        'def predict(inputs):\n    return model(torch.from_numpy(inputs["x"]))\n'
    )
    assert torch_capture(torch_repository, code, checkpoint="scripted.pt") == 0
    assert "never opened" not in capsys.readouterr().out
    (case, _) = manifest(torch_repository.fixtures)["cases"]
    digest = sha256_file(torch_repository.root / "scripted.pt")
    assert case["provenance"]["checkpoint_sha256"] == digest


@pytest.mark.torch
@pytest.mark.network
def test_pytorchs_usual_mistakes_are_seen(
    torch_repository: SourceRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dropout left on behind a seed, weights never loaded, another precision."""
    seeded = TORCH_SOURCE.replace("model.eval()", "torch.manual_seed(0)")
    assert torch_capture(torch_repository, seeded, "--dry-run") == 0
    assert "two runs of the source differ by up to" in capsys.readouterr().out
    unloaded = "\n".join(line for line in TORCH_SOURCE.splitlines() if "net.pt" not in line)
    assert torch_capture(torch_repository, unloaded, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "two runs of the source differ by up to" in said
    assert "the checkpoint net.pt was never opened" in said
    for dtype, name in (("double", "float64"), ("bfloat16", "bfloat16")):
        other = TORCH_SOURCE.replace('["x"]))', f'["x"])).{dtype}()')
        assert torch_capture(torch_repository, other, "--dry-run") == 4
        assert f"it is {name}, the model declares float32" in capsys.readouterr().err


def test_the_plain_numpy_source_needs_nothing(tmp_path: Path) -> None:
    """No requirements, no checkpoint: the interpreter that runs us, from another folder."""
    repository = SourceRepository(tmp_path / "user")
    repository.source(DOUBLE)
    done = subprocess.run(
        [sys.executable, "-m", "ci_parity", "fixtures", "capture", "--root", repository.root],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "captured one: y float32[1, 3], repeats exactly" in done.stdout
    assert repository.references()["one"] == {"y": doubled(1)}
