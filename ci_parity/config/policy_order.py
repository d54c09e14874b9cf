"""Which of two policies is the looser one, key by key.

A policy is here what an identity keeps of it: plain JSON with every default set, the contract and
the digests of files it rests on among its keys (`detect.policy_files`). Keys have a partial order:
tighter, looser, or neither. What is not known here, and what cannot be compared, counts as neither,
so that a key without a rule is never loosened in silence. Nothing is judged and no file is read.
"""

import enum
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ci_parity.base.canonical import canonical_bytes

_SHOWN_CHARS = 160
_DOMAIN = "ai.onnx"


class Order(enum.Enum):
    """How a key of the candidate's policy stands to the baseline's."""

    TIGHTER = "tighter"
    LOOSER = "looser"
    UNCLEAR = "not comparable"


class _Absent:
    """The value of a key that is not there; JSON has none for it."""


_ABSENT = _Absent()
Path = tuple[str, ...]
Compare = Callable[[Any, Any], Order | None]
"""Of two values that differ, how the second stands to the first; None where it makes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """One key that differs: where, both values as a reader sees them, and their order."""

    path: Path
    before: str
    after: str
    order: Order

    @property
    def key(self) -> str:
        """The key as a reader sees it, such as `latency.max_regression`."""
        return ".".join(self.path)


def policy_changes(
    base: Mapping[str, Any], candidate: Mapping[str, Any]
) -> tuple[PolicyChange, ...]:
    """Return every key in which two policies differ, in the order of the keys.

    An output without a tolerance of its own has the policy's, on either side. How latency is
    measured does not matter where one side does not measure it.
    """
    timed = all(side.get("latency", {}).get("measure", True) for side in (base, candidate))
    left, right = (_comparable(side, timed=timed) for side in (base, candidate))
    found = [*_tolerances(base, candidate), *_compared((), left, right)]
    return tuple(sorted(found, key=lambda change: change.path))


def loosened(base: Mapping[str, Any], candidate: Mapping[str, Any]) -> tuple[PolicyChange, ...]:
    """Return the keys in which the candidate's policy is looser, or cannot be compared."""
    return tuple(c for c in policy_changes(base, candidate) if c.order is not Order.TIGHTER)


def tolerance_order(before: Any, after: Any) -> Order:  # noqa: ANN401 - JSON
    """Return how two tolerances stand to each other: words, or explicit `rtol` and `atol`.

    Words and numbers cannot be compared, because a word stands for another number in every case;
    only exactly equal is tighter than everything.
    """
    old, new = _numbers(before), _numbers(after)
    if new == (0.0, 0.0):
        return Order.TIGHTER
    if old == (0.0, 0.0):
        return Order.LOOSER
    if old is None or new is None:
        return Order.UNCLEAR
    if new[0] <= old[0] and new[1] <= old[1]:
        return Order.TIGHTER
    return Order.LOOSER if new[0] >= old[0] and new[1] >= old[1] else Order.UNCLEAR


def _numbers(tolerance: object) -> tuple[float, float] | None:
    if not isinstance(tolerance, dict) or not tolerance.keys() <= {"rtol", "atol"}:
        return None
    return float(tolerance.get("rtol", 0.0)), float(tolerance.get("atol", 0.0))


def _comparable(policy: Mapping[str, Any], *, timed: bool) -> dict[str, Any]:
    """Return a policy without its tolerances, its contract with every operator set by domain."""
    rest = {key: part for key, part in policy.items() if key not in {"tolerance", "outputs"}}
    if not timed:
        rest["latency"] = {"measure": rest.get("latency", {}).get("measure", True)}
    contract = rest.get("contract")
    if isinstance(contract, dict) and isinstance(contract.get("opset"), int | float):
        rest["contract"] = {**contract, "opset": {_DOMAIN: contract["opset"]}}
    return rest


def _tolerances(base: Mapping[str, Any], candidate: Mapping[str, Any]) -> Iterator[PolicyChange]:
    common = [side.get("tolerance", _ABSENT) for side in (base, candidate)]
    own = [side.get("outputs", {}) for side in (base, candidate)]
    yield from _change(("tolerance",), common[0], common[1], tolerance_order)
    for name in dict.fromkeys((*own[0], *own[1])):
        before, after = own[0].get(name, common[0]), own[1].get(name, common[1])
        yield from _change(("outputs", name), before, after, tolerance_order)


def _compared(path: Path, before: Any, after: Any) -> Iterator[PolicyChange]:  # noqa: ANN401 - JSON
    """Yield the changes at and below a path; a mapping that both sides have is walked."""
    presence = _rule(_MAPPINGS, path) if path else _EMPTY
    lacking = any(side is _ABSENT for side in (before, after))
    if presence is not None and lacking and presence is not _EMPTY:
        yield from _change(path, before, after, presence)
    elif presence is None or not all(isinstance(s, dict | _Absent) for s in (before, after)):
        yield from _change(path, before, after, _rule(_LEAVES, path) or _unclear)
    else:
        left, right = (side if isinstance(side, dict) else {} for side in (before, after))
        for key in dict.fromkeys((*left, *right)):
            yield from _compared((*path, key), left.get(key, _ABSENT), right.get(key, _ABSENT))


def _rule(rules: Mapping[Path, Compare], path: Path) -> Compare | None:
    """Return the rule of a path; `*` stands for any name."""
    for pattern, rule in rules.items():
        if len(pattern) == len(path) and all(
            p in ("*", k) for p, k in zip(pattern, path, strict=True)
        ):
            return rule
    return None


def _change(
    path: Path,
    before: Any,  # noqa: ANN401 - JSON
    after: Any,  # noqa: ANN401 - JSON
    compare: Compare,
) -> Iterator[PolicyChange]:
    if _same(before, after):
        return
    order = compare(before, after)
    if order is not None:
        yield PolicyChange(path=path, before=_shown(before), after=_shown(after), order=order)


def _same(before: object, after: object) -> bool:
    """Whether two JSON values are equal; true is not 1."""
    return isinstance(before, bool) is isinstance(after, bool) and before == after


def _shown(value: Any) -> str:  # noqa: ANN401 - JSON
    if value is _ABSENT:
        return "(none)"
    text = value if isinstance(value, str) else canonical_bytes(value).decode()
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


# How two values compare. A value may be absent on one side.


def _unclear(before: object, after: object) -> Order:  # noqa: ARG001 - a Compare
    return Order.UNCLEAR


def _stated(before: object, after: object) -> Order:
    """Something that is asked for or not; between two things asked for there is no order."""
    if before is _ABSENT:
        return Order.TIGHTER
    return Order.LOOSER if after is _ABSENT else Order.UNCLEAR


def _detections(before: object, after: object) -> Order:  # noqa: ARG001 - a Compare
    """Boxes that are matched as a set are no longer compared row by row."""
    return Order.LOOSER if after is _ABSENT else Order.UNCLEAR


def _file(before: object, after: object) -> Order | None:
    """A file that only one side has belongs to a key that says so."""
    return None if before is _ABSENT or after is _ABSENT else Order.UNCLEAR


def _nothing(before: object, after: object) -> None:  # noqa: ARG001 - a Compare
    return None


def _ranked(rank: Callable[[Any], float], absent: float = math.nan) -> Compare:
    """Return a comparison by rank, a higher one tighter; `absent` ranks what is not there."""

    def compare(before: Any, after: Any) -> Order | None:  # noqa: ANN401 - JSON
        try:
            old, new = (absent if v is _ABSENT else float(rank(v)) for v in (before, after))
        except (AttributeError, KeyError, TypeError, ValueError):
            return Order.UNCLEAR
        if math.isnan(old) or math.isnan(new):
            return Order.UNCLEAR
        if old == new:
            return None
        return Order.TIGHTER if new > old else Order.LOOSER

    return compare


def _sizes(before: object, after: object) -> Order | None:
    """Sizes that must be accepted: more of them are tighter."""
    if not isinstance(before, list) or not isinstance(after, list):
        return _stated(before, after)
    old, new = set(before), set(after)
    if old == new:
        return None
    if old < new:
        return Order.TIGHTER
    return Order.LOOSER if new < old else Order.UNCLEAR


def _allowed(before: object, after: object) -> Order | None:
    """Names that are allowed: fewer of them are tighter, and without a list any is."""
    if not isinstance(before, list) or not isinstance(after, list):
        return _stated(before, after)
    old, new = set(before), set(after)
    if old == new:
        return None
    if new < old:
        return Order.TIGHTER
    return Order.LOOSER if old < new else Order.UNCLEAR


def _expected_range(before: object, after: object) -> Order:
    """The range of an output: a narrower one is tighter; symbols cannot be compared."""
    if not isinstance(before, list) or not isinstance(after, list):
        return _stated(before, after)
    if any(isinstance(end, str) for end in (*before, *after)):
        return Order.UNCLEAR
    (low, high), (new_low, new_high) = (
        (-math.inf if side[0] is None else side[0], math.inf if side[1] is None else side[1])
        for side in (before, after)
    )
    if new_low >= low and new_high <= high:
        return Order.TIGHTER
    return Order.LOOSER if new_low <= low and new_high >= high else Order.UNCLEAR


_MORE = _ranked(float)
_LESS = _ranked(lambda value: -value)
_PERCENT = _ranked(lambda text: -float(text.rstrip("%")))


def _margin(before: object, after: object) -> Order | None:
    """The margin of latency: a smaller one is tighter; `auto` cannot be compared with numbers.

    Without one nothing failed below what was allowed, so any is tighter.
    """
    if before is _ABSENT:
        return Order.TIGHTER
    words = any(not str(side).endswith("%") for side in (before, after))
    return Order.UNCLEAR if words else _PERCENT(before, after)


_ASKED = _ranked({False: 0.0, "auto": 1.0, True: 2.0}.__getitem__)
_NEAR_TIES = _ranked({"show": 0.0, "fail": 1.0}.__getitem__)
_EMPTY: Compare = _nothing

# Mappings that are walked, and what it means that one side has none; `_EMPTY`: as one without keys.
_MAPPINGS: Mapping[Path, Compare] = {
    ("latency",): _EMPTY,
    ("memory",): _EMPTY,
    ("self_checks",): _EMPTY,
    ("coverage",): _EMPTY,
    ("files",): _EMPTY,
    ("decisions",): _EMPTY,
    ("decisions", "*"): _EMPTY,
    ("decisions", "*", "detections"): _detections,
    ("decisions", "*", "*"): _stated,
    ("placement",): _EMPTY,
    ("placement", "*"): _EMPTY,
    ("contract",): _EMPTY,
    ("contract", "opset"): _stated,
    ("contract", "inputs"): _stated,
    # An input that is not named may not be required; of one that is, more is known.
    ("contract", "inputs", "*"): _unclear,
    ("contract", "outputs"): _EMPTY,
    ("contract", "outputs", "*"): _stated,
    ("contract", "sizes"): _EMPTY,
}
_DECISION: Mapping[str, Compare] = {
    "max_flips": _LESS,
    "near_tie": _LESS,
    "near_ties": _NEAR_TIES,
    "labels": _stated,
}
_LEAVES: Mapping[Path, Compare] = {
    ("repeat",): _MORE,
    ("timeout_s",): _LESS,
    ("latency", "measure"): _MORE,
    ("latency", "sessions"): _MORE,
    ("latency", "pairs"): _MORE,
    ("latency", "max_regression"): _PERCENT,
    ("latency", "margin"): _margin,
    ("latency", "enforce"): _MORE,
    ("latency", "time_budget_s"): _ranked(float, absent=0.0),
    ("latency", "cases"): _ranked(float, absent=0.0),
    ("latency", "batch_sizes"): _sizes,
    # Which CPUs a runner has free is no rule; both sides always run on the same.
    ("latency", "pin"): _nothing,
    ("memory", "max_regression"): _ranked(lambda t: -float(t.rstrip("%")), absent=-math.inf),
    ("memory", "enforce"): _ranked(float, absent=0.0),
    ("self_checks", "repeat"): _MORE,
    ("self_checks", "deterministic"): _MORE,
    **{("self_checks", name): _ASKED for name in ("rows", "order", "padding", "threads")},
    **{("decisions", "*", "*", key): compare for key, compare in _DECISION.items()},
    ("decisions", "*", "top_k", "order"): _MORE,
    ("decisions", "*", "kl", "max"): _LESS,
    ("decisions", "*", "cosine", "min"): _MORE,
    ("decisions", "*", "detections", "max_unmatched"): _LESS,
    ("decisions", "*", "detections", "max_score_change"): _ranked(
        lambda value: -value, absent=-math.inf
    ),
    # Rows below the score are no detections; without one, every row is.
    ("decisions", "*", "detections", "score"): _ranked(lambda value: -value, absent=math.inf),
    ("decisions", "*", "text", "max_edit_distance"): _LESS,
    ("coverage", "measure"): _ranked(float, absent=0.0),
    ("coverage", "failing"): _ranked({"warn": 0.0, "fail": 1.0}.__getitem__, absent=-1.0),
    ("coverage", "untested"): _ranked({"ignore": 0.0, "warn": 1.0}.__getitem__, absent=-1.0),
    ("placement", "*", "cpu_allowed"): _allowed,
    ("placement", "*", "min_share"): _ranked(lambda text: float(text.rstrip("%")), absent=0.0),
    ("placement", "*", "max_memcpy"): _ranked(lambda value: -value, absent=-math.inf),
    ("placement", "*", "precision"): _allowed,
    ("placement", "*", "changes"): _ranked({"warn": 0.0, "fail": 1.0}.__getitem__, absent=0.0),
    # How long a judge may take is no limit on what it judges.
    ("decisions", "*", "judge", "timeout_s"): _nothing,
    # A domain that is not named may not be used at all.
    ("contract", "opset", "*"): _ranked(lambda value: -value, absent=0.0),
    ("contract", "sizes", "*"): _sizes,
    ("contract", "batch"): _stated,
    ("contract", "padding"): _stated,
    **{
        ("contract", "inputs", "*", part): _stated for part in ("dtype", "shape", "layout", "range")
    },
    **{("contract", "outputs", "*", part): _stated for part in ("dtype", "shape", "layout")},
    ("contract", "outputs", "*", "range"): _expected_range,
    ("files", "*"): _file,
}
