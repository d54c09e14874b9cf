"""A store in a folder or a bucket, by its name in the config; nothing of it is read yet.

A name never holds credentials: they come from the environment, as the libraries below find them. A
name that could hold some is refused without being shown.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import ConfigError
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_parity.release.objects.place import Place

_WHERE = "release.store"
# A scheme of one letter is a drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
_PREFIX = r"(?:/(?!\.)[A-Za-z0-9._=+-]+)*/?"
_BUCKET = re.compile(rf"//([A-Za-z0-9][A-Za-z0-9._-]{{1,254}})({_PREFIX})")
_CONTAINER = re.compile(
    rf"//([a-z0-9$][a-z0-9-]{{0,62}}(?:@[a-z0-9.-]{{1,253}})?)({_PREFIX})"
)  # fmt: skip
_HOW = (
    "write a folder, file:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or "
    "github-release:TAG"
)


def open_store(spec: str, root: Path) -> ObjectStore:
    """Return the store of released bytes that a spec names.

    A relative path starts at `root` and stays below it, links followed.

    Raises:
        ConfigError: for any other spec, and where a store's library is not installed.
    """
    match = _SCHEME.fullmatch(spec)
    scheme, name = (match[1], match[2]) if match else ("file", spec)
    if scheme == "file":
        return CheckedStore(_folder(name, root))
    return CheckedStore(open_bucket(scheme, name, _WHERE))


def open_bucket(scheme: str, name: str, where: str) -> "Place":
    """Return the part of a bucket that `scheme:name` is; nothing is asked of it yet.

    `where` is what names it in the config.

    Raises:
        ConfigError: as `open_store`.
    """
    if scheme not in _SCHEMES:
        raise ConfigError(f"unknown kind of store {scheme!a}", where=where, remedy=_HOW)
    form, open_place = _SCHEMES[scheme]
    parts = form.fullmatch(name)
    if parts is None:
        raise ConfigError(
            "not the address of a bucket and a prefix in it",
            where=f"{where}: {scheme}://…",
            remedy=f"write {scheme}://, the bucket and a prefix; credentials, queries and options "
            "come from the environment instead",
        )
    return open_place(scheme, parts[1], parts[2].strip("/"))


def _folder(name: str, root: Path) -> "Place":
    from ci_parity.release.objects.folder import FolderPlace

    if not name.strip() or not name.isprintable():
        raise ConfigError(f"{name!a} is not a path for a store", where=_WHERE, remedy=_HOW)
    path = (root / name).resolve()
    if not Path(name).is_absolute() and not path.is_relative_to(root.resolve()):
        raise ConfigError(
            f"the store {name!a} leaves the deployment's folder",
            where=f"{_WHERE}: {path}",
            remedy="keep it inside, or give an absolute path",
        )
    if path.exists() and not path.is_dir():
        raise ConfigError("the store is no folder", where=f"{_WHERE}: {path}", remedy=_HOW)
    return FolderPlace(path)


def _s3(scheme: str, bucket: str, prefix: str) -> "Place":
    try:
        from ci_parity.release.objects.s3_bucket import open_s3

        return open_s3(bucket, prefix, label=_label(scheme, bucket, prefix))
    except ImportError as error:
        raise _missing("s3", error) from error


def _gcs(scheme: str, bucket: str, prefix: str) -> "Place":
    from ci_parity.release.objects.bucket import BucketPlace

    try:
        from gcsfs import GCSFileSystem
        from gcsfs.retry import HttpError
        from google.auth.exceptions import GoogleAuthError
    except ImportError as error:
        raise _missing("gcs", error) from error
    return BucketPlace(
        GCSFileSystem(skip_instance_cache=True, use_listings_cache=False),
        _path(bucket, prefix),
        label=_label(scheme, bucket, prefix),
        failures=(OSError, HttpError, GoogleAuthError),
    )


def _azure(scheme: str, container: str, prefix: str) -> "Place":
    from ci_parity.release.objects.bucket import BucketPlace

    try:
        from adlfs import AzureBlobFileSystem
        from azure.core.exceptions import AzureError
    except ImportError as error:
        raise _missing("azure", error) from error
    container, _, host = container.partition("@")
    account = {"account_name": host.partition(".")[0]} if host else {}
    return BucketPlace(
        AzureBlobFileSystem(skip_instance_cache=True, use_listings_cache=False, **account),
        _path(container, prefix),
        label=_label(scheme, f"{container}@{host}" if host else container, prefix),
        failures=(OSError, AzureError, ValueError),
    )


_SCHEMES: dict[str, tuple[re.Pattern[str], "Callable[[str, str, str], Place]"]] = {
    "s3": (_BUCKET, _s3),
    "gs": (_BUCKET, _gcs),
    "az": (_CONTAINER, _azure),
    "abfs": (_CONTAINER, _azure),
}


def _path(bucket: str, prefix: str) -> str:
    return f"{bucket}/{prefix}".rstrip("/")


def _label(scheme: str, bucket: str, prefix: str) -> str:
    return f"{scheme}://{_path(bucket, prefix)}"


def _missing(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"the store needs a library that is not installed: {error}",
        where=_WHERE,
        remedy=f"install it: pip install 'ci-parity[{extra}]'",
    )
