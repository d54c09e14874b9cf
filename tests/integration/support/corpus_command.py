"""A case of the corpus as the words of a diff, on its stored inputs or on none."""

from pathlib import Path

from tests.corpus.catalogue import Case
from tests.integration.support.diff_command import lacks_wheels


def missing_for(case: Case) -> str:
    """Say what it takes to run a case and is not here; empty if nothing."""
    sides = (case.baseline, case.candidate)
    wheels = (lacks_wheels(side.requirement) for side in sides)
    return case.lacking or next((reason for reason in wheels if reason), "")


def words_of(case: Case, model: Path) -> list[str]:
    """Return the words that run a case's two sides on a model, without inputs."""
    words = [str(model), "--repeat", str(case.candidate.repeat)]
    for name, side in (("baseline", case.baseline), ("candidate", case.candidate)):
        words += [f"--{name}-runtime", side.requirement]
        words += [word for option in side.session_options for word in (f"--{name}-option", option)]
    return words
