"""What the tests of the comment share: runs, what they leave, and publishing as one of them."""

from ci_parity.github.client import RestClient
from ci_parity.github.comment import Marker, publish_comment
from tests.support.github_server import GitHubServer


def marker(run: int = 10, attempt: int = 1, name: str = "ocr-reader") -> Marker:
    """Return the marker of a run."""
    return Marker(id=name, run=run, attempt=attempt, sha="a" * 40)


def stored(run: int, text: str, name: str = "ocr-reader") -> str:
    """Return a comment's text as a run would have left it."""
    return f"{marker(run, name=name).line()}\n{text}"


def publish(client: RestClient, text: str = "now", run: int = 10, attempt: int = 1) -> str:
    """Publish one text on acme/models#7."""
    return publish_comment(client, "acme/models", 7, [text], marker(run, attempt))


def texts(server: GitHubServer) -> list[str]:
    """Return the comments without their markers."""
    return [body.partition("\n")[2] for body in server.bodies()]
