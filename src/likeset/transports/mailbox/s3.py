"""A mailbox in a bucket, with fsspec's s3fs: a PUT is whole or not at all, so nothing is renamed.

Requests go through ``call_s3``, since s3fs's own files keep listings, read a whole answer however long it is, and split
large uploads into parts that a killed writer leaves behind. Keys, region and endpoint come from the usual variables
and files (``AWS_ACCESS_KEY_ID``, ``AWS_PROFILE``, ``AWS_ENDPOINT_URL``, ...).
"""

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import s3fs
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
)
from fsspec.asyn import sync
from fsspec.exceptions import FSTimeoutError

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.transports.mailbox.stores import (
    MOST_LISTED,
    Listing,
    StoredFile,
    bounded_listing,
    check_place,
    is_file_name,
    refuse_larger,
)

__all__ = ["S3Store"]

_SECONDS = 30.0
_TRIES = 2
_MOST_PAGES = 1000
_DENIED = "no permission; ask its keeper to let these keys list, read, write and remove there"
_NO_KEYS = "no keys for it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
_SLOW = "does not answer in time; it is tried again later"
_CODES = {
    "NoSuchBucket": "there is no such bucket; see whether its name and AWS_ENDPOINT_URL are right",
    "AccessDenied": _DENIED,
    "403": _DENIED,
    "InvalidAccessKeyId": "does not know the access key; set AWS_ACCESS_KEY_ID, or AWS_PROFILE, to one that it knows",
    "SignatureDoesNotMatch": "the secret key is not the right one; set AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "ExpiredToken": "the keys have expired; get new ones",
    "QuotaExceeded": "is full; nothing was written: ask its keeper to make room",
    "SlowDown": _SLOW,
}


class S3Store:
    """A bucket, or a prefix in it, as a mailbox; the bucket has to be there already.

    Args:
        bucket: its name.
        prefix: what the names of all files begin with, without slashes at the ends; may be empty.
        seconds: how long to wait for each answer.
    """

    def __init__(self, bucket: str, prefix: str, *, seconds: float = _SECONDS) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._seconds = seconds
        self._bucket_files: Any = None  # s3fs has no types

    @property
    def address(self) -> str:
        """``s3://`` with bucket and prefix."""
        return "/".join(filter(None, (f"s3://{self._bucket}", self._prefix)))

    def list(self, folder: str) -> Listing:
        """See ``Store.list``."""
        check_place(folder)
        with self._naming_troubles():
            # A bucket lists by name, so that the first ones are those with the first names.
            return bounded_listing(islice(self._files_of(self._key(folder, "")), MOST_LISTED))

    def read(self, folder: str, name: str, *, most_bytes: int) -> bytes:
        """See ``Store.read``."""
        check_place(folder, name)
        with self._naming_troubles():
            files = self._opened()
            data: bytes = sync(files.loop, self._first_bytes, files, self._key(folder, name), most_bytes + 1)
        refuse_larger(len(data), most_bytes, address=self.address)
        return data

    def write(self, folder: str, name: str, data: bytes) -> None:
        """See ``Store.write``."""
        check_place(folder, name)
        self._call("put_object", Key=self._key(folder, name), Body=data)

    def remove(self, folder: str, name: str) -> None:
        """See ``Store.remove``."""
        check_place(folder, name)
        self._call("delete_object", Key=self._key(folder, name))

    def close(self) -> None:
        """Let go of the connections."""
        self._bucket_files = None

    def _key(self, folder: str, name: str) -> str:
        return "/".join((*filter(None, (self._prefix,)), folder, name))

    def _opened(self) -> Any:
        if self._bucket_files is None:
            times = {"connect_timeout": self._seconds, "read_timeout": self._seconds, "retries": {"max_attempts": 0}}
            self._bucket_files = s3fs.S3FileSystem(
                skip_instance_cache=True, use_listings_cache=False, config_kwargs=times
            )
            self._bucket_files.retries = _TRIES
        return self._bucket_files

    def _call(self, method: str, **request: object) -> dict[str, Any]:
        with self._naming_troubles():
            answer: dict[str, Any] = self._opened().call_s3(method, Bucket=self._bucket, **request)
        return answer

    def _files_of(self, start: str) -> Iterator[StoredFile | None]:
        request = {"Prefix": start, "Delimiter": "/"}
        for _ in range(_MOST_PAGES):
            page = self._call("list_objects_v2", **request)
            for entry in page.get("Contents", []):
                name = entry["Key"].removeprefix(start)
                yield StoredFile(name, entry["Size"], entry["LastModified"]) if is_file_name(name) else None
            if not page.get("NextContinuationToken"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    async def _first_bytes(self, files: Any, key: str, most_bytes: int) -> bytes:
        """So many bytes at most, even if the server does not know ranges."""
        answer = await files._call_s3("get_object", Bucket=self._bucket, Key=key, Range=f"bytes=0-{most_bytes - 1}")
        data = bytearray()
        async with answer["Body"] as body:
            while len(data) < most_bytes and (piece := await body.read(most_bytes - len(data))):
                data += piece
        return bytes(data)

    @contextlib.contextmanager
    def _naming_troubles(self) -> Iterator[None]:
        try:
            yield
        except (OSError, BotoCoreError, ClientError, FSTimeoutError) as error:
            raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> MailboxTrouble:
        causes = (error, error.__cause__)
        code = next((cause.response["Error"]["Code"] for cause in causes if isinstance(cause, ClientError)), "")
        if code in ("NoSuchKey", "404"):
            return PostTrouble(self.address, "a file is gone; it was read or removed by somebody else")
        if code == "InvalidRange":
            return PostTrouble(self.address, "a file is empty; it was left alone")
        if code:
            return MailboxTrouble(self.address, _CODES.get(code, "its server refused a request; ask its keeper why"))
        for kinds, reason in (
            ((NoCredentialsError, PartialCredentialsError), _NO_KEYS),
            ((ConnectTimeoutError, ReadTimeoutError, TimeoutError, FSTimeoutError), _SLOW),
            (
                (EndpointConnectionError, HTTPClientError, OSError),
                "is not reached; see whether AWS_ENDPOINT_URL and the network are right",
            ),
        ):
            if any(isinstance(cause, kinds) for cause in causes):
                return MailboxTrouble(self.address, reason)
        return MailboxTrouble(self.address, f"cannot be used with these settings ({type(error).__name__})")
