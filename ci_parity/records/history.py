"""An earlier verdict on a pull request, as its comment remembers it."""

from dataclasses import dataclass

from ci_parity.records.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierVerdict:
    """What one run said of one commit.

    `run` and `attempt` order two verdicts; `page` is the number that the address of the run's page
    holds; `sha` is the judged commit, empty outside git.
    """

    run: int
    attempt: int
    page: int
    sha: str
    outcome: Outcome

    @property
    def order(self) -> tuple[int, int]:
        """The greater one is newer."""
        return self.run, self.attempt
