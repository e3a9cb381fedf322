"""Large artifacts in a bucket of S3 or a service like it: needs the extra ``s3``.

An object is named by its digest, so only the same bytes replace it. Its bytes are hashed as they arrive, so what a
bucket returns needs no trust. The address of the service and the credentials are those of the usual variables, such as
``AWS_ACCESS_KEY_ID`` and ``AWS_ENDPOINT_URL``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from skillwire import limits
from skillwire.errors import SourceLocation, StorageError
from skillwire.model.digest import Digest


class S3Artifacts:
    """Fills :class:`skillwire.adapters.sql.artifacts.LargeArtifacts` with the bucket at ``url``, ``s3://NAME/BEGINNING``."""

    def __init__(self, url: str) -> None:
        self._url = url
        with self._errors():
            self._store = S3Store.from_url(url)

    def put(self, content: bytes) -> Digest:
        """Store an artifact, over one that is there, so that its age begins anew. Raises StorageError (``STORAGE``)."""
        digest = Digest.of(content)
        with self._errors():
            obstore.put(self._store, digest.hex, content, use_multipart=False)
        return digest

    def has(self, digest: Digest, size: int) -> bool:
        """Whether an artifact of this size is there. Raises StorageError (``STORAGE``)."""
        with self._errors(), suppress(NotFoundError, FileNotFoundError):
            return int(obstore.head(self._store, digest.hex)["size"]) == size
        return False

    def read(self, digest: Digest) -> bytes | None:
        """Return an artifact; None if it is lost or damaged. Raises StorageError (``STORAGE``)."""
        hashed, content = hashlib.sha256(), bytearray()
        with self._errors(), suppress(NotFoundError, FileNotFoundError):
            for piece in obstore.get(self._store, digest.hex):
                hashed.update(piece)
                content += piece
                if len(content) > limits.ARCHIVE_BYTES:
                    return None
        return bytes(content) if hashed.hexdigest() == digest.hex else None

    def aged(self, before: float) -> Iterator[tuple[Digest, Callable[[], bool]]]:
        """Give the artifacts older than ``before``, and what removes each. Raises StorageError (``STORAGE``)."""
        with self._errors():
            for page in obstore.list(self._store):
                for found in page:
                    if found["last_modified"].timestamp() < before:
                        yield Digest(f"sha256:{found['path']}"), partial(self._remove, found["path"], before)

    def _remove(self, name: str, before: float) -> bool:
        """Remove an object that is still older than ``before``; return whether it was. Raises StorageError."""
        with self._errors(), suppress(NotFoundError, FileNotFoundError):
            if obstore.head(self._store, name)["last_modified"].timestamp() < before:
                obstore.delete(self._store, name)
                return True
        return False

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            message = str(error).partition("\n")[0][:300]
            raise StorageError("STORAGE", message, place=SourceLocation(self._url)) from error
