"""Values of the methods of an endpoint, as a program in Python wants them: bytes where the wire has text or base64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.client.call_values import seconds_of
from skillwire.resolver.sources.skills_rpc import bytes_of

if TYPE_CHECKING:
    from skillwire.protocols.skills_rpc.messages import BlobContent

_MARGIN: Final = 20.0  # seconds that an answer may take beyond the time of the run


class BlobPart(NamedTuple):
    """A part of a blob, or all of it.

    Args:
        content: the bytes.
        size: of the whole blob, in bytes.
        truncated: whether ``content`` is less than that.
        kind: the media type, where the endpoint says it.
    """

    content: bytes
    size: int
    truncated: bool
    kind: str


def part_of(told: BlobContent, source: str) -> BlobPart:
    """Return a part of a blob as bytes.

    Raises:
        ValidationError: ``RPC_ANSWER`` for base64 that is none.
    """
    return BlobPart(bytes_of(told, source), told.size_bytes, told.truncated, told.kind)


def run_milliseconds(timeout: float | None) -> int | None:
    """Return what the endpoint is told of a timeout.

    Raises:
        UsageError: ``USAGE`` for a time that nobody waits.
    """
    seconds = seconds_of(timeout)
    return None if seconds is None else max(round(seconds * 1000), 1)


def run_seconds(timeout: float | None) -> float:
    """Return how long the answer to a run may take, which comes when that has ended.

    Raises:
        UsageError: ``USAGE`` for a time that nobody waits.
    """
    return (seconds_of(timeout) or float(limits.CALL_ANSWER_SECONDS)) + _MARGIN
