"""The loopback GitHub with releases and their assets, as GitHub keeps them.

Assets have names that GitHub cleans, one name for one asset, at least a byte each, a limit to their
number; an upload that breaks off leaves one in the state `starter`. Their bytes come from another
host, or straight away, as a GitHub Enterprise Server may do.
"""

import hashlib
import json
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.contracts.description import Exchanged, filled
from tests.support.asset_host import AssetHost
from tests.support.github_api import Answer, Grant
from tests.support.github_server import GitHubServer, Handler

RELEASE = 4711
_UPLOAD = re.compile(r"/repos/[^/]+/[^/]+/releases/(\d+)/assets")
_NAMES = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(slots=True, kw_only=True)
class Break:
    """What happens amid the next upload, once `after` others have gone well.

    `cut` closes the connection after half of the bytes, `refuse` answers with `status` then, and
    `hold` waits there until it is let go, or the client is gone.
    """

    kind: Literal["cut", "refuse", "hold"]
    status: int = 0
    after: int = 0


class ReleaseServer(GitHubServer):
    """The server, with a published release of the tag `store` in acme/models.

    Attributes:
        assets: assets by number, in the form the API shows them.
        host: where their bytes lie.
        breaks: what happens amid coming uploads.
        holding: set while an upload is held.
        let_go: ends the holding.
        over: set when an upload that was held has been dealt with.
        limit: how many assets GitHub takes.
        direct: whether bytes come straight away, without another host.
        uploads_at: where the release says that it takes uploads.
        immutable: whether the release takes no assets any more.
        twice: whether a name may be given twice.
    """

    def __init__(self, **settings: Any) -> None:
        self.handler = _AssetHandler
        super().__init__(**settings)
        self.assets: dict[int, dict[str, Any]] = {}
        self.host = AssetHost()
        self.breaks: list[Break] = []
        self.holding = threading.Event()
        self.let_go = threading.Event()
        self.over = threading.Event()
        self.limit = 1000
        self.direct = False
        self.uploads_at = ""
        self.immutable = False
        self.twice = False
        self.accepted = threading.local()

    def __enter__(self) -> Self:
        self.host.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *details: Any) -> None:  # noqa: PYI036 - handed on
        self.let_go.set()
        self.host.__exit__(*details)
        super().__exit__(*details)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a workflow's job finds in its environment."""
        return {
            "GITHUB_API_URL": self.url, "GITHUB_REPOSITORY": "acme/models",
            "GITHUB_TOKEN": "write-token",
        }  # fmt: skip

    def open_to_all(self) -> None:
        """Let whoever has no token read."""
        self._tokens[""] = Grant(login="", write=False)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of the complete assets that begin so, in the order they were made."""
        with self._lock:
            found = [one for _, one in sorted(self.assets.items()) if one["state"] == "uploaded"]
        return [one["name"] for one in found if one["name"].startswith(prefix)]

    def put_asset(
        self, name: str, data: bytes, *, state: str = "uploaded", age_s: float = 0
    ) -> int:
        """Make an asset without asking."""
        with self._lock:
            return int(self._make(name, data, state, age_s)["id"])

    def answer(self, method: str, target: str, token: str, body: bytes) -> Answer:
        """Carry a request out; what is uploaded is no text."""
        parts = urlsplit(target.removeprefix("/api/v3"))
        if method != "POST" or not _UPLOAD.fullmatch(parts.path):
            return super().answer(method, target, token, body)
        grant = self._tokens.get(token)
        with self._lock:
            refused = self._refused_upload(grant, parts.path, body)
            if refused is not None:
                return refused
            name = _NAMES.sub(".", parse_qs(parts.query)["name"][0])
            if self._taken(name):
                return _invalid("already_exists", "name")
            made = self._make(name, body, "uploaded", 0)
        asked = Exchanged.of(method, target.removeprefix("/api/v3"), b"", 201, b"")
        return Answer(status=201, data=filled(asked, made))

    def broke_off(self, target: str, token: str, body: bytes) -> None:
        """Keep what GitHub keeps of an upload that did not come to its end."""
        grant = self._tokens.get(token)
        if grant is not None and grant.write:
            with self._lock:
                name = parse_qs(urlsplit(target).query)["name"][0]
                self._make(_NAMES.sub(".", name), body, "starter", 0)

    def remember(self, method: str, path: str, body: bytes, answer: Answer) -> None:
        """Keep a request, without the bytes of an asset."""
        if isinstance(answer.data, bytes):
            return
        binary = _UPLOAD.fullmatch(urlsplit(path.removeprefix("/api/v3")).path)
        super().remember(method, path, b"" if binary and method == "POST" else body, answer)

    def _routes(self) -> Any:
        releases = r"/repos/(?P<repository>[^/]+/[^/]+)/releases"
        asset = rf"{releases}/assets/(?P<id>\d+)"
        return super()._routes() | {
            rf"GET {releases}/tags/(?P<tag>[^/]+)": self._get_release,
            rf"GET {releases}/{RELEASE}/assets": self._get_assets,
            rf"GET {asset}": self._get_asset,
            rf"PATCH {asset}": self._patch_asset,
            rf"DELETE {asset}": self._delete_asset,
        }

    def _get_release(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        if (where["repository"], unquote(where["tag"])) != ("acme/models", "store"):
            return _message(404, "Not Found")
        uploads = self.uploads_at or f"{self.url}/repos/acme/models"
        data = {
            "id": RELEASE, "tag_name": "store", "draft": False, "prerelease": True,
            "upload_url": f"{uploads}/releases/{RELEASE}/assets{{?name,label}}",
            "immutable": self.immutable, "assets": [],
        }  # fmt: skip
        return Answer(status=200, data=data)

    def _get_assets(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        size = min(int(where.get("per_page", "30")), 100)
        page = int(where.get("page", "1"))
        listed = [one for _, one in sorted(self.assets.items())]
        headers = {}
        if page * size < len(listed):
            address = f"{self.url}/repos/acme/models/releases/{RELEASE}/assets?per_page={size}"
            headers["Link"] = f'<{address}&page={page + 1}>; rel="next"'
        shown = listed[(page - 1) * size : page * size]
        return Answer(status=200, data=shown, headers=headers)

    def _get_asset(self, _: Grant, where: dict[str, str], __: str) -> Answer:
        number = int(where["id"])
        if number not in self.assets:
            return _message(404, "Not Found")
        if getattr(self.accepted, "type", "") != "application/octet-stream":
            return Answer(status=200, data=dict(self.assets[number]))
        if self.direct:
            return Answer(status=200, data=self.host.contents[number])
        return Answer(status=302, headers={"Location": self.host.address(number)})

    def _patch_asset(self, grant: Grant, where: dict[str, str], body: str) -> Answer:
        if not grant.write:
            return _forbidden()
        asset = self.assets.get(int(where["id"]))
        if asset is None:
            return _message(404, "Not Found")
        asked = json.loads(body)
        name = _NAMES.sub(".", asked.get("name", asset["name"]))
        if name != asset["name"] and self._taken(name):
            return _invalid("already_exists", "name")
        asset |= {"name": name, "label": asked.get("label", asset["label"])}
        return Answer(status=200, data=dict(asset))

    def _delete_asset(self, grant: Grant, where: dict[str, str], _: str) -> Answer:
        if not grant.write:
            return _forbidden()
        if int(where["id"]) not in self.assets:
            return _message(404, "Not Found")
        del self.assets[int(where["id"])]
        return Answer(status=204)

    def _refused_upload(self, grant: Grant | None, path: str, body: bytes) -> Answer | None:
        if grant is None:
            return _message(401, "Bad credentials")
        if not grant.write:
            return _forbidden()
        if path != f"/repos/acme/models/releases/{RELEASE}/assets":
            return _message(404, "Not Found")
        if not body:
            return _invalid("custom", "size", "size must be greater than or equal to 1")
        if len(self.assets) >= self.limit:
            words = f"file_count limited to {self.limit} assets per release"
            return _invalid("custom", "file_count", words)
        return None

    def _taken(self, name: str) -> bool:
        return not self.twice and any(one["name"] == name for one in self.assets.values())

    def _make(self, name: str, data: bytes, state: str, age_s: float) -> dict[str, Any]:
        number = self._next_number
        self._next_number += 1
        moment = datetime.fromtimestamp(datetime.now(UTC).timestamp() - age_s, UTC)
        self.host.contents[number] = data
        self.assets[number] = {
            "id": number, "name": name, "label": "", "state": state, "size": len(data),
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "created_at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "updated_at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "content_type": "application/octet-stream",
        }  # fmt: skip
        return dict(self.assets[number])


class _AssetHandler(Handler):
    """A request of which an upload may break off."""

    github: ReleaseServer
    held = False

    def do_POST(self) -> None:  # noqa: N802 - the name http.server calls
        """Serve, and say when a held upload was."""
        try:
            super().do_POST()
        finally:
            if self.held:
                self.github.over.set()

    def body(self, length: int) -> bytes:
        """Return the body; of an upload, as far as the next break or the client lets it come."""
        self.github.accepted.type = self.headers.get("Accept", "")
        path = urlsplit(self.path.removeprefix("/api/v3")).path
        if self.command != "POST" or not _UPLOAD.fullmatch(path):
            return super().body(length)
        half = self.rfile.read(length // 2)
        broken = self._break()
        if broken is not None and broken.kind == "refuse":
            self._send(_message(broken.status, "as told"), None)
            self.connection.shutdown(socket.SHUT_WR)
            self._rest(length - len(half))
            raise ConnectionAbortedError
        if broken is not None and broken.kind == "hold":
            self.held = True
            self.github.holding.set()
            self.github.let_go.wait(60)
        whole = half if broken and broken.kind == "cut" else half + self._rest(length - len(half))
        if len(whole) < length:
            token = self.headers.get("Authorization", "").partition(" ")[2]
            self.github.broke_off(self.path, token, whole)
            raise ConnectionAbortedError
        return whole

    def _rest(self, count: int) -> bytes:
        try:
            return self.rfile.read(count)
        except OSError:
            return b""

    def _break(self) -> Break | None:
        if not self.github.breaks:
            return None
        broken = self.github.breaks[0]
        if broken.after:
            broken.after -= 1
            return None
        return self.github.breaks.pop(0)


def _forbidden() -> Answer:
    accepted = {"X-Accepted-GitHub-Permissions": "contents=write"}
    return _message(403, "Resource not accessible by integration", accepted)


def _message(status: int, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    data = {"message": text, "documentation_url": "https://docs.github.com/rest"}
    return Answer(status=status, data=data | {"status": str(status)}, headers=headers or {})


def _invalid(code: str, field: str, message: str = "") -> Answer:
    detail = {"resource": "ReleaseAsset", "code": code, "field": field}
    errors: Sequence[Mapping[str, str]] = [detail | ({"message": message} if message else {})]
    data = {"message": "Validation Failed", "errors": errors}
    return Answer(status=422, data=data | {"documentation_url": "https://docs.github.com/rest"})
