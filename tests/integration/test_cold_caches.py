"""A candidate is never served what was compiled for another model: real caches, and a false one."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from ci_parity.config.systems import Target
from ci_parity.records.canary import Freshness
from ci_parity.run.canary import told_apart
from ci_parity.run.execute import Job
from ci_parity.run.runtime import prepare
from tests.fakes.simulated_bench import Counter
from tests.integration.support.diff_command import Result, diff, environments
from tests.support.models import save_linear

OPENVINO, OV = "onnxruntime-openvino==1.24.1", "OpenVINOExecutionProvider"
STALE = Path(__file__).parents[1] / "fakes" / "stale_onnxruntime.py"


@pytest.mark.network
def test_openvino_keeps_engines_by_their_content(tmp_path: Path) -> None:
    """With the cache that no config may ask for: engines are kept, and each model has its own."""
    kept = tmp_path / "kept"
    job = Job(
        launch=prepare(OPENVINO, cache=environments()), model=tmp_path / "unused.onnx",
        target=Target(name="cpu", provider=OV, provider_options={"cache_dir": str(kept)}),
        timeout_s=300,
    )  # fmt: skip
    steps = Counter()
    for _ in range(2):
        found = told_apart(job, tmp_path / "canary", steps)
        assert found.freshness is Freshness.APART, found.words
    assert [path for path in kept.rglob("*") if path.is_file()]


def on(folder: Path, runtime: str, provider: str) -> Result:
    """Compare a runtime on a provider with the CPU."""
    model = save_linear(folder / "model.onnx")
    np.savez(folder / "x.npz", x=np.ones((1, 3), np.float32))
    sides = ("--candidate-runtime", runtime, "--candidate-provider", provider)
    words = ("--inputs", str(folder / "x.npz"), "--no-localise")
    return diff(folder, str(model), *sides, *words)


@pytest.mark.network
def test_a_provider_is_shown_to_tell_models_apart(tmp_path: Path) -> None:
    """Every report on a provider other than the CPU says so."""
    result = on(tmp_path, OPENVINO, OV)
    (found,) = [f for f in result.report["findings"] if f["id"] == "provider.stale"]
    assert (result.code, found["outcome"]) == (0, "pass")
    assert "each gave their own answer" in found["evidence"]


@pytest.mark.parametrize(("where", "code"), [("nowhere", 0), ("disk", 1), ("memory", 1)])
def test_a_stale_cache_never_passes(tmp_path: Path, where: str, code: int) -> None:
    """Though every output of the model itself is right."""
    command = [sys.executable, "-I", "-B", str(STALE), where]
    result = on(tmp_path, f"command:{json.dumps(command)}", "OtherProvider")
    (found,) = [f for f in result.report["findings"] if f["id"] == "provider.stale"]
    assert result.code == code
    assert found["outcome"] == ("fail" if code else "pass")
    assert {f["id"] for f in result.failures} == ({"provider.stale"} if code else set())


def test_the_cpu_is_not_asked(tmp_path: Path) -> None:
    """It compiles nothing that it could keep."""
    result = on(tmp_path, "current", "CPUExecutionProvider")
    assert "provider.stale" not in {f["id"] for f in result.report["findings"]}
