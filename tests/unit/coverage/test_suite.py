"""The standard's tests where they have been written already, and where they cannot be."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.progress import Step
from ci_parity.coverage.cases import write_index
from ci_parity.coverage.suite import suite_cases, suite_folder
from tests.support.node_cases import node_case


class Forbidden:
    """Progress of work that must not be begun."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """Refuse."""
        raise AssertionError((title, total))
        yield


def test_a_suite_that_was_written_is_read(tmp_path: Path) -> None:
    """Nothing is generated, and nothing read but the index."""
    folder = suite_folder(tmp_path)
    case = node_case(folder, "test_one", {"y": np.array([1.0])})
    write_index([case], folder)
    case.model.unlink()
    assert suite_cases(tmp_path, Forbidden()) == (case,)


def test_the_folder_says_what_it_holds(tmp_path: Path) -> None:
    """Another onnx or NumPy writes tests of its own."""
    from importlib.metadata import version

    name = suite_folder(tmp_path).name
    assert f"onnx-{version('onnx')}-" in name
    assert f"numpy-{version('numpy')}-" in name


def test_a_cache_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    """With the way out."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(InfrastructureError, match="cannot be written") as caught:
        suite_cases(tmp_path / "cache", Forbidden())
    assert "CI_PARITY_CACHE" in caught.value.remedy
