"""Three outcomes; absence is never a pass."""

import enum
from collections.abc import Sequence


class Outcome(enum.Enum):
    """How a finding, a row or a whole run was judged."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"

    @classmethod
    def worst(cls, outcomes: Sequence["Outcome"]) -> "Outcome":
        """Return the gravest outcome; nothing measured is never a pass."""
        for outcome in (cls.FAIL, cls.INCONCLUSIVE):
            if outcome in outcomes:
                return outcome
        return cls.PASS if outcomes else cls.INCONCLUSIVE

    @property
    def exit_code(self) -> int:
        """The exit status of a command that ended with this outcome."""
        return {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.INCONCLUSIVE: 3}[self]
