"""Where the nodes of one system ran, and what its runtime warned of: as told, not judged."""

import enum
from dataclasses import dataclass

from ci_parity.records.executed import ExecutedGraph


class Method(enum.Enum):
    """How it is known where nodes ran.

    `assignment`: the runtime says what it gave each node of its graph to. `profile`: one run was
    profiled; a kernel may be many nodes, and a branch that was not taken has none. `device`: one
    device ran the whole compiled model. `cpu`: nothing but the CPU was there. `none`: it is not.
    """

    ASSIGNMENT = "assignment"
    PROFILE = "profile"
    DEVICE = "device"
    CPU = "cpu"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlacement:
    """Nodes of one operator on one provider.

    `names` are the first of those that have one; a runtime need not name what runs where it was
    asked to.
    """

    provider: str
    op_type: str
    count: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one system's nodes ran; copies between providers are in `memcpy` alone.

    `why_not` says why nodes, or where those are known copies, were not counted; then `memcpy` is
    None. `executed` is None where nobody was asked what the runtime made of the graph.
    """

    method: Method
    operators: tuple[OperatorPlacement, ...] = ()
    memcpy: int | None = None
    why_not: str = ""
    executed: ExecutedGraph | None = None

    @property
    def count(self) -> int:
        """The number of nodes."""
        return sum(one.count for one in self.operators)

    @property
    def known(self) -> bool:
        """Whether nodes were counted."""
        return self.method not in {Method.NONE, Method.CPU}

    def on(self, provider: str) -> int:
        """Return how many nodes ran on a provider."""
        return sum(one.count for one in self.operators if one.provider == provider)

    def off(self, provider: str) -> tuple[OperatorPlacement, ...]:
        """Return what ran elsewhere than on a provider."""
        return tuple(one for one in self.operators if one.provider != provider)


class WarningKind(enum.Enum):
    """What a line that a runtime printed is about."""

    FALLBACK = "fallback"
    UNSUPPORTED = "unsupported node"
    REWRITE = "rewrite"
    DEPRECATED = "deprecated"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassedWarning:
    """A line that a runtime printed, without its time and place, and how often it did."""

    kind: WarningKind
    text: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPlacement:
    """What reports say of the candidate of one pair: asked for, in use, placed, warned of."""

    target: str
    variant: str
    requested: str
    providers: tuple[str, ...]
    placement: Placement
    warnings: tuple[ClassedWarning, ...] = ()
