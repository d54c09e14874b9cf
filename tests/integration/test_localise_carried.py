"""A runtime that keeps something from one input to the next: no node is at fault, and that is said.

OpenVINO 2026.1.0 runs silero-vad without If right on a chunk of either rate, and wrong on one of
16 kHz after one of 8 kHz in the same session.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.integration.support.diff_command import diff
from tests.integration.support.published_models import published_models

pytestmark = pytest.mark.network

RUNTIME = ("--candidate-runtime", "openvino==2026.1.0")


def test_a_case_that_fails_only_after_another_names_that(tmp_path: Path) -> None:
    """Alone each of them passes."""
    model = next(model for model in published_models() if model.name == "silero-vad-ifless")
    slow, fast = tmp_path / "slow.npz", tmp_path / "fast.npz"
    np.savez(slow, **model.cases[0])  # type: ignore[arg-type]
    np.savez(fast, **model.cases[2])  # type: ignore[arg-type]
    for name in (slow, fast):
        assert diff(tmp_path, str(model.path), *RUNTIME, "--inputs", str(name)).code == 0
    both = diff(tmp_path, str(model.path), *RUNTIME, "--inputs", str(slow), "--inputs", str(fast))
    assert both.code == 1
    (found,) = both.report["divergences"]
    assert found["conclusion"] == "carried"
    assert found["nodes"] == []
    assert "after 'slow' in the same session it fails" in found["sentence"]
