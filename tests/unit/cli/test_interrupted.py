"""A command that is interrupted: one line, one exit code, and nothing of it goes on."""

import signal
import sys
from pathlib import Path

import pytest

from ci_parity.base.process import spawn
from ci_parity.cli import guarded
from tests.unit.base.test_process import closed


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX: run on Linux")
def test_what_it_started_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether or not anybody had come to hold it."""
    started = []

    def work() -> int:
        sleeping = [sys.executable, "-I", "-c", "import time; time.sleep(600)"]
        started.append(spawn(sleeping, env={}, cwd=tmp_path))
        raise KeyboardInterrupt

    assert guarded(work) == 130
    assert capsys.readouterr().err == "ci-parity: interrupted\n"
    assert started[0].returncode == -signal.SIGKILL
    closed(started[0])
