"""What a target lists of itself and what node tests show on it: one column of a matrix."""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.config.systems import Target
from ci_parity.coverage.presence import presence_of
from ci_parity.coverage.signatures import Sighting
from ci_parity.records.coverage import AskedTarget, NodeCase, Presence
from ci_parity.run.execute import Job
from ci_parity.run.kernels import listing_of
from ci_parity.run.runtime import HERE, Roots, prepare
from ci_parity.stages.coverage.probing import probed
from ci_parity.stages.coverage.running import run_cases
from ci_parity.stages.coverage.sharing import SharedResults


def asked_target(
    target: Target, cases: Sequence[NodeCase], model: Path, *, cache: Path, progress: Progress,
    timeout_s: float, nodes: Sequence[Sighting] = (), roots: Roots = HERE, baseline: str = "",
    shared: SharedResults | None = None,
) -> AskedTarget:  # fmt: skip
    """Ask a target for its kernels, and run on it what is not known from before.

    Args:
        target: its runtime, provider and options.
        cases: the node tests, with distinct ids.
        model: a model that lies where the target's process may look; it is not loaded.
        cache: where environments and earlier results are kept.
        progress: is told of every test that runs.
        timeout_s: how long one test may take.
        nodes: what models ask for; where its listing says nothing of one, it is asked for that
            node alone.
        roots: the folders that paths of a command start from.
        baseline: the runtime that it is compared with, empty for none.
        shared: what other runs showed.

    Raises:
        ConfigError: the runtime is none.
        InfrastructureError: it cannot be provided, or does not start.
    """
    launch = prepare(target.runtime, cache=cache, roots=roots)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        job = Job(launch=launch, model=model, target=target, timeout_s=timeout_s)
        listing = listing_of(job, Path(scratch))
    run = partial(
        run_cases, target=target, cache=cache, progress=progress, timeout_s=timeout_s, roots=roots,
        shared=shared,
    )  # fmt: skip
    ran = run(cases)
    alone, more = probed(
        (
            node for node in nodes
            if presence_of(node.signature, listing, target.provider).presence is Presence.UNKNOWN
        ),
        run,
    )  # fmt: skip
    return AskedTarget(
        name=target.name,
        runtime=launch.label,
        provider=target.provider,
        listing=listing,
        results={result.case: result for result in ran.results},
        baseline=baseline,
        system=ran.system.digest,
        measured=tuple(sorted(ran.measured | more)),
        probed=alone,
    )
