"""A mailbox in a bucket, with boto3: a PUT is whole or not at all, so nothing is renamed."""

from collections.abc import Iterator
from typing import Any

import boto3
import urllib3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.transports.stores import (
    GONE,
    Listing,
    Store,
    StoredFile,
    bounded_bytes,
    bounded_listing,
    is_file_name,
)

_SECONDS = 30.0
_TRIES = 2
_PIECE = 1 << 20
_CHECK = "see whether bucket, keys (AWS_PROFILE or AWS_ACCESS_KEY_ID), AWS_ENDPOINT_URL and the network are right"


class S3Store(Store):
    """A bucket, or a prefix in it (without slashes at its ends), as a mailbox; the bucket has to be there already."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._client: Any = None  # boto3 has no types

    @property
    def address(self) -> str:
        return "/".join(filter(None, (f"s3://{self._bucket}", self._prefix)))

    def _list(self, folder: str) -> Listing:
        return bounded_listing(self._files_of(self._key(folder, "")))

    def _read(self, folder: str, name: str, most_bytes: int) -> bytes:
        wanted = f"bytes=0-{most_bytes}"  # one more than is taken, and a server may send all the same
        body = self._opened().get_object(Bucket=self._bucket, Key=self._key(folder, name), Range=wanted)["Body"]
        try:
            return bounded_bytes(iter(lambda: body.read(_PIECE), b""), most_bytes)
        finally:
            body.close()

    def _write(self, folder: str, name: str, data: bytes) -> None:
        self._opened().put_object(Bucket=self._bucket, Key=self._key(folder, name), Body=data)

    def _remove(self, folder: str, name: str) -> None:
        self._opened().delete_object(Bucket=self._bucket, Key=self._key(folder, name))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _key(self, folder: str, name: str) -> str:
        return "/".join((*filter(None, (self._prefix,)), folder, name))

    def _opened(self) -> Any:
        if self._client is None:
            retries = {"total_max_attempts": _TRIES, "mode": "standard"}
            times = Config(connect_timeout=_SECONDS, read_timeout=_SECONDS, retries=retries)
            self._client = boto3.session.Session().client("s3", config=times)
        return self._client

    def _files_of(self, start: str) -> Iterator[StoredFile | None]:
        request = {"Bucket": self._bucket, "Prefix": start, "Delimiter": "/"}
        while True:
            page = self._opened().list_objects_v2(**request)
            yield None  # so that pages without files come to an end, too
            for entry in page.get("Contents", []):
                name = entry["Key"].removeprefix(start)
                yield StoredFile(name, entry["Size"], entry["LastModified"]) if is_file_name(name) else None
            if not page.get("NextContinuationToken"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _known_trouble(self, error: Exception) -> MailboxTrouble | None:
        if isinstance(error, ClientError):
            code = error.response.get("Error", {}).get("Code")
            if code in ("NoSuchKey", "404"):
                return PostTrouble(self.address, GONE)
            # The writer of a file can have it refused to all readers: archived, private, or under a key of its own.
            kind = PostTrouble if error.operation_name == "GetObject" else MailboxTrouble
            return kind(self.address, f"its server refused a request ({code}); {_CHECK}, or ask its keeper")
        if isinstance(error, BotoCoreError | urllib3.exceptions.HTTPError | OSError):
            return MailboxTrouble(self.address, f"is not reached ({type(error).__name__}); {_CHECK}")
        return None
