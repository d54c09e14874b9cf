"""Where a failed boundary begins to fail: the nodes, how that is known, and what they do."""

import enum
from dataclasses import dataclass

from ci_parity.records.finding import OutputComparison
from ci_parity.records.observation import RunStatus


class Conclusion(enum.Enum):
    """What the search for the first node that went wrong came to.

    `HERE`: these nodes, given the baseline's own tensors, break the case. `FUSED`: they do so only
    where the runtime optimizes them together, not where each is observed. `AMPLIFIED`: none of them
    does so alone; small differences grow over them until the case breaks. `BRACKET`: it is among
    them. `CARRIED`: no node, the case fails only after others in the same session.
    `NOT_REPRODUCIBLE`: the candidate, run again, passes. `OPEN`: nothing could be narrowed down.
    """

    HERE = "here"
    FUSED = "fused"
    AMPLIFIED = "amplified"
    BRACKET = "bracket"
    CARRIED = "carried"
    NOT_REPRODUCIBLE = "not_reproducible"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeName:
    """A node: its name, operator, outputs, and where it stood before the graph was flattened."""

    name: str
    op_type: str
    domain: str = ""
    outputs: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPoint:
    """One tensor on the way through the graph, on the candidate against the baseline.

    `position` counts nodes in the order of the search. `max_noise` and `rms_noise` are the largest
    difference and the root mean square of all, in noise floors of that tensor; None where it has no
    floor. `max_abs` is in the tensor's unit, None for what is no number.
    """

    tensor: str
    position: int
    op_type: str
    equal: bool
    max_abs: float | None = None
    max_noise: float | None = None
    rms_noise: float | None = None
    guilty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where one failed boundary begins to fail, on one case.

    `nodes` are the baseline's nodes, `candidate_nodes` those of the candidate's model where that is
    another one; `constant` says that they compute a constant, and what reads it is not at fault.
    `refusal` says how the candidate ended where it brought no outputs, `after` are cases without
    which before it this one passes. `used` is the part of its limit that the worst output uses on
    account of these nodes alone, `whole` the part it used in the failed run; None where no number
    says. `local` compares the tensors behind the nodes, both sides given the baseline's inputs.
    `optimizers` are the runtime's optimizations without which it does not happen. `further` says
    that more is wrong behind these nodes. `tried` counts the runs it took. `reproduction` is a
    folder, relative to the report's, empty where there is none.
    """

    target: str
    variant: str
    boundary: str
    case: str
    conclusion: Conclusion
    sentence: str
    nodes: tuple[NodeName, ...] = ()
    candidate_nodes: tuple[NodeName, ...] = ()
    constant: bool = False
    refusal: RunStatus | None = None
    after: tuple[str, ...] = ()
    used: float | None = None
    whole: float | None = None
    local: tuple[OutputComparison, ...] = ()
    optimizers: tuple[str, ...] | None = None
    further: bool = False
    unpaired: tuple[str, ...] = ()
    depth: tuple[DepthPoint, ...] = ()
    tried: int = 0
    reproduction: str = ""
