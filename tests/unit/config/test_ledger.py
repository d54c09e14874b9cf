"""The ledger of a config: which keys it may have, and how long an entry holds."""

from datetime import date
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.ledger import LedgerEntry, entry_for, keys_of
from ci_parity.config.load import policy


def entries(*keys: str, until: str = "2027-03-01") -> tuple[LedgerEntry, ...]:
    """Build a ledger of these keys."""
    ledger: list[dict[str, Any]] = [
        {"key": key, "who": "ada", "why": "the new export rounds", "until": until} for key in keys
    ]
    return policy({"ledger": ledger}).ledger


@pytest.mark.parametrize(
    "key",
    [
        "tolerance", "outputs.probs", "outputs.a.b", "decisions.probs.top_k.max_flips", "repeat",
        "latency", "latency.max_regression", "self_checks.rows", "contract", "contract.sizes.batch",
        "contract.outputs.y.range", "case:typical", "reference:typical/probs", "target:gpu",
        "variant:int8", "fixtures", "base",
    ],
)  # fmt: skip
def test_keys_that_can_be_loosened(key: str) -> None:
    """A key of the policy or the contract, or something that may be missing."""
    assert entries(key)[0].key == key


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("tolerence", "'tolerance'"), ("latency.max_regresion", "latency"), ("case:", "case:NAME"),
        ("ledger", "keys: "), ("cases:typical", "case:NAME"), ("latency.", "latency"),
        ("contract.size.batch", "keys: "), ("outputs..", "outputs"),
    ],
)  # fmt: skip
def test_keys_that_name_nothing_are_refused(key: str, remedy: str) -> None:
    """An entry with a slip of the pen would allow nothing when it is needed."""
    with pytest.raises(ConfigError, match="names nothing") as refused:
        entries(key)
    assert remedy in refused.value.remedy
    assert refused.value.where == "$.policy.ledger[0].key"


def test_one_key_has_one_entry() -> None:
    """Two would be two answers to who allowed it."""
    with pytest.raises(ConfigError, match="two entries for 'repeat'"):
        entries("repeat", "repeat")


@pytest.mark.parametrize("until", ["2027-02-30", "2027-13-01", "0000-01-01"])
def test_a_day_is_one_of_the_calendar(until: str) -> None:
    """A day that never comes never ends."""
    with pytest.raises(ConfigError, match="no day of the calendar"):
        entries("repeat", until=until)


@pytest.mark.parametrize("missing", ["key", "who", "why", "until"])
def test_everything_is_said(missing: str) -> None:
    """Who, why and until when are not optional."""
    whole = {"key": "repeat", "who": "ada", "why": "x", "until": "2027-03-01"}
    with pytest.raises(ConfigError, match=missing):
        policy({"ledger": [{k: v for k, v in whole.items() if k != missing}]})


@pytest.mark.parametrize(
    ("today", "expired", "soon"),
    [
        (date(2027, 2, 14), False, False),
        (date(2027, 2, 15), False, True),
        (date(2027, 3, 1), False, True),
        (date(2027, 3, 2), True, False),
    ],
)
def test_an_entry_holds_up_to_the_end_of_its_last_day(
    today: date, *, expired: bool, soon: bool
) -> None:
    """And is announced two weeks before."""
    (entry,) = entries("repeat")
    assert (entry.expired(today), entry.ends_soon(today)) == (expired, soon)


def test_an_entry_allows_what_it_names_and_what_is_part_of_it() -> None:
    """Until it has expired."""
    ledger, today = entries("latency", "outputs.y"), date(2027, 1, 1)
    found = entry_for(ledger, keys_of(("latency", "max_regression")), today)
    assert found is not None
    assert str(found) == "ada until 2027-03-01: the new export rounds"
    assert entry_for(ledger, keys_of(("outputs", "y")), today) is not None
    assert entry_for(ledger, keys_of(("outputs", "z")), today) is None
    assert entry_for(ledger, keys_of(("outputs", "y")), date(2028, 1, 1)) is None


def test_a_name_with_dots_is_one_name() -> None:
    """An entry for one output does not allow another whose name goes on behind a dot."""
    ledger = entries("outputs.y")
    assert entry_for(ledger, keys_of(("outputs", "y.z")), date(2027, 1, 1)) is None
