"""What a release changes: one line of action.yml, one commit, two tags."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from packaging.version import Version

from ci_parity import __version__
from ci_parity.base.errors import ConfigError, PublishError
from ci_parity.github.client import RestClient
from tests.support.github_server import GitHubServer
from tools.release import ROOT, publish, released_action, version_of

TESTED = "c" * 40
IMAGE = f"ghcr.io/ci-parity/ci-parity@sha256:{'d' * 64}"
SOURCE = (ROOT / "action.yml").read_text(encoding="utf-8")


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    """Serve a repository with one tested commit."""
    with GitHubServer() as github:
        github.trees["e" * 40] = {}
        github.commits[TESTED] = {"message": "tested", "tree": "e" * 40, "parents": []}
        yield github


def release(server: GitHubServer, version: str, token: str = "write-token") -> tuple[str, ...]:
    """Release a version of the tested commit."""
    client = RestClient(server.url, token)
    return publish(client, "acme/ci-parity", TESTED, Version(version), "name: CI Parity\n")


def test_released_action_pulls_the_image_and_is_the_same_otherwise() -> None:
    """Only `runs` differs, and it starts what the Dockerfile's ENTRYPOINT starts."""
    released = yaml.safe_load(released_action(SOURCE, IMAGE))
    source = yaml.safe_load(SOURCE)
    runs = released.pop("runs")
    assert source.pop("runs") == {"using": "docker", "image": "Dockerfile"}
    assert released == source
    assert (runs["using"], runs["image"]) == ("docker", f"docker://{IMAGE}")
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    (entry,) = [
        json.loads(line.split(None, 1)[1]) for line in lines if line.startswith("ENTRYPOINT")
    ]
    assert [runs["entrypoint"], *runs["args"]] == entry


@pytest.mark.parametrize("image", ["ghcr.io/ci-parity/ci-parity:1.0.0", f"x@sha256:{'d' * 63}"])
def test_an_image_without_a_digest_is_refused(image: str) -> None:
    """A tag can be moved under its users' feet."""
    with pytest.raises(ConfigError, match="sha256:DIGEST"):
        released_action(SOURCE, image)


def test_a_released_action_is_not_released_again() -> None:
    """What no longer builds its image is not what was tested."""
    with pytest.raises(ConfigError, match="does not build"):
        released_action(released_action(SOURCE, IMAGE), IMAGE)


def test_tag_and_sources_name_one_version() -> None:
    """A tag that the sources do not know releases nothing."""
    assert version_of(f"release/v{__version__}") == Version(__version__)
    for tag in (f"v{__version__}", "release/v99.0.0", "release/v1"):
        with pytest.raises(ConfigError, match="does not release"):
            version_of(tag)


def test_first_release_creates_both_tags_on_top_of_the_tested_commit(server: GitHubServer) -> None:
    """The new commit has the tested one as its parent and its tree, with another action.yml."""
    assert release(server, "1.0.0") == ("v1.0.0", "v1")
    sha = server.refs["refs/tags/v1.0.0"]
    assert server.refs["refs/tags/v1"] == sha
    commit = server.commits[sha]
    assert commit["parents"] == [TESTED]
    tree = server.trees[commit["tree"]]
    assert tree["base_tree"] == "e" * 40
    (entry,) = tree["tree"]
    assert (entry["path"], entry["content"]) == ("action.yml", "name: CI Parity\n")


def test_next_release_moves_the_major_tag_alone(server: GitHubServer) -> None:
    """`v1` follows; `v1.0.0` and the tags of other majors stay."""
    release(server, "1.0.0")
    first = dict(server.refs)
    server.refs["refs/tags/v10.0.0"] = server.refs["refs/tags/v10"] = TESTED
    assert release(server, "1.1.0") == ("v1.1.0", "v1")
    assert server.refs["refs/tags/v1.0.0"] == first["refs/tags/v1.0.0"]
    assert server.refs["refs/tags/v1"] == server.refs["refs/tags/v1.1.0"] != TESTED
    assert server.refs["refs/tags/v10"] == TESTED


def test_fix_of_an_older_version_leaves_the_major_tag(server: GitHubServer) -> None:
    """Users of `v1` are not sent back to 1.0.1 when 1.1.0 is out."""
    release(server, "1.1.0")
    assert release(server, "1.0.1") == ("v1.0.1",)
    assert server.refs["refs/tags/v1"] == server.refs["refs/tags/v1.1.0"]


def test_a_version_is_released_once(server: GitHubServer) -> None:
    """A version's tag is never moved, and the major tag stays with it."""
    release(server, "1.0.0")
    before = dict(server.refs)
    with pytest.raises(PublishError, match="already exists"):
        release(server, "1.0.0")
    assert server.refs == before


def test_a_token_that_may_not_write_releases_nothing(server: GitHubServer) -> None:
    """Without `contents: write` no tag appears."""
    with pytest.raises(PublishError, match="not accessible"):
        release(server, "1.0.0", token="fork-token")
    assert server.refs == {}


def test_the_program_refuses_a_foreign_tag() -> None:
    """The workflow's step ends with the error's exit code and says what to do."""
    arguments = ["--repository", "acme/ci-parity", "--commit", TESTED, "--image", IMAGE]
    done = subprocess.run(
        [sys.executable, "-m", "tools.release", *arguments, "--tag", "v0"],
        check=False, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"push the tag release/v{__version__}" in done.stderr
