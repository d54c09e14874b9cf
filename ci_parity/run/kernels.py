"""Which kernels a runtime says it has, asked of a worker that has loaded no model.

A listing says what is registered, never that it is right: that is what tests are for. A worker that
lacks the verb, fails, dies or answers what cannot be read has told nothing; nothing is judged here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import from_json
from ci_parity.records.coverage import Kernel, Listing
from ci_parity.run.execute import Job, start
from ci_parity.run.protocol import WorkerError

VERB = "kernels"
_MAX_KERNELS = 50_000
_MAX_TEXT = 300


def listing_of(job: Job, folder: Path) -> Listing:
    """Start a worker and ask it for its kernels.

    Args:
        job: says how to start it and how long it may take; its model is not loaded.
        folder: the exchange folder.

    Raises:
        InfrastructureError: it cannot be started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with start(job, folder, folder) as worker:
            hello = worker.request("hello", timeout_s=job.timeout_s)
            if VERB not in (hello.get("verbs") or ()):
                return Listing(why_not=f"the runner has no verb '{VERB}'")
            return listing_in(worker.request(VERB, timeout_s=job.timeout_s))
    except WorkerError as error:
        return Listing(why_not=error.message[:_MAX_TEXT])
    except EvidenceError as error:
        return Listing(why_not=f"unreadable kernels: {error.what}"[:_MAX_TEXT])


def listing_in(answer: Mapping[str, Any]) -> Listing:
    """Return what an answer says.

    Raises:
        EvidenceError: it is none that can be believed.
    """
    names = ("kernels", "built_in", "functions", "casts")
    raw = {name: answer[name] for name in names if name in answer}
    told = from_json(Listing, raw, where="worker")
    if not told.kernels or len(told.kernels) > _MAX_KERNELS:
        problem = f"{len(told.kernels):,} kernels, between 1 and {_MAX_KERNELS:,} can be"
        raise EvidenceError(problem, where="worker")
    if not all(_can_be(kernel) for kernel in told.kernels):
        raise EvidenceError("a kernel without a name, or of no version", where="worker")
    return told


def _can_be(kernel: Kernel) -> bool:
    last = kernel.first if kernel.last is None else kernel.last
    return bool(kernel.op_type and kernel.provider) and 1 <= kernel.first <= last
