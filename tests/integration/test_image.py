"""The image that a release publishes: what is in it, what it weighs, how it starts.

Weighed without its base: the stand-in for the base, where no registry is reached, is larger than
the published one.
"""

import re

import docker
import pytest
from docker.models.images import Image

from ci_parity import __version__
from tests.integration.support.base_image import BASE_IMAGE
from tests.integration.support.product_repo import ROOT

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.usefixtures("base_image")]

PYTHON = "/opt/venv/bin/python"
_BUDGET = re.compile(r"at most (\d+) MB on top of its base")


def test_image_keeps_to_the_budget_of_the_readme(
    docker_client: docker.DockerClient, action_image: Image
) -> None:
    """What users pull beside Debian stays below what the README promises."""
    budget = _BUDGET.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert budget is not None
    base = docker_client.images.get(BASE_IMAGE)
    weight_mb = (action_image.attrs["Size"] - base.attrs["Size"]) / 1e6
    assert weight_mb <= int(budget[1]), f"{weight_mb:.0f} MB"


def test_image_holds_bytecode_and_nothing_that_only_builds_or_tests(
    docker_client: docker.DockerClient, action_image: Image
) -> None:
    """Starting compiles nothing; neither pip nor packages' own tests are pulled by users."""
    program = (
        "import pathlib\n"
        "root = pathlib.Path('/opt')\n"
        "ours = [p for p in root.glob('ci-parity/ci_parity/**/*.py')]\n"
        "cached = [p.parent / '__pycache__' / f'{p.stem}.cpython-*.pyc' for p in ours]\n"
        "print(sum(not list(c.parent.glob(c.name)) for c in cached), len(ours) > 50)\n"
        "print([str(p) for p in root.rglob('tests') if p.is_dir()])\n"
        "print([str(p) for p in root.glob('venv/lib/*/site-packages/pip')])\n"
    )
    said = docker_client.containers.run(
        action_image, ["-c", program], entrypoint=PYTHON, network_mode="none", remove=True
    )
    assert said.decode().splitlines() == ["0 True", "[]", "[]"]


def test_image_brings_the_command(docker_client: docker.DockerClient, action_image: Image) -> None:
    """The same image serves other CI systems by the command, from the folder it is started in."""
    said = docker_client.containers.run(
        action_image,
        ["-m", "ci_parity", "--version"],
        entrypoint=PYTHON,
        network_mode="none",
        remove=True,
    )
    assert __version__ in said.decode()


def test_image_reaches_buckets_and_rebuilds_inputs(
    docker_client: docker.DockerClient, action_image: Image
) -> None:
    """What was left out of it is not what these need: only the network is missing here."""
    program = (
        "import PIL.Image, soundfile, soxr, tokenizers\n"
        "from botocore.session import Session\n"
        "for name in ('s3', 'sts', 'sso', 'sso-oidc'):\n"
        "    Session().create_client(name, region_name='eu-west-1')\n"
        "from ci_parity.cli import run\n"
        "raise SystemExit(run(['store', 'list', '--store', 's3://models/reader']))\n"
    )
    environment = {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
    }  # fmt: skip
    container = docker_client.containers.create(
        action_image,
        ["-c", program],
        entrypoint=PYTHON,
        network_mode="none",
        environment=environment,
    )
    try:
        container.start()
        assert container.wait()["StatusCode"] == 5, container.logs().decode()
        assert "cannot read from the store: Could not connect" in container.logs().decode()
    finally:
        container.remove(force=True)


def test_entry_without_a_runner_says_what_is_missing(
    docker_client: docker.DockerClient, action_image: Image
) -> None:
    """Started by hand, the action's entry ends with a config error and its remedy."""
    container = docker_client.containers.create(action_image, network_mode="none")
    try:
        container.start()
        assert container.wait()["StatusCode"] == 2
        assert "`ci-parity check`" in container.logs().decode()
    finally:
        container.remove(force=True)
