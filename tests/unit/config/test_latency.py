from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.latency import cpus
from ci_parity.config.load import policy


def latency(**keys: Any) -> Any:
    """Return the policy of latency with these keys."""
    return policy({"latency": keys}).latency


def test_the_margin_is_two_fifths_of_what_must_not_pass() -> None:
    """So that a wider budget does not fail on what it allows."""
    assert latency().margin == pytest.approx(0.02)
    assert latency(max_regression="10%").margin == pytest.approx(0.04)
    assert latency(max_regression="0%").margin == 0


def test_a_stated_margin_is_taken() -> None:
    """Up to the budget itself, where only what certainly breaks it fails."""
    assert latency(max_regression="10%", margin="10%").margin == pytest.approx(0.1)


def test_a_margin_above_the_budget_is_refused() -> None:
    """What must not pass would not fail either."""
    with pytest.raises(ConfigError, match=r"6%.*5%"):
        latency(margin="6%")


@pytest.mark.parametrize(
    ("text", "numbers"), [("", ()), ("3", (3,)), ("0-2,6", (0, 1, 2, 6)), ("2,1,2", (1, 2))]
)
def test_cpus_are_written_as_the_kernel_does(text: str, numbers: tuple[int, ...]) -> None:
    """Single numbers and ranges, each once."""
    assert cpus(text, "here") == numbers


@pytest.mark.parametrize("text", ["3-1", "9999"])
def test_ranges_that_are_none_are_refused(text: str) -> None:
    """The place is named."""
    with pytest.raises(ConfigError) as caught:
        latency(pin=text)
    assert "latency.pin" in str(caught.value)


def test_the_memory_policy_is_read() -> None:
    """A percentage, and whether it binds."""
    memory = policy({"memory": {"max_regression": "25%", "enforce": True}}).memory
    assert (memory.max_regression, memory.enforce) == (0.25, True)
