"""Attestations beside a repository: stored, listed, and brought from where GitHub says they lie."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import cramjam
import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.github.attestations import (
    MAX_BUNDLE_BYTES,
    list_attestations,
    store_attestation,
)
from ci_parity.github.client import RestClient
from ci_parity.github.refusals import ApiError
from tests.support.clock import FakeClock
from tests.support.github_api import TOKENS, Grant
from tests.support.github_server import Fault, GitHubServer
from tests.unit.release.samples import digest

KIND = "https://ci-parity.dev/parity-release/v1"
SUBJECT = digest("bundle")


def bundle(name: str = SUBJECT, kind: str = KIND) -> dict[str, Any]:
    """Return what GitHub takes for a bundle around a Statement; nothing here verifies it."""
    statement = {"subject": [{"digest": {"sha256": name}}], "predicateType": kind}
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"tlogEntries": []},
        "dsseEnvelope": {"payload": payload, "signatures": []},
    }


def client(server: GitHubServer, token: str = "attest-token") -> RestClient:
    """Return the API with a token, and no real waiting."""
    return RestClient(server.url, token, clock=FakeClock(), anonymous=True)


def listed(server: GitHubServer, token: str = "attest-token") -> tuple[Any, ...]:
    """Return what is stored for the subject."""
    return list_attestations(client(server, token), "acme/models", SUBJECT, KIND)


def test_what_was_stored_is_listed_by_its_digest(server: GitHubServer) -> None:
    """And nothing else: neither another bundle's, nor another kind of Statement."""
    store = client(server)
    assert store_attestation(store, "acme/models", bundle()) == 1
    assert store_attestation(store, "acme/models", bundle(digest("other"))) == 2
    assert store_attestation(store, "acme/models", bundle(kind="https://slsa.dev/x")) == 3
    assert listed(server) == (bundle(),)


def test_an_unknown_outcome_is_written_again(server: GitHubServer) -> None:
    """Twice the same attestation vouches for no more than once."""
    server.fail(Fault(method="POST", path="/attestations", status=502, commit=True))
    assert store_attestation(client(server), "acme/models", bundle()) == 2
    assert listed(server) == (bundle(), bundle())
    server.fail(Fault(method="POST", path="/attestations", status=502, times=3))
    with pytest.raises(ApiError, match="502"):
        store_attestation(client(server), "acme/models", bundle())


def test_a_missing_permission_is_named(server: GitHubServer) -> None:
    """Once; asking again would change nothing."""
    with pytest.raises(ApiError) as caught:
        store_attestation(client(server, "write-token"), "acme/models", bundle())
    assert "attestations: write" in caught.value.remedy
    assert server.count("POST") == 1


def test_no_attestations_is_told_from_no_repository(server: GitHubServer) -> None:
    """GitHub answers both alike; an unseen repository must not count as unsigned."""
    assert listed(server) == ()
    server.fail(Fault(method="GET", path="/attestations/", status=404))
    server.fail(Fault(method="GET", path="/repos/acme/models$", status=404))
    with pytest.raises(ApiError, match="404"):
        listed(server)


def test_what_is_public_is_read_without_a_token() -> None:
    """A reader of a public repository needs none."""
    tokens = {**TOKENS, "": Grant(login="")}
    with GitHubServer(tokens=tokens) as server:
        store_attestation(client(server), "acme/models", bundle())
        assert listed(server, "") == (bundle(),)


@pytest.mark.parametrize(
    "body",
    ['{"attestations": null}', "[]", '{"attestations": [1]}', '{"attestations": [{}]}',
     '{"attestations": [{"bundle_url": "http://[bad/0"}]}',
     '{"attestations": [{"bundle_url": "file:///etc/passwd"}]}'],
)  # fmt: skip
def test_an_answer_in_another_form_is_no_empty_list(server: GitHubServer, body: str) -> None:
    """What cannot be read is an error, never unsigned."""
    server.fail(Fault(method="GET", path="/attestations/", status=200, body=body))
    with pytest.raises((ApiError, EvidenceError)):
        listed(server)


def test_more_than_are_read_is_an_error(server: GitHubServer) -> None:
    """A page that is full may have another behind it."""
    body = json.dumps({"attestations": [{"bundle": bundle()}] * 100})
    server.fail(Fault(method="GET", path="/attestations/", status=200, body=body))
    with pytest.raises(ApiError, match="100 attestations"):
        listed(server)


class _Storage(BaseHTTPRequestHandler):
    content = b""
    status = 200
    seen: list[Any]

    def do_GET(self) -> None:
        """Give the content to whoever has the address."""
        self.seen.append(self.headers)
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@contextmanager
def storage(content: bytes, status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """Serve some bytes on another port; yield the address and the headers of each request."""
    seen: list[Any] = []
    kind = type("Bound", (_Storage,), {"content": content, "status": status, "seen": seen})
    http = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}", seen
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def compressed(value: Any) -> bytes:
    """Return JSON as GitHub keeps it."""
    return bytes(cramjam.snappy.compress_raw(json.dumps(value).encode()))


def test_what_a_listing_leaves_out_is_brought_without_the_token(server: GitHubServer) -> None:
    """From another host, compressed, by an address that anyone may use."""
    store_attestation(client(server), "acme/models", bundle())
    with storage(compressed(bundle())) as (server.elsewhere, seen):
        assert listed(server) == (bundle(),)
    (headers,) = seen
    assert "Authorization" not in headers
    assert "attest-token" not in str(headers)


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"", 403, "cannot be had"),
        (b"not compressed", 200, "not compressed as GitHub does it"),
        (b"", 200, "not compressed as GitHub does it"),
        (bytes(cramjam.snappy.compress_raw(b"{")), 200, "malformed JSON"),
        (bytes(cramjam.snappy.compress_raw(b" " * (MAX_BUNDLE_BYTES + 1))), 200, "more than"),
    ],
    ids=["refused", "plain", "empty", "torn", "bomb"],
)
def test_what_lies_elsewhere_and_cannot_be_read_is_an_error(
    server: GitHubServer, content: bytes, status: int, words: str
) -> None:
    """It is there, so it is not unsigned; it cannot be judged, so it is no pass."""
    store_attestation(client(server), "acme/models", bundle())
    with (
        storage(content, status) as (server.elsewhere, _),
        pytest.raises((ApiError, EvidenceError), match=words),
    ):
        listed(server)
