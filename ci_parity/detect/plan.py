"""From the change set to the legs that must run: the matrix of a workflow, one leg a runner."""

from collections.abc import Iterator

from ci_parity.config.model import Deployment
from ci_parity.records.identity import ChangeSet
from ci_parity.records.plan import Leg


def legs(deployment: Deployment, changes: ChangeSet, shards: int = 1) -> tuple[Leg, ...]:
    """Return a leg for every target that has something to run, and every shard of its cases."""
    return tuple(_legs(deployment, changes, shards))


def _legs(deployment: Deployment, changes: ChangeSet, shards: int) -> Iterator[Leg]:
    for target in deployment.targets:
        variants = tuple(n.variant for n in changes.to_run if n.target == target.name)
        for shard in range(1, shards + 1 if variants else 1):
            yield Leg(
                target=target.name,
                variants=variants,
                runs_on=target.runs_on,
                shard=shard,
                shards=shards,
            )
