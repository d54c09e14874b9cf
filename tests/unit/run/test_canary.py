"""Two models of one shape, on runtimes that tell them apart and on some that do not."""

import sys
from pathlib import Path

import pytest

from ci_parity.config.systems import Target
from ci_parity.records.canary import Canary, Freshness
from ci_parity.run.canary import told_apart
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from tests.fakes.simulated_bench import Counter

STALE = Path(__file__).parents[2] / "fakes" / "stale_onnxruntime.py"


def asked(folder: Path, *argv: str) -> Canary:
    """Ask a runtime that starts so, on a provider other than the CPU."""
    job = Job(
        launch=Launch(argv=(sys.executable, "-I", "-B", *argv), label="r", environment=""),
        model=folder / "unused.onnx", target=Target(name="npu", provider="OtherProvider"),
        timeout_s=60,
    )  # fmt: skip
    return told_apart(job, folder / "canary", Counter())


def test_a_runtime_without_a_cache_tells_them_apart(tmp_path: Path) -> None:
    """Each of four runs is the model's own."""
    found = asked(tmp_path, str(STALE), "nowhere")
    assert found.freshness is Freshness.APART
    assert "each gave their own answer" in found.words


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_an_engine_that_is_served_for_another_model_shows(tmp_path: Path, where: str) -> None:
    """Kept in the process, or beside it: the second model gets the first one's answer."""
    found = asked(tmp_path, str(STALE), where)
    assert found.freshness is Freshness.STALE
    assert found.words.startswith("the second of two models of one shape")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((str(STALE), "wrong"), "neither model's"),
        (("-c", "raise SystemExit('no device')"), "no device"),
    ],
)
def test_what_cannot_be_said_is_not_known(tmp_path: Path, argv: tuple[str, ...], said: str) -> None:
    """Another answer, or none: no pass comes of it."""
    found = asked(tmp_path, *argv)
    assert found.freshness is Freshness.UNKNOWN
    assert said in found.words
