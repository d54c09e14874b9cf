"""Attestations that GitHub keeps beside a repository, by the digest of what they speak of.

Sigstore bundles go in and come out as JSON; whether one vouches for anything is judged by whoever
asked, never here: that GitHub lists it says only that somebody with the permission put it there.
The interface: https://docs.github.com/rest/repos/attestations. What a listing does not hold lies
compressed (Snappy) at an address that it names, on another host, which never sees the token.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.errors import ConfigError
from ci_parity.github.client import RestClient
from ci_parity.github.exchange import Limits, Reply, Request, exchange
from ci_parity.github.refusals import ApiError, refusal

MAX_BUNDLE_BYTES = 1024 * 1024
_PAGE = 100
_ATTEMPTS = 3
_LIMITS = Limits(reply_bytes=MAX_BUNDLE_BYTES)


def store_attestation(client: RestClient, repository: str, bundle: Json) -> int | None:
    """Store a Sigstore bundle beside a repository and return its number there, if GitHub says it.

    Storing it once more does no harm, so a writing of unknown outcome is repeated.

    Args:
        client: the API, with a token that may write attestations.
        repository: OWNER/NAME.
        bundle: as JSON.

    Raises:
        PublishError: GitHub refuses, or does not answer.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            answer = client.post(f"/repos/{repository}/attestations", {"bundle": bundle})
        except ApiError as error:
            if not error.again or attempt == _ATTEMPTS:
                raise
        else:
            number = answer.get("id") if isinstance(answer, Mapping) else None
            return number if type(number) is int else None
    raise AssertionError("the last attempt returns or raises")


def list_attestations(
    client: RestClient, repository: str, digest: str, predicate_type: str
) -> tuple[Json, ...]:
    """Return what is stored for a digest; a repository that cannot be seen is no empty list.

    Args:
        client: the API; what is public it also shows to one without a token.
        repository: OWNER/NAME.
        digest: 64 hexadecimal digits.
        predicate_type: of the Statements that are wanted; GitHub leaves out others.

    Raises:
        PublishError: GitHub refuses, does not answer, or has more than are read.
        ConfigError: one is compressed, and what reads it is not installed.
    """
    kind = quote(predicate_type, safe="")
    path = f"/repos/{repository}/attestations/sha256:{digest}?per_page={_PAGE}"
    try:
        answer = client.get(f"{path}&predicate_type={kind}")
    except ApiError as error:
        if error.status != 404:
            raise
        # GitHub says the same of a digest without attestations and of what must not be seen.
        client.get(f"/repos/{repository}")
        return ()
    found = answer.get("attestations") if isinstance(answer, Mapping) else None
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise ApiError("GitHub answered with no list of attestations", where=path)
    if len(found) >= _PAGE:
        raise ApiError(f"there are {_PAGE} attestations of it, or more", where=path)
    return tuple(_bundle(client, one, path) for one in found)


def _bundle(client: RestClient, listed: Json, where: str) -> Json:
    if not isinstance(listed, Mapping):
        raise ApiError("GitHub lists an attestation in no form that is known", where=where)
    if listed.get("bundle"):
        return listed["bundle"]
    url = listed.get("bundle_url")
    if not isinstance(url, str) or not _may_be_asked(url, client.root):
        raise ApiError("GitHub lists an attestation and does not show it", where=where)
    request = Request(method="GET", url=url)
    outcome = exchange(request, "", _LIMITS, deadline_s=_LIMITS.exchange_s)
    # The address bears a signature that lets anyone read.
    place = f"{urlsplit(url).hostname}, named by GitHub"
    if not isinstance(outcome, Reply) or outcome.status != 200:
        error = refusal(request, outcome)
        raise ApiError(f"an attestation cannot be had: {error.what}", where=place)
    return parse_strict(_expanded(outcome.body, place), where=place)


def _may_be_asked(url: str, root: str) -> bool:
    """Tell whether an address is encrypted on its way, or as the API itself is."""
    try:
        asked, api = urlsplit(url), urlsplit(root)
    except ValueError:
        return False
    return bool(asked.hostname) and asked.scheme in {"https", api.scheme}


def _expanded(data: bytes, where: str) -> bytes:
    """Undo Snappy's compression (its block format), if what comes of it keeps to the limit."""
    try:
        from cramjam import DecompressionError, snappy
    except ImportError as error:
        raise ConfigError(
            f"GitHub shows attestations compressed, and a library is not installed: {error}",
            where="cramjam",
            remedy="install it: pip install 'ci-parity[sigstore]'",
        ) from error
    try:
        if snappy.decompress_raw_len(data) > MAX_BUNDLE_BYTES:
            raise ApiError(f"an attestation has more than {MAX_BUNDLE_BYTES} bytes", where=where)
        return bytes(snappy.decompress_raw(data))
    except DecompressionError as error:
        raise ApiError("an attestation is not compressed as GitHub does it", where=where) from error
