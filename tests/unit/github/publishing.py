"""What the tests of the comment share: runs, what they leave, and publishing as one of them."""

from collections.abc import Sequence
from dataclasses import replace

from ci_parity.github.client import RestClient
from ci_parity.github.comment import publish_comment
from ci_parity.github.marker import Marker
from ci_parity.records.history import EarlierVerdict
from ci_parity.records.outcome import Outcome
from tests.support.github_server import GitHubServer


def marker(run: int = 10, attempt: int = 1, name: str = "ocr-reader") -> Marker:
    """Return the marker of a run."""
    return Marker(
        id=name, run=run, attempt=attempt, sha="a" * 40, outcome=Outcome.PASS, page=run
    )  # fmt: skip


def stored(run: int, text: str, name: str = "ocr-reader", *, after: Sequence[int] = ()) -> str:
    """Return a comment's text as a run would have left it, after runs that wrote there before."""
    past = tuple(
        EarlierVerdict(run=one, attempt=1, page=one, sha="a" * 40, outcome=Outcome.PASS)
        for one in after
    )
    return f"{replace(marker(run, name=name), history=past).line()}\n{text}"


def publish(client: RestClient, text: str = "now", run: int = 10, attempt: int = 1) -> str:
    """Publish one text on acme/models#7."""
    return publish_comment(client, "acme/models", 7, lambda _: [text], marker(run, attempt))


def texts(server: GitHubServer) -> list[str]:
    """Return the comments without their markers."""
    return [body.partition("\n")[2] for body in server.bodies()]


def markers(server: GitHubServer) -> list[Marker | None]:
    """Return the markers of the comments."""
    return [Marker.parse(body) for body in server.bodies()]
