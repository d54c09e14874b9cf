"""What the candidate's runtime made of the graph, held against the baseline's and its target.

Beside `placement`, which says where nodes ran: here it is which kernels there are after fusions and
other rewrites, and which element types they take. Two graphs are compared only where their files
have the same operators and their runtimes the same names for them: else the difference is the
model's. What a kernel computes with inside is told by no runtime, and not judged here.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ci_parity.config.model import PlacementPolicy
from ci_parity.records.executed import ExecutedGraph
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Placement

_SHOWN = 8
_FLOATS = ("float", "bfloat")
_UNASKED = "nobody was asked which kernels ran"


def judge_executed(
    subject: Subject, after: Placement, before: Placement | None, asked: PlacementPolicy
) -> Iterator[Finding]:
    """Yield what is wrong or new in the graph that ran.

    1. The floating-point types that kernels take, where the target names those it allows.
    2. Operators of which there are more or fewer kernels than on the baseline.
    3. Types that more or fewer kernels take or are cast between than on the baseline.

    Changes are warnings; where the target says that they fail, a change that could not be seen is
    open.

    Args:
        subject: target and variant.
        after: the candidate's.
        before: the baseline's, where there is one.
        asked: what the target asks for.
    """
    ran = after.executed
    if asked.precision is not None:
        yield _precision(subject, ran, asked.precision)
    if before is None:
        return
    binding = asked.changes == "fail"
    old = before.executed
    if ran is None or old is None or ran.why_not or old.why_not:
        if binding:
            yield _open(subject, f"whether the executed graph changed: {_why(ran) or _why(old)}")
        return
    if old.own_names == ran.own_names and old.original == ran.original:
        for found in (_rewritten(subject, old, ran), _retyped(subject, old, ran)):
            if found is not None:
                yield replace(found, advisory=not binding)


def _precision(subject: Subject, ran: ExecutedGraph | None, allowed: tuple[str, ...]) -> Finding:
    if ran is None or ran.why_not:
        return _open(subject, f"which types kernels take: {_why(ran)}")
    found = _floats(ran)
    wrong = Counter({t: n for t, n in found.items() if t not in allowed})
    evidence = f"kernels take {_listed(found) or 'no floating-point types'}"
    evidence += f"; allowed: {', '.join(allowed)}"
    judged = Finding(
        id="placement.precision", outcome=Outcome.FAIL if wrong else Outcome.PASS, subject=subject,
        evidence=evidence, measured=float(wrong.total()), limit=0.0, required=float(wrong.total()),
        unit="kernels",
        remedy="see which casts the runtime put in and why, or allow the type" if wrong else "",
    )  # fmt: skip
    if wrong or not ran.compiled:
        return judged
    unknown = f"what {ran.compiled} compiled kernels take: a provider does not tell"
    return _open(subject, unknown)


def _floats(graph: ExecutedGraph) -> Counter[str]:
    return Counter({t: n for t, n in graph.types.items() if t.startswith(_FLOATS)})


def _rewritten(subject: Subject, old: ExecutedGraph, new: ExecutedGraph) -> Finding | None:
    changed = _changed(old.by_operator(), new.by_operator())
    if not changed:
        return None
    evidence = f"of the same nodes the runtime made {new.count} kernels instead of {old.count}: "
    return _change("placement.graph", subject, evidence, changed)


def _retyped(subject: Subject, old: ExecutedGraph, new: ExecutedGraph) -> Finding | None:
    casts = [Counter({f"cast {a}→{b}": n for (a, b), n in g.casts.items()}) for g in (old, new)]
    # Kernels of a type come and go with fusions; that a type does is another precision.
    floats = [_floats(graph) for graph in (old, new)]
    types = _changed(
        Counter({t: n for t, n in floats[0].items() if t not in floats[1]}),
        Counter({t: n for t, n in floats[1].items() if t not in floats[0]}),
    )
    changed = {**types, **_changed(*casts)}
    return _change("placement.types", subject, "", changed) if changed else None


def _changed(old: Counter[str], new: Counter[str]) -> dict[str, tuple[int, int]]:
    return {n: (old[n], new[n]) for n in sorted({*old, *new}) if old[n] != new[n]}


def _change(
    kind: str, subject: Subject, evidence: str, changed: dict[str, tuple[int, int]]
) -> Finding:
    ordered = sorted(changed.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    words = ", ".join(f"{name} {old} → {new}" for name, (old, new) in ordered[:_SHOWN])
    more = len(ordered) - _SHOWN
    return Finding(
        id=kind, outcome=Outcome.FAIL, subject=subject,
        evidence=evidence + words + (f" and {more} more" if more > 0 else ""),
        measured=float(sum(abs(new - old) for old, new in changed.values())), unit="kernels",
        remedy="check that it is meant, and what it does to outputs and latency",
    )  # fmt: skip


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common(_SHOWN))


def _why(graph: ExecutedGraph | None) -> str:
    return _UNASKED if graph is None else graph.why_not


def _open(subject: Subject, evidence: str) -> Finding:
    return Finding(
        id="placement.unmeasured", outcome=Outcome.INCONCLUSIVE, subject=subject,
        evidence=f"not measured is {evidence}",
        remedy="use a runner whose placement tells what was executed, or ask for nothing",
    )  # fmt: skip
