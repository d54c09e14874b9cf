"""How the graph of one variant differs from the one it is compared with, counted by operator."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMove:
    """An operator with more or fewer nodes; one of another domain has that before `::`."""

    op: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """Two graphs: nodes with those of subgraphs and functions, and what operator sets they import.

    `operators` are those whose number differs. Opsets are words such as `ai.onnx 17`.
    """

    target: str
    variant: str
    nodes_before: int
    nodes_after: int
    opsets_before: tuple[str, ...]
    opsets_after: tuple[str, ...]
    operators: tuple[OperatorMove, ...]
