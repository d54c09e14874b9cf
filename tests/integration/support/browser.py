"""A headless Chromium: the one on PATH, playwright's own, or Debian's where it may be installed."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.integration.support.debian import HostLacksError, require_program

DEBIAN = "chromium-headless-shell"
PROGRAMS = (DEBIAN, "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield a browser; where there can be none, skip with the remedy, in CI fail."""
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        try:
            program = None if own.is_file() else _program()
        except HostLacksError as error:
            if "CI" in os.environ:
                raise
            pytest.skip(f"{error}; or run `playwright install chromium`")
        # A container's root has no user namespaces; the page under test is ours.
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=program, args=root)
        yield launched
        launched.close()


def _program() -> str:
    """Return the browser on PATH, installed where this process may.

    Raises ``HostLacksError`` where there is none and none can be installed.
    """
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        require_program(DEBIAN, DEBIAN)
        found = shutil.which(DEBIAN)
    assert found is not None
    return found
