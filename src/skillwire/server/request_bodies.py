"""The bodies of calls: each read whole and limited, and all bodies held at one time limited together.

Credentials may be in a body, so it is read before its sender is known: two thousand anonymous clients must not make
this server hold two thousand of the largest bodies, and one address must not use up the space of other callers.
Small bodies are always read: the number of connections bounds them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

from starlette.types import Receive, Scope

from skillwire import limits
from skillwire.errors import DecodeError, StorageError, ValidationError
from skillwire.model.digest import Digest
from skillwire.server.execution_responses import problem_for
from skillwire.server.http import client_address, read_fields
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.quotas import network_of

#: The methods whose requests have a body.
WITH_BODY: Final = frozenset({"POST", "PUT"})
CROWDED: Final = Problem(
    503, "ENDPOINT_UNREACHABLE", "too many large calls are being read at once", fields={"Retry-After": "1"}
)


#: A body that would be decoded could be a bomb, and calls are small.
COMPRESSED: Final = "the body is compressed; send it without Content-Encoding"


class Bounds(NamedTuple):
    """Bytes of the ``largest`` body, of all held together, and of one address, and the responses to other bodies."""

    largest: int
    held: int
    of_address: int
    too_large: Problem
    compressed: Problem
    crowded: Problem = CROWDED


INVOCATIONS: Final = Bounds(
    limits.EXECUTION_REQUEST_BYTES,
    limits.EXECUTION_BODIES_BYTES,
    limits.EXECUTION_BODIES_ADDRESS_BYTES,
    problem_for(DecodeError("LIMIT_SIZE", f"an invocation has at most {limits.EXECUTION_REQUEST_BYTES:,} bytes")),
    problem_for(ValidationError("MEDIA_TYPE", COMPRESSED)),
)


class Body:
    """The body of a request; ``data`` is held until :meth:`release`."""

    __slots__ = ("_address", "_bodies", "_counted", "data")

    def __init__(self, bodies: Bodies, address: str) -> None:
        self._bodies = bodies
        self._address = address
        self._counted = 0
        self.data = b""

    def count(self, size: int) -> None:
        """Count ``size`` bytes of it as held. Raises ProblemError (503) when that is too much."""
        counted = size if size > limits.EXECUTION_SMALL_BODY_BYTES else 0
        if not self._bodies.change(self._address, counted - self._counted):
            raise ProblemError(self._bodies.crowded)
        self._counted = counted

    def release(self) -> None:
        """Forget it: the client does not read it any more."""
        self.data = b""
        self._bodies.change(self._address, -self._counted)
        self._counted = 0


class SpooledBody(NamedTuple):
    """A body in a file, its digest and its size."""

    file: BinaryIO
    digest: Digest
    size: int

    async def read(self) -> bytes:
        """Return its bytes."""
        self.file.seek(0)
        return await asyncio.to_thread(self.file.read) if self.size > limits.REGISTRY_ROW_BYTES else self.file.read()


class Bodies:
    """The bodies that are held now, within ``bounds``; ``spool`` makes a file for one."""

    def __init__(self, bounds: Bounds = INVOCATIONS, spool: Callable[[], BinaryIO] = BytesIO) -> None:
        self._bounds = bounds
        self._spool = spool
        self._held = 0
        self._of: Counter[str] = Counter()

    @property
    def crowded(self) -> Problem:
        """The response to a body for which there is no room now."""
        return self._bounds.crowded

    def change(self, address: str, size: int) -> bool:
        """Count so many bytes more of an address, or less; return whether there was room for them."""
        if size > 0 and (self._of[address] + size > self._bounds.of_address or self._held + size > self._bounds.held):
            return False
        self._held += size
        self._of[address] += size
        if not self._of[address]:
            del self._of[address]
        return True

    @asynccontextmanager
    async def reading(self, scope: Scope, receive: Receive) -> AsyncIterator[Body]:
        """Yield the body of a request; empty for a method without one. Raises ProblemError (413, 415, 503)."""
        body = Body(self, network_of(client_address(scope)))
        try:
            if scope["method"] in WITH_BODY:
                data = bytearray()
                async for piece in self._pieces(body, scope, receive):
                    data += piece
                body.data = bytes(data)
            yield body
        finally:
            body.release()

    @asynccontextmanager
    async def spooling(self, scope: Scope, receive: Receive) -> AsyncIterator[SpooledBody]:
        """Yield the body of a request in a file. Raises as :meth:`reading`, and StorageError."""
        body = Body(self, network_of(client_address(scope)))
        try:
            with self._spool() as file:
                digest, size = hashlib.sha256(), 0
                async for piece in self._pieces(body, scope, receive):
                    digest.update(piece)
                    size += len(piece)
                    if size > limits.REGISTRY_ROW_BYTES:  # it may go to the disk
                        await asyncio.to_thread(file.write, piece)
                    else:
                        file.write(piece)
                yield SpooledBody(file, Digest(f"sha256:{digest.hexdigest()}"), size)
        except OSError as error:
            raise StorageError("STORAGE", f"the body cannot be written: {error.strerror or error}") from error
        finally:
            body.release()

    async def _pieces(self, body: Body, scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
        """Yield the pieces of a body while there is room for them. Raises ProblemError (413, 415, 503)."""
        coding = read_fields(scope["headers"], b"content-encoding").get(b"content-encoding", "identity")
        if coding.strip().lower() not in {"", "identity"}:
            raise ProblemError(self._bounds.compressed)
        size, is_whole = 0, False
        while not is_whole:
            message = await receive()
            piece = message.get("body", b"")
            size += len(piece)
            if size > self._bounds.largest:
                raise ProblemError(self._bounds.too_large)
            body.count(size)
            yield piece
            is_whole = message["type"] == "http.disconnect" or not message.get("more_body", False)
