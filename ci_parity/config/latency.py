"""How speed and memory are measured and judged, from values that are valid under the schema."""

from collections.abc import Mapping
from typing import Any

from ci_parity.base.errors import ConfigError
from ci_parity.config.model import LatencyPolicy, MemoryPolicy

AUTO = "auto"
# Of a budget of 5 % a growth of 2 % is still no failure; other budgets keep that proportion.
_MARGIN_OF_BUDGET = 0.4
_MAX_CPU = 4095


def latency_policy(raw: Mapping[str, Any]) -> LatencyPolicy:
    """Build the policy of latency.

    Raises:
        ConfigError: a margin above what is allowed, or CPUs that are none.
    """
    budget = percent(raw["max_regression"])
    margin = _MARGIN_OF_BUDGET * budget if raw["margin"] == AUTO else percent(raw["margin"])
    if margin > budget:
        raise ConfigError(
            f"a margin of {raw['margin']} is above the {raw['max_regression']} that is allowed",
            where="$.policy.latency.margin",
            remedy="the margin is what may grow without failing: at most max_regression",
        )
    return LatencyPolicy(
        measure=raw["measure"],
        sessions=raw["sessions"],
        pairs=raw["pairs"],
        max_regression=budget,
        margin=margin,
        enforce=raw["enforce"],
        time_budget_s=float(raw["time_budget_s"]),
        cases=raw["cases"],
        batch_sizes=tuple(raw["batch_sizes"]),
        pin=cpus(raw["pin"], "$.policy.latency.pin"),
    )


def memory_policy(raw: Mapping[str, Any]) -> MemoryPolicy:
    """Build the policy of memory."""
    return MemoryPolicy(max_regression=percent(raw["max_regression"]), enforce=raw["enforce"])


def percent(text: str) -> float:
    """Return `5%` as a fraction."""
    return float(text.rstrip("%")) / 100


def cpus(text: str, where: str) -> tuple[int, ...]:
    """Return the numbers of CPUs in a list such as `0-3,6`, as the kernel writes them.

    Raises:
        ConfigError: a range that runs backwards, or a number that no CPU has.
    """
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if low > high or high > _MAX_CPU:
            raise ConfigError(
                f"{part!r} is no range of CPUs", where=where, remedy="write such as 2 or 0-3,6"
            )
        found.update(range(low, high + 1))
    return tuple(sorted(found))
