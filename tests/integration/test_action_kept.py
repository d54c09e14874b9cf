"""What outlives a step of the action: its cache in a volume of the daemon, its job's devices."""

import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container
from docker.models.images import Image

from ci_parity.run.container import owners
from ci_parity.run.container.again import VOLUME_LABEL
from tests.integration.support.act_runner import ActRun, run_act
from tests.integration.support.product_repo import (
    ROOT,
    Checkout,
    make_checkout,
)
from tests.support.github_server import GitHubServer

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.usefixtures("base_image")]

PYTHON = "/opt/venv/bin/python"
SOCKET = "/var/run/docker.sock"
CACHE = "/var/cache/ci-parity"
NOWHERE = {"UV_OFFLINE": "1", "UV_DEFAULT_INDEX": "http://127.0.0.1:9/"}
WORKFLOW = """\
on: [pull_request]
jobs:
  parity:
    runs-on: [self-hosted]
    steps:
      - uses: actions/checkout@v7
      - id: parity
        uses: ./
"""
# The outer container runs this, and what it starts, since that is equal to it, runs it again.
PROGRAM = f"""
import logging, os, sys, time
from pathlib import Path
from ci_parity.cli import guarded
from ci_parity.run.container.again import Wanted, run_again

logging.basicConfig(level=logging.WARNING)
kept = Path("{CACHE}/said")

def inner():
    print("before:", kept.read_text() if kept.exists() else "nothing", flush=True)
    print("workspace:", Path("/workspace/file").read_text(), os.getcwd(), flush=True)
    print("device:", Path("/dev/given").exists(), flush=True)
    print("words of the inner one", file=sys.stderr, flush=True)
    if kept.parent.is_dir():
        kept.write_text(os.environ["WORD"])
    time.sleep(float(os.environ.get("SLEEP_S", 0)))
    return 7

def outer():
    wanted = Wanted(
        volume=os.environ["VOLUME"], cache=Path("{CACHE}"), job=os.environ.get("JOB", "")
    )
    code = run_again(wanted, {{"INNER": "1", "WORD": os.environ["WORD"] + " again"}})
    return 99 if code is None else code

sys.exit(guarded(inner if os.environ.get("INNER") else outer))
"""


@pytest.fixture
def volume(docker_client: docker.DockerClient) -> Iterator[str]:
    """Return the name of a volume that is not there, removed in the end."""
    name = f"ci-parity-tests-{secrets.token_hex(8)}"
    yield name
    for found in docker_client.volumes.list(filters={"name": name}):
        found.remove()


def started(
    client: docker.DockerClient, image: Image, tmp_path: Path, volume: str, *mounts: str,
    **variables: str,
) -> Container:  # fmt: skip
    """Start the outer container as a runner does."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    (workspace / "file").write_text("mine", encoding="utf-8")
    binds = [f"{SOCKET}:{SOCKET}", f"{workspace}:/workspace", *mounts]
    environment = {"VOLUME": volume, "WORD": "hello", **variables}
    return client.containers.run(
        image, ["-c", PROGRAM], entrypoint=PYTHON, working_dir="/workspace", volumes=binds,
        environment=environment, detach=True, labels={"abcdef": ""},
    )  # fmt: skip


def ended(container: Container) -> tuple[int, list[str], list[str]]:
    """Wait for a container and remove it; return its exit status, and what it said on either."""
    try:
        code = container.wait(timeout=120)["StatusCode"]
        said = container.logs(stdout=True, stderr=False).decode().splitlines()
        errors = container.logs(stdout=False, stderr=True).decode().splitlines()
    finally:
        container.remove(force=True)
    return code, said, errors


def leftovers(client: docker.DockerClient) -> list[str]:
    """Return the IDs of our containers that are still there."""
    found = client.api.containers(all=True, filters={"label": owners.OWNER})
    return [container["Id"] for container in found]


def test_the_second_container_is_like_the_first_with_a_cache_that_stays(
    docker_client: docker.DockerClient, action_image: Image, tmp_path: Path, volume: str
) -> None:
    """Mounts, folder, variables, words and exit status are those of one; then nothing is left."""
    for before in ("nothing", "hello again"):
        code, said, errors = ended(started(docker_client, action_image, tmp_path, volume))
        assert (code, errors) == (7, ["words of the inner one"])
        assert said == [f"before: {before}", "workspace: mine /workspace", "device: False"]
    assert docker_client.volumes.get(volume).attrs["Labels"] == {VOLUME_LABEL: "true"}
    assert leftovers(docker_client) == []


def test_the_devices_of_the_job_are_the_action_s_too(
    docker_client: docker.DockerClient, action_image: Image, tmp_path: Path
) -> None:
    """Without a volume, too; a job without devices is no reason for a second container."""
    for devices, code in ((["/dev/zero:/dev/given"], 7), ([], 99)):
        job = docker_client.containers.create(action_image, devices=devices)
        try:
            outer = started(docker_client, action_image, tmp_path, "", JOB=str(job.id))
            found, said, _ = ended(outer)
        finally:
            job.remove(force=True)
        assert found == code
        assert ("device: True" in said) is bool(devices)
    assert leftovers(docker_client) == []


def test_a_cache_of_the_user_s_own_is_enough(
    docker_client: docker.DockerClient, action_image: Image, tmp_path: Path, volume: str
) -> None:
    """What is mounted already needs no volume."""
    outer = started(docker_client, action_image, tmp_path, volume, f"{tmp_path}:{CACHE}")
    assert ended(outer) == (99, [], [])
    assert docker_client.volumes.list(filters={"name": volume}) == []


def test_a_volume_that_cannot_be_had_costs_the_cache_alone(
    docker_client: docker.DockerClient, action_image: Image, tmp_path: Path
) -> None:
    """The daemon's words are a warning, and the step goes on without."""
    code, said, errors = ended(started(docker_client, action_image, tmp_path, "no/volume's name"))
    assert (code, said) == (99, [])
    assert "nothing is kept between runs: cannot create a container like this one" in errors[0]
    assert leftovers(docker_client) == []


@pytest.mark.parametrize("signals", [("SIGINT",), ("SIGTERM", "SIGINT"), ("SIGKILL",)])
def test_an_interrupted_step_leaves_nothing(
    docker_client: docker.DockerClient, action_image: Image, tmp_path: Path, volume: str,
    signals: tuple[str, ...],
) -> None:  # fmt: skip
    """A cancelled job interrupts the inner one; after a kill of ours the next run removes it."""
    outer = started(docker_client, action_image, tmp_path, volume, SLEEP_S="300")
    deadline = time.monotonic() + 60
    while b"device" not in outer.logs(stdout=True) and time.monotonic() < deadline:
        time.sleep(0.1)
    if signals == ("SIGKILL",):
        outer.kill()
        assert ended(outer)[0] == 137
        assert len(leftovers(docker_client)) == 1
        assert ended(started(docker_client, action_image, tmp_path, volume))[0] == 7
    else:
        # SIGTERM has a handler in entrypoint.py alone: here it ends nothing.
        for name in signals:
            outer.kill(name)
        code, _, errors = ended(outer)
        assert (code, errors[-1]) == (130, "ci-parity: interrupted")
    assert leftovers(docker_client) == []


def test_environments_outlive_a_step(
    tmp_path: Path, github: GitHubServer, docker_client: docker.DockerClient, volume: str
) -> None:
    """The first pull request on a runner builds them, the next ones download nothing."""
    checkout = make_checkout(tmp_path, WORKFLOW)
    base = checkout.head
    checkout.branch("change")
    checkout.bump_runtime()
    checkout.commit("bump onnxruntime")
    first = run(checkout, base, github, volume, {})
    assert (first.returncode, first.step("parity").outputs["verdict"]) == (0, "pass"), first.log
    again = run(checkout, base, github, volume, NOWHERE)
    assert (again.returncode, again.step("parity").outputs["verdict"]) == (0, "pass"), again.log
    (body,) = github.bodies()
    assert "PARITY PASS" in body
    assert leftovers(docker_client) == []
    # Without the volume nothing can be built there: the second run lived on the first.
    none = run(checkout, base, github, "", NOWHERE)
    assert none.step("parity").exit_code == 5, none.log


def run(
    checkout: Checkout, base: str, github: GitHubServer, volume: str, variables: Mapping[str, str]
) -> ActRun:
    """Run the checkout's workflow for its pull request, on a runner that keeps nothing else."""
    return run_act(
        checkout.root, "pull_request", checkout.pull_request_event(base), api_url=github.url,
        token="write-token",
        extra_mounts={checkout.remote: checkout.remote},
        local_repositories={"ci-parity/ci-parity@v1": ROOT},
        env={"CI_PARITY_CACHE_VOLUME": volume, **variables},
    )  # fmt: skip
