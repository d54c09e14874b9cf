"""What several modules of integration tests share for the length of a run."""

from tests.integration.support.browser import browser

__all__ = ["browser"]
