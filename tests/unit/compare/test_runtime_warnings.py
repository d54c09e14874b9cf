"""Lines as runtimes print them, told apart."""

import re

import pytest

from ci_parity.compare.runtime_warnings import PATTERNS, classed
from ci_parity.records.placement import WarningKind

HEAD = "2026-11-30 18:28:03.868750897 [W:onnxruntime:, "
SAID = {
    WarningKind.FALLBACK: (
        f"\x1b[0;93m{HEAD}s:7] Some nodes were not assigned to the preferred execution providers.",
        f"{HEAD}fallback_cpu_capability.cc:169 Get] Force fallback to CPU execution for node: G_3",
        f"{HEAD}transformer_memcpy.cc:74 ApplyImpl] 4 Memcpy nodes are added to the graph main.",
        f"{HEAD}p.cc:2251] Failed to load library libonnxruntime_providers_cuda.so with error: x",
        f"{HEAD}onnxruntime_pybind_state.cc:1041 Create] Failed to create CUDAExecutionProvider.",
        "Warning: Couldn't load Vulkan: libvulkan.so.1: cannot open shared object file",
        "UserWarning: Specified provider 'CUDA' is not in available provider names.",
        "Falling back to ['CPUExecutionProvider'] and retrying.",
    ),
    WarningKind.REWRITE: (
        f"{HEAD}graph.cc:4285 CleanUnused] Removing initializer 'bias'. It is not used.",
        f"{HEAD}g.cc:1] Initializer w appears in graph inputs and will not be treated as constant.",
        f"{HEAD}c.cc:1 A] Could not find a CPU kernel and hence can't constant fold Exp node 'e'",
    ),
    WarningKind.DEPRECATED: ("tool.py:3: DeprecationWarning: use another", "it is deprecated"),
    WarningKind.UNSUPPORTED: ("NonZero is not supported here", "it doesn't support dynamic rank"),
    WarningKind.OTHER: ("loaded 7 kernels",),
}
LINES = [(line, kind) for kind, lines in SAID.items() for line in lines]


@pytest.mark.parametrize(("line", "kind"), LINES)
def test_a_line_is_of_one_kind(line: str, kind: WarningKind) -> None:
    """By words of the source that prints it."""
    (found,) = classed([line])
    assert found.kind is kind


def test_every_pattern_is_shown_by_a_line() -> None:
    """None of the table's rows is dead, and each names its source."""
    for pattern in PATTERNS:
        assert any(re.search(pattern.words, line) for line in SAID[pattern.kind]), pattern
        assert pattern.source


def test_a_text_counts_however_often_it_comes() -> None:
    """Without its time, its place and its colour; addresses differ and say nothing."""
    lines = [
        f"\x1b[0;93m2026-11-30 18:28:0{n}.8 [W:onnxruntime:, a.cc:{n} F] lost 0x7fab12{n}\x1b[m"
        for n in range(3)
    ]
    (found,) = classed([*lines, "  ", ""])
    assert (found.count, found.text) == (3, "lost 0x…")


def test_fallbacks_come_first() -> None:
    """Whatever was printed before them."""
    found = classed(["hello", "Force fallback to CPU execution for node: x", "is not supported"])
    kinds = [one.kind for one in found]
    assert kinds == [WarningKind.FALLBACK, WarningKind.UNSUPPORTED, WarningKind.OTHER]


def test_no_line_is_too_long() -> None:
    """A worker may print what it likes."""
    (found,) = classed(["2026-11-30 18:28:03.8 [" + "W:" * 100_000])
    assert len(found.text) <= 500
