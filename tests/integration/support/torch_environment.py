"""PyTorch in an environment of its own, for the tests that ask for it; kept in the test cache.

PyTorch's wheels for Linux bring CUDA along: some 3 GB to download, more on disk. So these tests run
only where ``CI_PARITY_TEST_TORCH=1`` is set; everywhere else they are skipped with that reason.
"""

import os
from pathlib import Path

import pytest

from ci_parity.run.environments import Environment
from ci_parity.run.requirement_environments import provide
from tests.integration.support.diff_command import environments

VARIABLE = "CI_PARITY_TEST_TORCH"
TORCH = "2.9.0"
REQUIREMENTS = f"torch=={TORCH}\nnumpy==2.3.4\n"


def require_torch() -> None:
    """Skip the test unless PyTorch was asked for."""
    if os.environ.get(VARIABLE) != "1":
        pytest.skip(f"PyTorch is a download of some 3 GB: set {VARIABLE}=1 to install it")


def write_torch_requirements(folder: Path, *further: str) -> Path:
    """Write the requirements file of a PyTorch source; ``further`` are pins of its own."""
    path = folder / "requirements-source.txt"
    path.write_text(REQUIREMENTS + "".join(f"{pin}\n" for pin in further), encoding="utf-8")
    return path


def torch_environment(folder: Path, *further: str) -> Environment:
    """Return an environment with PyTorch, built at most once for each set of pins.

    Skips the test unless PyTorch was asked for.
    """
    require_torch()
    path = write_torch_requirements(folder, *further)
    return provide(path, root=folder, cache=environments())
