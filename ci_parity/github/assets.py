"""The assets of one release: listed, sent, renamed, removed, read.

An asset appears under a name in one step: it is sent under another and renamed, which GitHub
refuses where the name is taken. What GitHub makes of names, states and sizes is checked in its
answers. Nothing here knows what an asset is for.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.github.client import RestClient
from ci_parity.github.exchange import Limits, NoReply, Reply, Request
from ci_parity.github.refusals import ApiError, is_transient, refusal
from ci_parity.github.transfer import Download, Source, Upload, UploadEndedError, download

MAX_ASSET_BYTES = 2 * 2**30 - 1
MAX_ASSETS = 1000
# An hour of patience in all, within a job that may take six.
LIMITS = Limits(
    exchange_s=300.0, wait_s=120.0, waiting_s=3600.0, total_s=5 * 3600.0, pages=20,
)  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,248}[A-Za-z0-9_-])?")
_TEMPLATE = re.compile(r"\{\?[^}]*\}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """An asset as GitHub lists it.

    `is_complete` is false of one whose upload broke off. The times are since the epoch, by GitHub's
    clock.
    """

    id: int
    name: str
    label: str
    size_bytes: int
    is_complete: bool
    created_s: float
    updated_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A published release; `immutable` ones take no assets any more."""

    id: int
    upload_url: str
    immutable: bool


class ReleaseAssets:
    """The assets of the published release of a tag.

    Args:
        client: an API's root and its token.
        repository: `OWNER/NAME`.
        tag: the release's.
        limits: time and size of an exchange of bytes.
    """

    def __init__(
        self, client: RestClient, repository: str, tag: str, *, limits: Limits = LIMITS
    ) -> None:
        self._client = client
        self._repository = f"/repos/{repository}"
        self._tag = tag
        self._limits = limits
        self._release: Release | None = None

    def release(self) -> Release:
        """Return the release, asked for once.

        Raises:
            ApiError: there is none that is published, or the token may not see it.
        """
        if self._release is None:
            path = f"{self._repository}/releases/tags/{quote(self._tag, safe='')}"
            self._release = _release(self._client.get(path), self._where(path))
        return self._release

    def all(self) -> list[Asset]:
        """Return every asset, those whose upload broke off included; raises as `release`."""
        path = f"{self._repository}/releases/{self.release().id}/assets?per_page=100"
        return [_asset(item, self._where(path)) for item in self._client.items(path)]

    def get(self, identity: int) -> Asset | None:
        """Return an asset as it is now, `None` where it is gone."""
        path = self._path(identity)
        try:
            return _asset(self._client.get(path), self._where(path))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    @contextmanager
    def sending(self, name: str, size_bytes: int) -> Iterator["Sending"]:
        """Send an asset; it is complete once this block ends well.

        Raises:
            ApiError: GitHub refuses it, or gives no answer; with `again` set, another try may do.
        """
        assert _NAME.fullmatch(name), name
        request = Request(method="POST", url=self._upload_url(name))
        upload = Upload(request.url, self._client.token, size_bytes, self._limits)
        sending = Sending(upload)
        try:
            with suppress(UploadEndedError):
                yield sending
            outcome = upload.finish()
        except BaseException:
            upload.abandon()
            raise
        reply = self._settled(request, outcome)
        sending.asset = _asset(_parsed(reply, request), str(request))
        if (sending.asset.name, sending.asset.size_bytes) != (name, size_bytes):
            raise ApiError("GitHub made another asset of what was sent", where=str(request))
        if not sending.asset.is_complete:
            raise _again(ApiError("GitHub kept only a part of what was sent", where=str(request)))

    def rename(self, identity: int, name: str) -> bool:
        """Give an asset another name; false where that is taken.

        Raises:
            ApiError: as any writing; with `again` set where the asset is not there, or not yet.
        """
        assert _NAME.fullmatch(name), name
        try:
            found = self._change(identity, {"name": name})
        except ApiError as error:
            if "already_exists" in error.codes:
                return False
            error.again = error.again or error.status == 404
            raise
        if found.name != name:
            raise ApiError(
                f"GitHub turned the name {name!a} into {found.name!a}",
                where=self._where(self._path(identity)),
                remedy="use plainer names of channels and deployments",
            )
        return True

    def relabel(self, identity: int, label: str) -> bool:
        """Give an asset another label; false where it is gone."""
        try:
            self._change(identity, {"label": label})
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def delete(self, identity: int) -> None:
        """Remove an asset; that it is gone is no error."""
        try:
            self._client.delete(self._path(identity))
        except ApiError as error:
            if error.status != 404:
                raise

    def read(self, identity: int, start: int) -> Download:
        """Return the bytes of an asset from a position on.

        Raises:
            ApiError: they do not come; with `again` set, another try may do.
        """
        path = self._path(identity)
        request = Request(method="GET", url=f"{self._client.root}{path}")
        source = Source(url=request.url, token=self._client.token, start=start)
        outcome = download(source, self._limits)
        if isinstance(outcome, Download):
            return outcome
        error = refusal(request, outcome)
        self._pause_before_again(outcome, error)
        raise error

    def _change(self, identity: int, data: dict[str, Json]) -> Asset:
        path = self._path(identity)
        return _asset(self._client.patch(path, data), self._where(path))

    def _settled(self, request: Request, outcome: Reply | NoReply) -> Reply:
        if isinstance(outcome, Reply) and outcome.status == 201:
            return outcome
        error = refusal(request, outcome)
        self._pause_before_again(outcome, error)
        raise error

    def _pause_before_again(self, outcome: Reply | NoReply, error: ApiError) -> None:
        """Wait where another try may do, and mark the error so; too long a wait raises it."""
        if is_transient(outcome):
            self._client.pause(outcome, error)
            error.again = True

    def _upload_url(self, name: str) -> str:
        """Return where an asset is sent.

        Raises:
            ApiError: the release names a host that is not GitHub's for uploads: the token stays.
        """
        release = self.release()
        base = _TEMPLATE.sub("", release.upload_url)
        if not is_upload_address(self._client.root, base):
            raise ApiError(
                f"the release takes uploads at {base[:200]!a}, which is not of this API",
                where=self._client.root,
                remedy="check GITHUB_API_URL and the proxy in front of it",
            )
        return f"{base}?name={quote(name, safe='')}"

    def _path(self, identity: int) -> str:
        return f"{self._repository}/releases/assets/{identity}"

    def _where(self, path: str) -> str:
        return f"{self._client.root}{path}"


class Sending:
    """An asset on its way; `asset` is what GitHub made of it, once all was sent."""

    def __init__(self, upload: Upload) -> None:
        self.write = upload.write
        self._asset: Asset | None = None

    @property
    def asset(self) -> Asset:
        """The asset that was made."""
        assert self._asset is not None
        return self._asset

    @asset.setter
    def asset(self, made: Asset) -> None:
        self._asset = made


def is_upload_address(root: str, url: str) -> bool:
    """Tell whether an address takes the uploads of an API.

    Those of `api.HOST` go to `uploads.HOST`, those of a server of one's own to the same host.
    """
    api, given = urlsplit(root), urlsplit(url)
    if "@" in given.netloc or given.scheme != api.scheme or given.query or given.fragment:
        return False
    hosts = {api.netloc}
    if api.netloc.startswith("api."):
        hosts.add(f"uploads.{api.netloc.removeprefix('api.')}")
    return given.netloc in hosts


def _again(error: ApiError) -> ApiError:
    error.again = True
    return error


def _parsed(reply: Reply, request: Request) -> Json:
    try:
        return parse_strict(reply.body, where=str(request))
    except EvidenceError as error:
        raise _again(
            ApiError(f"GitHub's answer is not JSON: {error.what}", where=str(request))
        ) from error


def _release(value: Json, where: str) -> Release:
    match value:
        case {"id": int(identity), "upload_url": str(upload_url), **rest}:
            immutable = rest.get("immutable") is True
            return Release(id=identity, upload_url=upload_url, immutable=immutable)
    raise _odd("release", where)


def _asset(value: Json, where: str) -> Asset:
    match value:
        case {
            "id": int(identity), "name": str(name), "size": int(size), "state": str(state),
            "created_at": str(created), "updated_at": str(updated), **rest,
        }:  # fmt: skip
            label = rest.get("label")
            try:
                return Asset(
                    id=identity, name=name, label=label if isinstance(label, str) else "",
                    size_bytes=size, is_complete=state == "uploaded",
                    created_s=_seconds(created), updated_s=_seconds(updated),
                )  # fmt: skip
            except ValueError as error:
                raise _odd("asset", where) from error
    raise _odd("asset", where)


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment.timestamp()


def _odd(what: str, where: str) -> ApiError:
    return ApiError(
        f"GitHub answered with no {what}", where=where,
        remedy="check GITHUB_API_URL and the proxy in front of it",
    )  # fmt: skip
