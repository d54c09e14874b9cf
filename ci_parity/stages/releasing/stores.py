"""The store of released bytes by its name in the config, those that need GitHub's API included.

The API and its token come from the environment, as a workflow has them; the repository too, unless
the name says another.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ci_parity.base.errors import ConfigError
from ci_parity.release.objects import opening
from ci_parity.release.objects.object_store import ObjectStore

if TYPE_CHECKING:
    from ci_parity.release.objects.place import Place

SCHEME = "github-release"
_SPEC = re.compile(
    r"(?:(?P<repository>[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}:)[A-Za-z0-9._-]+):)?"
    r"(?P<tag>(?!.*(?:\.\.|//|/\.|\.lock(?:/|\Z)|/\Z))[A-Za-z0-9][A-Za-z0-9._/+-]{0,199})"
)
_GITHUB = "https://api.github.com"
_HOW = f"write {SCHEME}:TAG, or {SCHEME}:OWNER/NAME:TAG for another repository's release"


def open_store(spec: str, root: Path, *, environ: Mapping[str, str] | None = None) -> ObjectStore:
    """Return the store that a spec names; nothing is asked of it yet.

    Args:
        spec: `github-release:[OWNER/NAME:]TAG`, or what `opening.open_store` takes.
        root: where a relative path starts.
        environ: the environment, else the process's own.

    Raises:
        ConfigError: for any other spec, and where the environment does not name the rest.
    """
    scheme, _, name = spec.partition(":")
    if scheme != SCHEME:
        return opening.open_store(spec, root)
    from ci_parity.release.objects.checked_store import CheckedStore

    return CheckedStore(_release(name, os.environ if environ is None else environ))


def _release(name: str, environ: Mapping[str, str]) -> "Place":
    from ci_parity.github.assets import LIMITS, ReleaseAssets
    from ci_parity.github.client import RestClient
    from ci_parity.github.context import is_gitea_api, is_repository
    from ci_parity.stages.releasing.asset_place import AssetPlace

    match = _SPEC.fullmatch(name)
    if match is None:
        raise ConfigError(
            "not the tag of a release", where=f"release.store: {SCHEME}:…",
            remedy=f"{_HOW}; credentials come from the environment instead",
        )  # fmt: skip
    repository = match["repository"] or environ.get("GITHUB_REPOSITORY", "")
    if not is_repository(repository):
        raise ConfigError(
            "nothing says which repository's release it is",
            where=f"release.store: {SCHEME}:{match['tag']}",
            remedy=f"write {SCHEME}:OWNER/NAME:{match['tag']}, or set GITHUB_REPOSITORY",
        )
    api_url = environ.get("GITHUB_API_URL") or _GITHUB
    if is_gitea_api(api_url):
        raise ConfigError(
            "a release of Gitea or Forgejo is no store", where=f"release.store: {SCHEME}:…",
            remedy="keep releases in a bucket or a folder",
        )  # fmt: skip
    token = (environ.get("INPUT_GITHUB_TOKEN") or environ.get("GITHUB_TOKEN") or "").strip()
    client = RestClient(_https(api_url), token, limits=LIMITS, anonymous=True)
    host = urlsplit(api_url).netloc.rpartition("@")[2]
    label = f"{SCHEME}:{repository}:{match['tag']}"
    return AssetPlace(
        ReleaseAssets(client, repository, match["tag"]),
        label=label if api_url.rstrip("/") == _GITHUB else f"{label} at {host}",
    )


def _https(api_url: str) -> str:
    """Return the API's root, if it is an address of HTTP and holds no credentials."""
    parts = urlsplit(api_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(
            "not the address of GitHub's API", where="GITHUB_API_URL",
            remedy="set it as a workflow has it, such as https://HOST/api/v3",
        )  # fmt: skip
    return api_url
