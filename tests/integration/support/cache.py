"""Where slow test material waits for the next run, and how two test processes take turns.

Everything in the folder can be deleted at any time. ``CI_PARITY_TEST_CACHE`` moves it.
"""

import os
from pathlib import Path

import platformdirs
from filelock import FileLock


def cache_dir() -> Path:
    """Return the folder that outlives a test run; create it if it is missing."""
    chosen = os.environ.get("CI_PARITY_TEST_CACHE")
    path = Path(chosen) if chosen else platformdirs.user_cache_path("ci-parity-tests")
    path.mkdir(parents=True, exist_ok=True)
    return path


def exclusive(name: str) -> FileLock:
    """Return the lock under which one test process of this user does ``name`` at a time."""
    return FileLock(cache_dir() / f"{name}.lock")
