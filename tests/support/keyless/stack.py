"""The services that keyless signing talks to, in one server on the loopback interface.

- GET /token: a workflow's identity token, for the bearer that the runner gave it;
- POST /api/v2/signingCert: the authority, which believes tokens of its own issuer alone;
- POST /api/v1/log/entries and /api/v2/log/entries: the log;
- POST /timestamp: a clock that signs (RFC 3161, by openssl).

`trust_config` and `trusted_root` are the files that say whom to trust, in Sigstore's own form.
"""

import base64
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.support.keyless.authority import Authority, new_key, spki
from tests.support.keyless.clock import Clock
from tests.support.keyless.entries import EntryLog, b64

ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = "acme/models/.github/workflows/release.yml@refs/tags/v1"
IDENTITY = f"https://github.com/{WORKFLOW}"
BEARER = "the-runner's-own"


class Keyless:
    """The stack; a context manager.

    Attributes:
        claims: what the next token says.
        refusals: statuses that requests for these paths are answered with.
        silent: a path that no request gets an answer from before the stack is closed.
    """

    def __init__(
        self, scratch: Path, *, version: int = 1, authority: Authority | None = None
    ) -> None:
        self.authority = authority or Authority()
        # A checkpoint is signed under the host that the log has in the trusted root.
        self.log = EntryLog("127.0.0.1")
        self.version = version
        self.clock = Clock(scratch)
        self.refusals: dict[str, int] = {}
        self.silent = ""
        self.closing = threading.Event()
        self.asked: list[str] = []
        self.claims: dict[str, Any] = {
            "iss": ISSUER, "sub": "repo:acme/models:ref:refs/tags/v1",
            "job_workflow_ref": WORKFLOW, "repository": "acme/models", "ref": "refs/tags/v1",
            "sha": "c0ffee" * 6 + "c0ff", "repository_visibility": "public",
        }  # fmt: skip
        self._issuer_key = new_key()
        self._http = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (_Handler,), {"stack": self})
        )
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What a runner gives a job that may ask for a token."""
        return {
            "GITHUB_ACTIONS": "true", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": BEARER,
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/token?api-version=2.0",
        }  # fmt: skip

    # --- what the services answer --------------------------------------------------------------

    def token(self, audience: str) -> dict[str, str]:
        """Return a token for an audience."""
        now = int(time.time())
        claims = {**self.claims, "aud": audience, "iat": now, "nbf": now, "exp": now + 300}
        return {"value": jwt.encode(claims, self._issuer_key, algorithm="ES256")}

    def certificate(self, token: str, asked: dict[str, str]) -> dict[str, Any]:
        """Return a certificate for the key of a request and the claims of a token that holds."""
        claims = jwt.decode(
            token, self._issuer_key.public_key(), algorithms=["ES256"], audience="sigstore"
        )
        request = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
        assert request.is_signature_valid
        leaf = self.authority.issue(request.public_key(), claims)
        chain = [one.public_bytes(Encoding.PEM).decode() for one in (leaf, self.authority.root)]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}

    # --- whom to trust -------------------------------------------------------------------------

    def trusted_root(self) -> dict[str, Any]:
        """Return the keys and certificates that vouch for this stack."""
        window = {"start": _time(self.authority.begins), "end": _time(self.authority.ends)}
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_log(self.url, self.log.key, self.log.log_id)],
            "certificateAuthorities": [_authority(self.url, [self.authority.root], window)],
            "ctlogs": [_log(f"{self.url}/ct", self.authority.log_key, None)],
            "timestampAuthorities": [
                _authority(self.url, self.clock.chain, {"start": _time(self.clock.begins)})
            ],
        }  # fmt: skip

    def trust_config(self) -> dict[str, Any]:
        """Return where the services are, and whom to trust."""
        since = {"start": _time(datetime.now(UTC) - timedelta(days=1))}

        def service(url: str, version: int) -> list[dict[str, Any]]:
            return [
                {"url": url, "majorApiVersion": version, "validFor": since, "operator": "local"}
            ]

        signing = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": service(self.url, 1), "oidcUrls": service(self.url, 1),
            "rekorTlogUrls": service(self.url, self.version),
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": service(f"{self.url}/timestamp", 1),
            "tsaConfig": {"selector": "ANY"},
        }  # fmt: skip
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(), "signingConfig": signing,
        }  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write both files into a folder: trust.json and trusted_root.json."""
        (folder / "trust.json").write_text(json.dumps(self.trust_config()))
        (folder / "trusted_root.json").write_text(json.dumps(self.trusted_root()))


class _Handler(BaseHTTPRequestHandler):
    stack: Keyless
    timeout = 10.0

    def do_GET(self) -> None:
        """Give out a token."""
        parts = urlsplit(self.path)
        if self._refused(parts.path):
            return
        assert self.headers["Authorization"] == f"bearer {BEARER}"
        self._send(200, self.stack.token(parse_qs(parts.query)["audience"][0]))

    def do_POST(self) -> None:
        """Issue, log or stamp."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._refused(self.path):
            return
        stack = self.stack
        if self.path == "/timestamp":
            self._send(200, stack.clock.stamp(body), "application/timestamp-reply")
        elif self.path == "/api/v2/signingCert":
            bearer = self.headers["Authorization"].removeprefix("Bearer ")
            self._send(201, stack.certificate(bearer, json.loads(body)))
        elif self.path == "/api/v1/log/entries":
            self._send(201, stack.log.add_v1(json.loads(body)))
        else:
            assert self.path == "/api/v2/log/entries"
            self._send(201, stack.log.add_v2(json.loads(body)))

    def _refused(self, path: str) -> bool:
        self.stack.asked.append(path)
        if path == self.stack.silent:
            self.stack.closing.wait()
        status = self.stack.refusals.get(path, 0)
        if status:
            self._send(status, {"code": status, "message": "not today"})
        return bool(status)

    def _send(self, status: int, answer: Any, kind: str = "application/json") -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _log(url: str, key: Any, log_id: bytes | None) -> dict[str, Any]:
    import hashlib

    public = spki(key.public_key())
    return {
        "baseUrl": url, "hashAlgorithm": "SHA2_256",
        "publicKey": {
            "rawBytes": b64(public), "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": _time(datetime.now(UTC) - timedelta(days=2))},
        },
        "logId": {"keyId": b64(log_id or hashlib.sha256(public).digest())},
    }  # fmt: skip


def _authority(url: str, chain: list[x509.Certificate], window: dict[str, str]) -> dict[str, Any]:
    certificates = [{"rawBytes": b64(one.public_bytes(Encoding.DER))} for one in chain]
    return {
        "subject": {"organization": "local", "commonName": "local"}, "uri": url,
        "certChain": {"certificates": certificates}, "validFor": window,
    }  # fmt: skip
