"""Which GitHub a command speaks to, by its environment and the checkout's remote."""

from collections.abc import Callable, Mapping

from ci_parity.base.errors import ConfigError
from ci_parity.base.git import Remote, remote_of
from ci_parity.github.client import RestClient
from ci_parity.stages.releasing.proposing import PullRequests
from ci_parity.stages.releasing.stream import Asked, Stream

_GITHUB = "github.com"


def pull_requests(
    stream: Stream, asked: Asked, environ: Mapping[str, str], say: Callable[[str], None]
) -> PullRequests:
    """Return what proposes rollbacks of a stream.

    A token goes to the server that GITHUB_API_URL names, else to GitHub's own, and to no server
    that only a remote names.

    Raises:
        ConfigError: there is no token, or the repository or its server cannot be told.
        PublishError: the token is none that a header can carry.
    """
    repository, api_url = environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_API_URL", "")
    if not repository or not api_url:
        root = stream.deployment.root
        remote = remote_of(root, "origin", push=True)
        host, _, name = remote.name.partition("/") if isinstance(remote, Remote) else ("", "", "")
        api_url = api_url or (f"https://api.{_GITHUB}" if host == _GITHUB else "")
        repository = repository or (name if name.count("/") == 1 else "")
        if not repository or not api_url:
            raise ConfigError(
                "rollbacks go by pull request, and it cannot be told to which repository",
                where=str(root),
                remedy="set GITHUB_REPOSITORY (OWNER/NAME) and GITHUB_API_URL, or "
                "release.rollback: pointer",
            )
    token = (environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or "").strip()
    if not token:
        raise ConfigError(
            "rollbacks go by pull request, and there is no token that may open one",
            where="GITHUB_TOKEN",
            remedy="set it to a token that may write contents and pull requests there",
        )
    client = RestClient(api_url, token)
    return PullRequests(client=client, repository=repository, stream=stream, asked=asked, say=say)
