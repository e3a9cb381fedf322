"""How much of what is asked, and of what is answered, is held at one time.

A request of 4 MiB may be answered with 32, and its reader may be slow. Both are counted together, for all and for each
address, until the answer is out (:mod:`skillwire.server.invocation.bodies`). Trust: strangers ask.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SkillwireError
from skillwire.server.auth.rate_limit import network_of
from skillwire.server.authentication import Refusal
from skillwire.server.invocation.bodies import Body, Bounds
from skillwire.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Scope

    from skillwire.server.invocation.bodies import Bodies

#: Of requests and their answers.
REQUESTS: Final = Bounds(
    limits.RPC_REQUEST_BYTES,
    limits.RPC_HELD_BYTES,
    limits.RPC_HELD_ADDRESS_BYTES,
    Problem(413, "LIMIT_SIZE", f"a request has at most {limits.RPC_REQUEST_BYTES:,} bytes; send more to /blobs"),
)


class Room:
    """Bounds the answers to what came together. When one had no room, nothing more is done for the others.

    Args:
        body: what came; its answers are held beside it.
    """

    def __init__(self, body: Body) -> None:
        self._body = body
        self._asked = len(body.data)
        self._answered = 0
        self._refusal: SkillwireError | None = None

    def check(self) -> None:
        """Look whether there is any room left, before something is done whose answer would not fit.

        Raises:
            SkillwireError: what :meth:`take` raised before.
        """
        if self._refusal is not None:
            raise self._refusal

    def take(self, answer: bytes) -> bytes:
        """Return ``answer``, of which there is room.

        Raises:
            DecodeError: ``LIMIT_SIZE``: all answers to what came together are too large.
            FetchError: ``ENDPOINT_UNREACHABLE``: too much is held for others.
        """
        self.check()
        try:
            self.reserve(len(answer))
        except SkillwireError as refusal:
            self._refusal = refusal
            raise
        return answer

    def reserve(self, size: int) -> None:
        """Take so many bytes more, or give some back, which is never refused.

        Raises:
            DecodeError, FetchError: as :meth:`take`; nothing is taken then, and what is smaller may still fit.
        """
        answered = self._answered + size
        if size > 0 and answered > limits.RPC_ANSWER_BYTES:
            raise _too_large()
        try:
            self._body.count(self._asked + answered)
        except Refusal:
            raise _crowded() from None
        self._answered = answered


@contextmanager
def holding(bodies: Bodies, scope: Scope) -> Iterator[Room]:
    """Give room for the answer to a request that is itself counted elsewhere."""
    body = Body(bodies, network_of(scope["client"][0]) if scope.get("client") else "")
    try:
        yield Room(body)
    finally:
        body.release()


def _too_large() -> DecodeError:
    message = f"the answers to what was asked for together have more than {limits.RPC_ANSWER_BYTES:,} bytes"
    return DecodeError("LIMIT_SIZE", message, fix="Ask for this alone.")


def _crowded() -> FetchError:
    message = "too much is being answered at once; ask again"
    return FetchError("ENDPOINT_UNREACHABLE", message, details={"retry_after": 1})
