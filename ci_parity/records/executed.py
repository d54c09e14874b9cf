"""What a runtime made of a graph before it ran it: which kernels ran, on which element types."""

from collections import Counter
from dataclasses import dataclass

CASTS = ("Cast", "Convert")
"""In the words of ONNX and of OpenVINO."""

COMPILED = "(compiled)"
"""What a provider compiled of several nodes: neither its operators nor its types are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedOperator:
    """Kernels of one operator that take and give the same types; an empty type is not known.

    The types are those of the first input and of the first output.
    """

    op_type: str
    takes: str
    gives: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCount:
    """Nodes of one operator in the model's file, those in branches and functions among them."""

    op_type: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedGraph:
    """What ran of one model, beside what its file has; empty with `why_not` where nobody knows.

    `own_names` says that the operators have names of the runtime's, which are not ONNX's.
    """

    operators: tuple[ExecutedOperator, ...] = ()
    original: tuple[OperatorCount, ...] = ()
    own_names: bool = False
    why_not: str = ""

    @property
    def count(self) -> int:
        """How many kernels ran."""
        return sum(one.count for one in self.operators)

    @property
    def original_count(self) -> int:
        """How many nodes the file has."""
        return sum(one.count for one in self.original)

    @property
    def compiled(self) -> int:
        """How many kernels are what a provider compiled."""
        return sum(one.count for one in self.operators if one.op_type == COMPILED)

    @property
    def casts(self) -> Counter[tuple[str, str]]:
        """How many nodes cast which type to which."""
        found: Counter[tuple[str, str]] = Counter()
        for one in self.operators:
            if one.op_type in CASTS:
                found[one.takes, one.gives] += one.count
        return found

    @property
    def types(self) -> Counter[str]:
        """How many kernels take which type, casts and what is not told left out."""
        found: Counter[str] = Counter()
        for one in self.operators:
            if one.takes and one.op_type not in CASTS:
                found[one.takes] += one.count
        return found

    def by_operator(self) -> Counter[str]:
        """Return how many kernels there are of each operator."""
        found: Counter[str] = Counter()
        for one in self.operators:
            found[one.op_type] += one.count
        return found

    def in_file(self) -> Counter[str]:
        """Return how many nodes the file has of each operator."""
        return Counter({one.op_type: one.count for one in self.original})
