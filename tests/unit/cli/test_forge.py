"""Which GitHub a rollback speaks to, and where a token never goes."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_parity.base.errors import CiParityError
from ci_parity.cli.forge import pull_requests
from ci_parity.stages.releasing.proposing import PullRequests
from ci_parity.stages.releasing.stream import Asked, open_stream
from tests.support.user_repository import linear_repository

TOKEN = {"GITHUB_TOKEN": "secret"}


def found(root: Path, origin: str, environ: Mapping[str, str]) -> PullRequests:
    """Return what proposes for a repository with a remote."""
    repository = linear_repository(root)
    if origin:
        repository.git("remote", "add", "origin", origin)
    asked = Asked(root=root)
    return pull_requests(open_stream(asked), asked, environ, lambda _: None)


@pytest.mark.parametrize(
    ("origin", "environ", "api", "repository"),
    [
        ("https://github.com/acme/models.git", {}, "https://api.github.com", "acme/models"),
        ("git@github.com:acme/models.git", {}, "https://api.github.com", "acme/models"),
        (
            "https://git.example/acme/models", {"GITHUB_API_URL": "https://git.example/api/v3"},
            "https://git.example/api/v3", "acme/models",
        ),
        (
            "https://github.com/acme/models.git", {"GITHUB_REPOSITORY": "acme/other"},
            "https://api.github.com", "acme/other",
        ),
    ],
    ids=["https", "ssh", "another server", "another name"],
)  # fmt: skip
def test_the_remote_and_the_environment_say_which(
    tmp_path: Path, origin: str, environ: Mapping[str, str], api: str, repository: str
) -> None:
    """The environment goes first; a workflow sets it."""
    known = found(tmp_path / "user", origin, TOKEN | dict(environ))
    assert (known.client.root, known.repository) == (api, repository)


@pytest.mark.parametrize(
    ("origin", "environ", "said"),
    [
        ("https://git.example/acme/models", TOKEN, "GITHUB_API_URL"),
        ("https://github.com/acme", TOKEN, "GITHUB_REPOSITORY"),
        ("", TOKEN, "GITHUB_REPOSITORY"),
        ("https://github.com/acme/models", {}, "no token"),
        ("https://github.com/acme/models", {"GITHUB_TOKEN": "a\nb"}, "no usable token"),
    ],
    ids=["a server that only the remote names", "no repository", "no remote", "no token",
         "no header"],
)  # fmt: skip
def test_a_token_is_sent_nowhere_by_guess(
    tmp_path: Path, origin: str, environ: Mapping[str, str], said: str
) -> None:
    """It is refused with what to set, before anything is asked."""
    with pytest.raises(CiParityError) as caught:
        found(tmp_path / "user", origin, environ)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
