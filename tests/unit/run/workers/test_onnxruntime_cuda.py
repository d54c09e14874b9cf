"""CUDA's libraries for a package's worker: those of the wheels beside it, where it has any."""

import importlib.util
from types import SimpleNamespace

import pytest

from ci_parity.run.workers.onnxruntime_worker import load_wheels_of_cuda


def loaded(monkeypatch: pytest.MonkeyPatch, *, wheels: bool) -> list[str]:
    """Return what a runtime loads of CUDA where there are wheels of it, or none."""
    found: list[str] = []
    monkeypatch.setattr(
        importlib.util, "find_spec",
        lambda name: object() if wheels and name == "nvidia" else None,
    )  # fmt: skip
    load_wheels_of_cuda(SimpleNamespace(preload_dlls=lambda: found.append("CUDA")))
    return found


def test_the_wheels_beside_it_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `onnxruntime-gpu[cuda,cudnn]` brings them."""
    assert loaded(monkeypatch, wheels=True) == ["CUDA"]


def test_without_wheels_the_machine_s_are_left_to_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looking for them would print what is no trouble."""
    assert loaded(monkeypatch, wheels=False) == []


def test_an_old_runtime_finds_them_itself_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 1.21 there is no such call."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    load_wheels_of_cuda(SimpleNamespace())
