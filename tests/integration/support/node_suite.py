"""The standard's node tests, written once into the test cache."""

from functools import cache

from ci_parity.base.progress import SilentProgress
from ci_parity.coverage.suite import suite_cases
from ci_parity.records.coverage import NodeCase
from tests.integration.support.cache import cache_dir


@cache
def node_suite() -> dict[str, NodeCase]:
    """Return all tests by the standard's own names."""
    cases = suite_cases(cache_dir(), SilentProgress())
    return {case.id.partition("/")[2]: case for case in cases}
