"""A fanned-out run: what is planned, and which part of it each runner takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ci_parity.records.identity import BaselineSource

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of several parts into which the cases of a set are dealt, counted from 1."""

    number: int = 1
    of: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the part that takes what is asked for once."""
        return self.number == 1

    def of_items(self, items: Sequence[_Item]) -> tuple[_Item, ...]:
        """Return every `of`-th item, from the `number`-th on."""
        return tuple(items[self.number - 1 :: self.of])


WHOLE = Part()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A target on its runner: the variants that run there, and which part of the cases.

    `name` is unique in a plan, and fit for a file's or an artifact's name.
    """

    name: str
    target: str
    variants: tuple[str, ...]
    runs_on: tuple[str, ...]
    shard: int
    shards: int

    @property
    def part(self) -> Part:
        """The part of the cases that runs."""
        return Part(number=self.shard, of=self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All legs of a run.

    `commit` is the commit that was checked out, empty outside git. `source` is the baseline that
    every leg compares with. `drift` says that the legs are there because their machines may have
    changed: each runs what differs where it is. Otherwise it runs all its variants.
    """

    deployment: str
    commit: str
    source: BaselineSource
    drift: bool
    legs: tuple[Leg, ...]
