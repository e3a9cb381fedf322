"""Flow: a use case of the client, written once and driven twice.

A flow is a generator, as an exchange is, one level higher. It yields *steps*: conversations to hold
(:class:`Fetch`, :class:`FetchAll`), work on files (:class:`Work`) and pauses (:class:`Pause`), and is sent
their results. The synchronous client does each step in place; the asynchronous one awaits the conversations
and hands the work to a thread. So what a client does is decided in one place, and neither blocks where it
must not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.errors import SkillwireError
    from skillwire.wire.exchange import Exchange

T = TypeVar("T")


class Fetch(NamedTuple):
    """Hold one conversation; its result is sent back, its error thrown in."""

    exchange: Exchange[Any]


class FetchAll(NamedTuple):
    """Hold conversations at once; a list of results or errors, in order, is sent back.

    ``on_done`` is told after each, for progress.
    """

    exchanges: Iterable[Exchange[Any]]
    on_done: Callable[[], object]


class Work(NamedTuple):
    """Call something that may touch the disk; its result is sent back, its error thrown in."""

    call: Callable[[], Any]


class Pause(NamedTuple):
    """Let so many seconds pass; nothing is sent back."""

    seconds: float


Step: TypeAlias = Fetch | FetchAll | Work | Pause
Flow = Generator[Step, Any, T]


def work(call: Callable[[], T]) -> Flow[T]:
    """Yield ``call`` as one step and return its result, typed."""
    result: T = yield Work(call)
    return result


def fetch(exchange: Exchange[T]) -> Flow[T]:
    """Yield ``exchange`` as one step and return its result, typed."""
    result: T = yield Fetch(exchange)
    return result


def fetch_all(exchanges: Iterable[Exchange[T]], on_done: Callable[[], object]) -> Flow[list[T | SkillwireError]]:
    """Yield ``exchanges`` as one step and return their results or errors, typed."""
    results: list[T | SkillwireError] = yield FetchAll(exchanges, on_done)
    return results
