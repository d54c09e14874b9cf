import os
import subprocess
import sys

import pytest

from ci_parity.run.container.own import Place
from ci_parity.run.container.owners import OWNER, RUN, labels, owner, process_lives

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc: run on Linux")


def test_this_process_lives() -> None:
    """However old its container is."""
    assert process_lives(owner(Place()), age_s=1e9)


def test_a_process_that_ended_does_not() -> None:
    """However young its container is."""
    with subprocess.Popen(["sleep", "600"]) as process:
        words = owner(Place()).split(" ")
        started = _started(process.pid)
        said = " ".join([*words[:2], str(process.pid), started])
        assert process_lives(said, age_s=0)
        process.kill()
    assert not process_lives(said, age_s=0)


def test_another_process_with_the_same_number_is_another() -> None:
    """Numbers are used again; the time of the start is not."""
    words = owner(Place()).split(" ")
    assert not process_lives(" ".join([*words[:3], "1"]), age_s=0)


@pytest.mark.parametrize(
    "said", ["process elsewhere 1 1", "", "process", "someone else", "a b c d"]
)
def test_an_owner_that_cannot_be_asked_for_lives_as_long_as_a_job(said: str) -> None:
    """On another machine, before a restart, or by another version of ours."""
    assert process_lives(said, age_s=3600)
    assert not process_lives(said, age_s=6 * 24 * 3600)


def test_labels_name_the_run_and_the_owner() -> None:
    """In a container, that is the owner."""
    found = labels(Place(container="abc", labels={"0a1b2c": ""}))
    assert found[OWNER] == "container abc"
    assert found["0a1b2c"] == ""
    assert len(found[RUN]) == 32
    assert labels(Place())[OWNER].split(" ")[2] == str(os.getpid())


def _started(process: int) -> str:
    with open(f"/proc/{process}/stat", encoding="ascii") as stream:  # noqa: PTH123
        return stream.read().rpartition(")")[2].split()[19]
