"""Fixtures of everything that needs Docker: a daemon, images in it, and a GitHub for what they run.

Where Docker cannot be had, the tests that need it are skipped with the reason, except in CI:
there a missing daemon is a failure, since a suite that skips itself proves nothing.
"""

import os
from collections.abc import Iterator

import docker
import pytest
from docker.models.images import Image

from tests.integration.support.base_image import ensure_base_image
from tests.integration.support.debian import HostLacksError
from tests.integration.support.docker_host import docker_daemon
from tests.integration.support.product_repo import PULL_REQUEST, REPOSITORY, ROOT
from tests.integration.support.runtime_image import ensure_runtime_image
from tests.support.github_server import GitHubServer


@pytest.fixture(scope="session")
def docker_client() -> Iterator[docker.DockerClient]:
    """Yield a client of a running daemon."""
    try:
        with docker_daemon() as client:
            yield client
    except HostLacksError as error:
        _skip_unless_ci(error)


@pytest.fixture(scope="session")
def base_image(docker_client: docker.DockerClient) -> str:
    """Return the name of the base image of our Dockerfile, which the daemon then holds."""
    try:
        return ensure_base_image(docker_client)
    except HostLacksError as error:
        _skip_unless_ci(error)
        raise


@pytest.fixture(scope="session")
def runtime_image(docker_client: docker.DockerClient, base_image: str) -> str:
    """Return the ID of an image with Python and onnxruntime, which the daemon then holds."""
    return ensure_runtime_image(docker_client, base_image)


@pytest.fixture(scope="session")
def action_image(docker_client: docker.DockerClient, base_image: str) -> Image:  # noqa: ARG001 - it is built on it
    """Return the action's image, built from what .dockerignore lets in, as the release does."""
    built, _ = docker_client.images.build(
        path=str(ROOT), tag="ci-parity-tests/action", rm=True, forcerm=True
    )
    return built


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    """Serve an empty pull request."""
    with GitHubServer(pulls=[(REPOSITORY, PULL_REQUEST)]) as server:
        yield server


def _skip_unless_ci(error: HostLacksError) -> None:
    if "CI" in os.environ:
        raise error
    pytest.skip(str(error))
