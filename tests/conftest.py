"""How the test modules are dealt out where several processes run them (`pytest -n`)."""

import functools
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
DOCKER_FIXTURES = "tests.integration.support.fixtures"


class ByModule(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Give every module to one process, and all that need Docker to the same one.

    The process that starts a daemon stops it at its end, under the tests of any other.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return DOCKER_FIXTURES if _needs_docker(module) else module


@functools.cache
def _needs_docker(module: str) -> bool:
    """Return whether the module at this path takes the fixtures of a Docker daemon."""
    return DOCKER_FIXTURES in (ROOT / module).read_text(encoding="utf-8")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByModule:
    """Deal them out by module, in the order of collection: the long ones come first."""
    config.option.loadscopereorder = False
    return ByModule(config, log)
