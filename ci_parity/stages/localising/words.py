"""A divergence as one sentence that a reviewer can act on."""

from collections.abc import Sequence

from ci_parity.records.divergence import Conclusion, Divergence, NodeName
from ci_parity.records.observation import RunStatus

_SHOWN = 4
_LONGEST = 64


def sentence(found: Divergence) -> str:
    """Return where the boundary begins to fail, how that is known, and what it does."""
    if found.conclusion is Conclusion.NOT_REPRODUCIBLE:
        return (
            "not reproducible: run again on this case, the candidate's outputs agree with the "
            "baseline's"
        )
    if found.conclusion is Conclusion.CARRIED:
        return (
            f"no node is at fault: alone the case passes, after {_cases(found.after)} in the same "
            "session it fails; the candidate keeps something from one input to the next"
        )
    nodes = _nodes(found.nodes)
    match found.conclusion:
        case Conclusion.HERE:
            start = f"{nodes} {_does(found)}"
            how = "given the baseline's own tensors; nothing before does"
            if found.constant:
                how = "computed from weights alone; given the baseline's constant, the case passes"
        case Conclusion.FUSED:
            start = f"{nodes} {_does(found)} only as they are optimized together"
            how = "observed one by one they agree"
        case Conclusion.AMPLIFIED:
            start = f"no single node goes wrong: small differences grow over {nodes}"
            how = "each of them alone stays within the limit"
        case _:
            start = f"the fault is among {nodes}"
            how = "the search could not narrow it further"
    parts = [f"{start} ({how})", _optimizers(found), _effect(found), _further(found)]
    return "; ".join(part for part in parts if part)


def _cases(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _nodes(nodes: Sequence[NodeName]) -> str:
    shown = [f"{node.op_type} {_name(node)}" for node in nodes]
    if len(shown) > _SHOWN:
        shown = [*shown[: _SHOWN - 1], f"… {len(nodes) - _SHOWN} more …", shown[-1]]
    return ", ".join(shown) if shown else "nodes that compute nothing from the inputs"


def _name(node: NodeName) -> str:
    """Return a node's name as its model has it, the middle of a long one left out."""
    name = node.origin or node.name or next(iter(node.outputs), "")
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST // 4]}…{name[1 - 3 * _LONGEST // 4 :]}"
    return repr(name)


_ENDS = {
    RunStatus.CRASH: ("crashes the candidate", "crash the candidate"),
    RunStatus.TIMEOUT: ("hangs the candidate", "hang the candidate"),
}
_REFUSED = ("is refused by the candidate", "are refused by the candidate")
_WRONG = ("goes wrong", "go wrong")


def _does(found: Divergence) -> str:
    """Return what the nodes do, in the right number."""
    words = _WRONG if found.refusal is None else _ENDS.get(found.refusal, _REFUSED)
    return words[0] if len(found.nodes) == 1 else words[1]


def _optimizers(found: Divergence) -> str:
    if found.optimizers is None:
        return ""
    if not found.optimizers:
        return "it does not happen with graph optimizations off"
    return f"it does not happen without {' and '.join(found.optimizers)}"


def _effect(found: Divergence) -> str:
    if found.used is None or not 1 < found.used < float("inf"):
        return ""
    return f"these nodes alone use {found.used:.3g} times what the outputs are allowed"


def _further(found: Divergence) -> str:
    return "more is wrong behind them" if found.further else ""
