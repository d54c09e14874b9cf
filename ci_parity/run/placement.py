"""Where the nodes of a model ran, asked of a worker once its cases have run.

The worker loads the model again for this and runs it once, so that nothing of it is in the outputs
or times that are judged. With it comes what the runtime made of the graph; where nothing but the
CPU was there, that alone is taken. A worker that lacks the verb, fails, dies or answers what cannot
be read has told nothing; nothing is judged here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import load_graph, subgraphs
from ci_parity.config.systems import PLAIN_CPU
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.executed import ExecutedGraph, ExecutedOperator, OperatorCount
from ci_parity.records.observation import CaseInputs
from ci_parity.records.placement import Method, OperatorPlacement, Placement
from ci_parity.run.protocol import Worker, WorkerError

if TYPE_CHECKING:
    from onnx import ModelProto

VERB = "placement"
_TOLD = {method.value for method in (Method.ASSIGNMENT, Method.PROFILE, Method.DEVICE)}
_MAX_OPERATORS = 1000
_MAX_NAMES = 100
_MAX_TEXT = 300


def on_plain_cpu(requested: str, used: Sequence[str]) -> Placement | None:
    """Return the placement where nothing but the CPU was asked for and is there, else None."""
    if requested in PLAIN_CPU and used and PLAIN_CPU.issuperset(used):
        return Placement(method=Method.CPU)
    return None


def measure(
    worker: Worker, verbs: Sequence[str], load: Mapping[str, object], case: CaseInputs | None,
    source: str, folder: Path, timeout_s: float,
) -> Placement:  # fmt: skip
    """Ask a worker where the nodes of a model run; it lets go of the one it has loaded.

    Args:
        worker: is asked.
        verbs: it has.
        load: the request that loads the model.
        case: the inputs of the one run that it may need; None for none.
        source: folder of the input files.
        folder: the exchange folder.
        timeout_s: seconds that loading and running may take.
    """
    if VERB not in verbs:
        return _unknown(f"the runner has no verb {VERB!r}")
    try:
        answer = worker.request(
            VERB,
            timeout_s=timeout_s,
            **load,
            inputs=to_json(case.inputs if case else ()),
            input_folder=Path(source),
            folder=folder,
        )
        told = placement_in(answer)
        return replace(told, executed=_beside_file(told.executed, load))
    except WorkerError as error:
        return _unknown(error.message)
    except EvidenceError as error:
        return _unknown(f"unreadable placement: {error.what}")


def placement_in(answer: Mapping[str, Any]) -> Placement:
    """Return what an answer says, with names as few and as short as are kept.

    Raises:
        EvidenceError: it is none that can be believed.
    """
    raw = {"method": answer.get("method"), "operators": answer.get("operators")}
    raw |= {"memcpy": answer.get("memcpy"), "why_not": str(answer.get("why_not", ""))[:_MAX_TEXT]}
    told = from_json(Placement, raw, where="worker")
    operators = tuple(_bounded(one) for one in told.operators[:_MAX_OPERATORS])
    counts = [one.count for one in operators] + [told.memcpy or 0]
    if told.method.value not in _TOLD or len(told.operators) > _MAX_OPERATORS or min(counts) < 0:
        problem = "a method, a number of operators or a count that cannot be"
        raise EvidenceError(problem, where="worker")
    why_not = told.why_not or ("" if told.memcpy is not None else "the runner counts no copies")
    return Placement(
        method=told.method, operators=operators, memcpy=told.memcpy, why_not=why_not,
        executed=_executed_in(answer.get("executed"), why_not),
    )  # fmt: skip


def _executed_in(raw: object, why_not: str) -> ExecutedGraph | None:
    """Return what an answer says of the graph that ran; None for a runner that says nothing."""
    if raw is None:
        return None
    told = from_json(ExecutedGraph, raw, where="worker")  # type: ignore[arg-type]
    sane = len(told.operators) <= _MAX_OPERATORS and all(one.count > 0 for one in told.operators)
    if not sane or told.original:
        raise EvidenceError("an executed graph that cannot be", where="worker")
    return ExecutedGraph(
        operators=tuple(
            ExecutedOperator(
                op_type=one.op_type[:_MAX_TEXT], takes=one.takes[:_MAX_TEXT],
                gives=one.gives[:_MAX_TEXT], count=one.count,
            )
            for one in told.operators
        ),
        own_names=told.own_names,
        why_not="" if told.operators else why_not or "no kernel ran",
    )  # fmt: skip


def _beside_file(ran: ExecutedGraph | None, load: Mapping[str, object]) -> ExecutedGraph | None:
    """Return what ran beside what the model's file has."""
    if ran is None:
        return None
    path = load["model"]
    try:
        counts = _counted(load_graph(path)) if isinstance(path, Path) else Counter()
    except EvidenceError as error:
        return replace(ran, why_not=ran.why_not or f"the model's file cannot be read: {error.what}")
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    original = tuple(OperatorCount(op_type=op, count=count) for op, count in ordered)
    return replace(ran, original=original[:_MAX_OPERATORS])


def _counted(model: "ModelProto") -> Counter[str]:
    """Return how many nodes of each operator a model has, in branches and functions too."""
    counts: Counter[str] = Counter()
    waiting = [list(model.graph.node), *(list(function.node) for function in model.functions)]
    while waiting:
        for node in waiting.pop():
            counts[node.op_type] += 1
            waiting += [list(graph.node) for graph in subgraphs(node)]
    return counts


def _bounded(one: OperatorPlacement) -> OperatorPlacement:
    """Return an entry with as many and as long names as are kept."""
    return OperatorPlacement(
        provider=one.provider[:_MAX_TEXT],
        op_type=one.op_type[:_MAX_TEXT],
        count=one.count,
        names=tuple(name[:_MAX_TEXT] for name in one.names[:_MAX_NAMES]),
    )


def _unknown(why_not: str) -> Placement:
    return Placement(method=Method.NONE, why_not=why_not[:_MAX_TEXT])
