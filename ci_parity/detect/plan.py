"""From the change set to the legs that must run: the matrix of a workflow, one leg a runner."""

from collections.abc import Iterator, Sequence

from ci_parity.config.systems import Target
from ci_parity.records.identity import PairName
from ci_parity.records.plan import Leg


def legs(
    targets: Sequence[Target], pairs: Sequence[PairName], *, shards: int = 1, cases: int = 1
) -> tuple[Leg, ...]:
    """Return a leg for every target that has something to run, and every part of its cases.

    Args:
        targets: in the order of the matrix; of two of one name the first counts.
        pairs: what must run, each on one of the targets.
        shards: parts into which the cases are dealt.
        cases: how many there are; no part is empty.
    """
    known = {target.name: target for target in reversed(targets)}
    names = dict.fromkeys(target.name for target in targets)
    return tuple(
        leg
        for name in names
        for leg in _legs(known[name], pairs, max(1, min(shards, cases)))
    )  # fmt: skip


def _legs(target: Target, pairs: Sequence[PairName], shards: int) -> Iterator[Leg]:
    variants = tuple(dict.fromkeys(p.variant for p in pairs if p.target == target.name))
    for shard in range(1, shards + 1 if variants else 1):
        yield Leg(
            name=target.name if shards == 1 else f"{target.name}@{shard}",
            target=target.name,
            variants=variants,
            runs_on=target.runs_on,
            shard=shard,
            shards=shards,
        )
