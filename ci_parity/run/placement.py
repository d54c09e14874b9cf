"""Where the nodes of a model ran, asked of a worker once its cases have run.

The worker loads the model again for this and runs it once, so that nothing of it is in the outputs
or times that are judged. Where nothing but the CPU was there, nothing is asked. A worker that lacks
the verb, fails, dies or answers what cannot be read has told nothing; nothing is judged here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_parity.base.errors import EvidenceError
from ci_parity.config.model import PLAIN_CPU
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.observation import CaseInputs
from ci_parity.records.placement import Method, OperatorPlacement, Placement
from ci_parity.run.protocol import Worker, WorkerError

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
        return placement_in(answer)
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
    return Placement(
        method=told.method, operators=operators, memcpy=told.memcpy,
        why_not=told.why_not or ("" if told.memcpy is not None else "the runner counts no copies"),
    )  # fmt: skip


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
