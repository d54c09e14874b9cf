"""What a runtime printed, line by line, told apart by what it is about.

The words are those of the runtimes' own sources, which the table names. A line that none of them
fits is `other`. Nothing is judged here.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci_parity.records.placement import ClassedWarning, WarningKind

_MAX_TEXT = 500
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# onnxruntime: `DATE TIME [W:onnxruntime:SESSION, FILE:LINE FUNCTION] text`.
_LOG_HEAD = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+ \[[VIWEF]:[^\]]{0,300}\] ?")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Words that a kind of warning has, and the source that prints them."""

    kind: WarningKind
    words: str
    source: str


# The first that fits counts.
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"nodes were not assigned to the preferred execution providers",
        source="onnxruntime/core/framework/session_state.cc",
    ),
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"Force fallback to CPU execution for node",
        source="onnxruntime/core/framework/fallback_cpu_capability.cc",
    ),
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"Memcpy nodes are added to the graph",
        source="onnxruntime/core/optimizer/transformer_memcpy.cc",
    ),
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"Failed to create \w+ExecutionProvider",
        source="onnxruntime/python/onnxruntime_pybind_state.cc",
    ),
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"Failed to load library \S*onnxruntime_providers_\w+",
        source="onnxruntime/core/session/provider_bridge_ort.cc",
    ),
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"\.(so|dll|dylib)\S*: cannot open shared object file|Couldn't load Vulkan",
        source="the dynamic loader; dawn/native/vulkan/BackendVk.cpp",
    ),
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"Specified provider '.+' is not in available provider names",
        source="onnxruntime/python/onnxruntime_inference_collection.py",
    ),
    Pattern(
        kind=WarningKind.FALLBACK,
        words=r"Falling back to \[?'?\w+ExecutionProvider",
        source="onnxruntime/python/onnxruntime_inference_collection.py",
    ),
    Pattern(
        kind=WarningKind.DEPRECATED,
        words=r"(?i)\bdeprecat(ed|ion)|DeprecationWarning|FutureWarning",
        source="Python's warnings, and the runtimes' own",
    ),
    Pattern(
        kind=WarningKind.REWRITE,
        words=r"Removing initializer '|CleanUnusedInitializers",
        source="onnxruntime/core/graph/graph.cc",
    ),
    Pattern(
        kind=WarningKind.REWRITE,
        words=r"Initializer .+ appears in graph inputs and will not be treated as constant",
        source="onnxruntime/core/graph/graph.cc",
    ),
    Pattern(
        kind=WarningKind.REWRITE,
        words=r"(?i)constant folding|Could not find a CPU kernel and hence can't constant fold",
        source="onnxruntime/core/optimizer/constant_folding.cc",
    ),
    Pattern(
        kind=WarningKind.UNSUPPORTED,
        words=r"(?i)\b(un|not )supported\b|\bdoes not support\b|\bdoesn't support\b",
        source="the execution providers' GetCapability",
    ),
)
_COMPILED = tuple((pattern.kind, re.compile(pattern.words)) for pattern in PATTERNS)


def classed(lines: Sequence[str]) -> tuple[ClassedWarning, ...]:
    """Return what was printed, each text once, fallbacks first; times and addresses are left out.

    Args:
        lines: what workers printed to standard error.
    """
    counts = Counter(text for text in map(_plain, lines) if text)
    found = [ClassedWarning(kind=_kind(text), text=text, count=n) for text, n in counts.items()]
    order = list(WarningKind)
    return tuple(sorted(found, key=lambda one: order.index(one.kind)))


def _plain(line: str) -> str:
    text = _LOG_HEAD.sub("", _COLOUR.sub("", line[: 2 * _MAX_TEXT])).strip()
    return _ADDRESS.sub("0x…", text)[:_MAX_TEXT]


def _kind(text: str) -> WarningKind:
    return next(_fitting(text), WarningKind.OTHER)


def _fitting(text: str) -> Iterator[WarningKind]:
    return (kind for kind, words in _COMPILED if words.search(text))
