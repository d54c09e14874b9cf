import re

import pytest

from ci_parity.base import errors
from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError
from ci_parity.records.outcome import Outcome


def tree() -> list[type[CiParityError]]:
    """Return the error classes that decide over exit codes; others only refine one of them."""
    kinds = [item for item in vars(errors).values() if isinstance(item, type)]
    return [kind for kind in kinds if issubclass(kind, CiParityError)]


def test_exit_codes_are_unique() -> None:
    """Among errors, and between errors and outcomes."""
    codes = [kind.exit_code for kind in tree()] + [outcome.exit_code for outcome in Outcome]
    assert len(codes) == len(set(codes))
    assert all(0 <= code < 126 for code in codes)


def test_every_error_has_an_exit_code_of_its_own() -> None:
    """None is inherited by accident."""
    assert all("exit_code" in vars(kind) for kind in tree())


def test_the_drawn_tree_is_the_real_one() -> None:
    """Every class with its exit code, and no other."""
    drawn = dict(re.findall(r"(\w+Error) +(\d+) ", errors.__doc__ or ""))
    assert drawn == {kind.__name__: str(kind.exit_code) for kind in tree()}


def test_the_codes_are_those_the_help_promises() -> None:
    """The design's numbers."""
    assert {kind.__name__: kind.exit_code for kind in tree()} == {
        "CiParityError": 70,
        "ConfigError": 2,
        "EvidenceError": 4,
        "InfrastructureError": 5,
        "PublishError": 6,
    }
    assert [outcome.exit_code for outcome in Outcome] == [0, 1, 3]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("no such key"), "no such key"),
        (ConfigError("no such key", where="a.yml:3"), "no such key\n  where:  a.yml:3"),
        (
            EvidenceError("cut short", where="x.onnx", remedy="fetch it again"),
            "cut short\n  where:  x.onnx\n  remedy: fetch it again",
        ),
        (EvidenceError("cut short", remedy="fetch it"), "cut short\n  remedy: fetch it"),
    ],
)
def test_an_error_says_what_where_and_what_to_do(error: CiParityError, text: str) -> None:
    """On lines of their own, only those that are known."""
    assert str(error) == text
    assert error.args == (error.what,)


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ((), Outcome.INCONCLUSIVE),
        ((Outcome.PASS,), Outcome.PASS),
        ((Outcome.PASS, Outcome.INCONCLUSIVE), Outcome.INCONCLUSIVE),
        ((Outcome.INCONCLUSIVE, Outcome.FAIL, Outcome.PASS), Outcome.FAIL),
    ],
)
def test_the_gravest_outcome_counts(outcomes: tuple[Outcome, ...], worst: Outcome) -> None:
    """And no outcome at all is no pass."""
    assert Outcome.worst(outcomes) is worst
