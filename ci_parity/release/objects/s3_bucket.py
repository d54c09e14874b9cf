"""A store in a bucket of S3, or of what speaks its protocol, over s3fs.

A pointer is compared and set in one step, by the conditional requests of the protocol (`If-Match`,
`If-None-Match`). Credentials, region, endpoint (`AWS_ENDPOINT_URL`) and trusted certificates are
what botocore finds in its environment.
"""

from typing import TYPE_CHECKING, Any, cast

from ci_parity.release.objects.bucket import BucketPlace
from ci_parity.release.objects.place import Entry

if TYPE_CHECKING:
    from s3fs import S3FileSystem

_PROTOCOL_TRIES = 3
_TRANSPORT_TRIES = 2
_MAX_COPY_BYTES = 5 * 2**30
# Precondition failed; and a conflict, where another writer is at it at the same moment.
_NOT_MET = frozenset({409, 412})
_PROBE = "conditional-probe"
_TIMEOUTS_S = {"connect_timeout": 10, "read_timeout": 60}


def open_s3(bucket: str, path: str, *, label: str) -> "S3Place":
    """Return the place below `path` of a bucket; nothing is asked of it yet."""
    from aiohttp import ClientError as HttpError
    from botocore.exceptions import BotoCoreError
    from s3fs import S3FileSystem

    filesystem = S3FileSystem(
        skip_instance_cache=True,
        use_listings_cache=False,
        config_kwargs={
            **_TIMEOUTS_S, "retries": {"total_max_attempts": _PROTOCOL_TRIES, "mode": "standard"}
        },
    )  # fmt: skip
    filesystem.retries = _TRANSPORT_TRIES
    return S3Place(
        filesystem, f"{bucket}/{path}".rstrip("/"), label=label,
        failures=(OSError, BotoCoreError, HttpError),
    )  # fmt: skip


class S3Place(BucketPlace):
    """A bucket that compares a pointer and sets it in one step."""

    def passing(self, error: Exception) -> bool:
        """Tell whether another try may help: not where credentials or parameters are missing."""
        from botocore import exceptions

        final = (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.NoRegionError,
            exceptions.ParamValidationError,
        )
        # The answer to an upload's completion was lost, and asking again found none: look anew.
        if isinstance(error, OSError) and _code(error) == "NoSuchUpload":
            return True
        return not isinstance(error, final) and super().passing(error)

    def stat(self, key: str) -> Entry | None:
        """Return what lies at a key, by one request."""
        found = self._head(key)
        if found is None:
            return None
        return Entry(
            key=key, size_bytes=int(found["ContentLength"]),
            modified_s=found["LastModified"].timestamp(),
        )  # fmt: skip

    def renew(self, key: str) -> bool:
        """Copy an object onto itself, where one request can."""
        entry = self.stat(key)
        if entry is None or entry.size_bytes >= _MAX_COPY_BYTES:
            return False
        place = self._address(key)
        self._s3.call_s3(
            "copy_object", **place, CopySource=place, MetadataDirective="REPLACE",
            Metadata={},
        )  # fmt: skip
        return True

    def text(self, key: str) -> bytes | None:
        """Return the bytes of a pointer; that there is no such bucket is an error."""
        try:
            # Without concurrency the object itself is asked for first: only its answer tells a
            # bucket that is not there from a key.
            data: bytes = self._fs.cat_file(self._at(key), max_concurrency=1)
        except FileNotFoundError as error:
            if _code(error) == "NoSuchKey":
                return None
            raise
        return data

    def swap(self, key: str, text: bytes, before: bytes | None) -> bool:
        """Set a pointer on the condition that it is still the one that was compared."""
        condition = {"IfNoneMatch": "*"}
        if before is not None:
            # Taken before the bytes: whoever sets the pointer in between makes the condition fail.
            found = self._head(key)
            if found is None:
                return False
            condition = {"IfMatch": found["ETag"]}
        if self.text(key) != before:
            return False
        try:
            self._s3.call_s3("put_object", **self._address(key), Body=text, **condition)
        except OSError as error:
            if _status(error) == 412 or (_status(error) == 404 and before is not None):
                return False
            raise
        return True

    def is_conditional(self) -> bool:
        """Tell whether the server heeds conditions: it must not make anew what is there."""
        probe = {**self._address(_PROBE), "Body": b""}
        self._s3.call_s3("put_object", **probe)
        try:
            self._s3.call_s3("put_object", **probe, IfNoneMatch="*")
        except OSError as error:
            if _status(error) in _NOT_MET:
                return True
            raise
        return False

    def sweep(self, before_s: float) -> int:
        """End uploads in parts that began before a time and were never completed."""
        bucket, _, prefix = self._root.partition("/")
        marker: dict[str, str] = {}
        count = 0
        while True:
            page: dict[str, Any] = self._s3.call_s3(
                "list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/" if prefix else "",
                **marker,
            )  # fmt: skip
            for upload in page.get("Uploads", []):
                if upload["Initiated"].timestamp() < before_s:
                    self._s3.abort_mpu(bucket, upload["Key"], upload["UploadId"])
                    count += 1
            if not page.get("IsTruncated"):
                return count
            marker = {
                "KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"],
            }  # fmt: skip

    def _give_up(self, key: str) -> None:
        """Leave the key alone: what lies there was committed whole, by us or by another."""

    @property
    def _s3(self) -> "S3FileSystem":
        return cast("S3FileSystem", self._fs)

    def _find_bucket(self) -> None:
        self._s3.call_s3("head_bucket", Bucket=self._root.partition("/")[0])

    def _address(self, key: str) -> dict[str, str]:
        bucket, _, name = self._at(key).partition("/")
        return {"Bucket": bucket, "Key": name}

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._s3.call_s3("head_object", **self._address(key))
        except FileNotFoundError:
            return None
        return found


def _code(error: OSError) -> str:
    """Return the code in the answer that an error was made of, empty where there is none."""
    answer = getattr(error.__cause__, "response", None)
    return str(answer["Error"].get("Code", "")) if answer else ""


def _status(error: OSError) -> int:
    answer = getattr(error.__cause__, "response", None)
    return int(answer["ResponseMetadata"]["HTTPStatusCode"]) if answer else 0
