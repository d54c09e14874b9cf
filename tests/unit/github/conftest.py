from collections.abc import Iterator

import pytest

from ci_parity.github.client import RestClient
from ci_parity.github.exchange import Limits
from tests.support.clock import FakeClock
from tests.support.github_server import GitHubServer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach the loopback server directly, whatever the machine's proxy."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    """Serve an empty pull request, acme/models#7."""
    with GitHubServer() as running:
        yield running


@pytest.fixture
def clock() -> FakeClock:
    """Wait without waiting."""
    return FakeClock()


@pytest.fixture
def client(server: GitHubServer, clock: FakeClock) -> RestClient:
    """Speak to the server as a workflow that may write."""
    return RestClient(server.url, "write-token", clock=clock, limits=Limits(exchange_s=5))
