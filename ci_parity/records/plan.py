"""One leg of a fanned-out run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A target on its runner: the variants that must run there, and which part of the cases."""

    target: str
    variants: tuple[str, ...]
    runs_on: tuple[str, ...]
    shard: int
    shards: int
