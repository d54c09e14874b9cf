"""PyTorch → torch.onnx → onnxsim → static int8, for real: each step judged, each fault on its step.

A small classifier of 8 x 8 digits is trained in PyTorch, exported, simplified and quantized by the
tools people use, and its references are captured from PyTorch. Then a weight is damaged at one step
and the later artifacts are made from the damaged one: that boundary breaks and no other.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from ci_parity.base.process import worker_environment
from ci_parity.base.progress import PlainProgress
from ci_parity.pipeline import CheckOptions, check
from ci_parity.records.outcome import Outcome
from ci_parity.stages.capture import CaptureOptions, capture
from tests.integration.support.torch_environment import (
    torch_environment,
    write_torch_requirements,
)

pytestmark = [pytest.mark.network, pytest.mark.torch]

TOOLS = ("onnx==1.23.2", "onnxruntime==1.32.0", "onnxsim==0.8.1", "sympy==1.14.0")
STEPS = ("exported", "simplified", "int8")
MAKER = Path(__file__).parent / "support" / "torch_chain.py"
BOUNDARIES = {
    "exported": "source→exported", "simplified": "exported→simplified", "int8": "simplified→int8",
}  # fmt: skip
CONFIG = """\
version: 1
variants:
  exported: {path: exported.onnx}
  simplified: {path: simplified.onnx, from: exported}
  int8: {path: int8.onnx, from: simplified}
targets: {cpu: {runtime: onnxruntime==1.32.0}}
fixtures: cases
source: {entry: "torch_chain.py:predict", framework: torch, requires: requirements-source.txt,
  checkpoint: digits.pt}
policy: {latency: {measure: false}, self_checks: {threads: false}}
"""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the interpreter of the tools, and a folder with the clean chain and its references."""
    folder = tmp_path_factory.mktemp("chain")
    python = torch_environment(folder, *TOOLS).python
    write_torch_requirements(folder, *TOOLS)
    shutil.copy(MAKER, folder / MAKER.name)
    make(python, folder, "train")
    for step in STEPS:
        make(python, folder, step)
    (folder / "ci-parity.yml").write_text(CONFIG, encoding="utf-8")
    capture(CaptureOptions(root=folder), {}, PlainProgress(), lambda _: None)
    return python, folder


def make(python: Path, folder: Path, step: str) -> None:
    """Run one step of the chain in the tools' environment."""
    done = subprocess.run(
        [python, MAKER.name, step], cwd=folder, env=worker_environment(), capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def damage(model: Path) -> None:
    """Scale the largest float weight by 1.5, as a wrong conversion might."""
    loaded = onnx.load(model)
    tensor = max(
        (t for t in loaded.graph.initializer if t.data_type in {onnx.TensorProto.FLOAT, 3}),
        key=lambda t: numpy_helper.to_array(t).size,
    )
    values = numpy_helper.to_array(tensor)
    wrong = (values.astype("float64") * 1.5).clip(-127, 127).astype(values.dtype)
    tensor.CopyFrom(numpy_helper.from_array(wrong, tensor.name))
    onnx.save(loaded, model)


def outcomes(folder: Path) -> Mapping[str, Outcome]:
    """Check the deployment and return the outcome of each boundary."""
    verdict = check(CheckOptions(root=folder, force=True), PlainProgress()).verdict
    return {row.boundary: row.outcome for row in verdict.rows if not row.alone}


def test_the_clean_chain_passes(chain: tuple[Path, Path]) -> None:
    """Source, export, simplification and quantization agree, at the default tolerance."""
    assert outcomes(chain[1]) == dict.fromkeys(BOUNDARIES.values(), Outcome.PASS)


@pytest.mark.parametrize("faulty", STEPS)
def test_a_fault_is_blamed_on_its_step(
    chain: tuple[Path, Path], faulty: str, tmp_path: Path
) -> None:
    """The damaged step's boundary fails; what is made from its artifact agrees with it."""
    python, clean = chain
    folder = tmp_path / "chain"
    shutil.copytree(clean, folder)
    damage(folder / f"{faulty}.onnx")
    for step in STEPS[STEPS.index(faulty) + 1 :]:
        make(python, folder, step)
    wanted = dict.fromkeys(BOUNDARIES.values(), Outcome.PASS) | {BOUNDARIES[faulty]: Outcome.FAIL}
    assert outcomes(folder) == wanted
