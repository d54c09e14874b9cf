"""Where nodes ran, in the words that all reports share."""

from collections.abc import Sequence

from ci_parity.records.placement import (
    ClassedWarning,
    Method,
    Placement,
    SystemPlacement,
    WarningKind,
)

_SHOWN = 5
_METHODS = {
    Method.ASSIGNMENT: "",
    Method.PROFILE: ", by the profile of one run",
    Method.DEVICE: ", of the compiled model",
}


def placement_line(system: SystemPlacement) -> str:
    """Return where a system's nodes ran, such as `7 of 9 nodes on X; elsewhere: 2 Shape`."""
    placed = system.placement
    if placed.method is Method.CPU:
        return "every node on the CPU: nothing else was there"
    if placed.method is Method.NONE:
        return f"not measured: {placed.why_not}"
    words = f"{placed.on(system.requested)} of {placed.count} nodes on {system.requested}"
    words += _METHODS[placed.method]
    elsewhere = sorted(placed.off(system.requested), key=lambda one: -one.count)
    if elsewhere:
        more = len(elsewhere) - _SHOWN
        shown = [f"{one.count} {one.op_type} on {one.provider}" for one in elsewhere[:_SHOWN]]
        words += f"; elsewhere: {', '.join(shown)}"
        words += f" and {more} more operators" if more > 0 else ""
    return f"{words}; {copies(placed)}"


def copies(placed: Placement) -> str:
    """Return how many copies between providers there are."""
    if placed.memcpy is None:
        return f"copies not counted: {placed.why_not}"
    return f"{placed.memcpy or 'no'} Memcpy node{'s' * (placed.memcpy != 1)}"


def counts(warnings: Sequence[ClassedWarning]) -> str:
    """Return how many warnings of each kind there are, such as `2 fallback, 1 other`."""
    found = {kind: sum(one.kind is kind for one in warnings) for kind in WarningKind}
    return ", ".join(f"{count} {kind.value}" for kind, count in found.items() if count)
