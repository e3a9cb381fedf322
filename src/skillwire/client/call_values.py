"""The values of a call: how a skill is to be called, and what would be sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.execution import Priority, RemoteExecution
from skillwire.model.url import is_ipv4

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.url import Url

OnChange = Callable[[RemoteExecution], object]


class CallOptions(NamedTuple):
    """How a skill is called; see :meth:`skillwire.AsyncClient.call`."""

    wait: bool = True
    timeout: float | None = None
    priority: str | None = None
    trace_id: str | None = None
    idempotency_key: str | None = None
    caller_id: str | None = None
    caller_type: str = "user"
    consent: bool = False
    on_change: OnChange = lambda _: None


class CallArguments(TypedDict, total=False):
    """The same, as keyword arguments."""

    wait: bool
    timeout: float | None
    priority: str | None
    trace_id: str | None
    idempotency_key: str | None
    caller_id: str | None
    caller_type: str
    consent: bool
    on_change: OnChange


class PreparedCall(NamedTuple):
    """A call that could be made: everything checked, nothing sent.

    Args:
        skill_id: of the skill.
        method, url: of the request.
        headers: of the request; a credential is told as ``...``.
        body: of the request; None where the inputs stand in the URL.
        inputs: with defaults.
    """

    skill_id: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    inputs: Mapping[str, Any]


def priority_of(text: str | None) -> Priority | None:
    """Return the priority of this name.

    Raises:
        UsageError: ``USAGE``, there is none.
    """
    if text is None:
        return None
    try:
        return Priority(text)
    except ValueError:
        known_ones = ", ".join(Priority)
        raise UsageError("USAGE", f"the priority {ascii(text)[:40]} is none of {known_ones}") from None


def seconds_of(timeout: float | None) -> float | None:
    """Return ``timeout``, if anybody may wait so long.

    Raises:
        UsageError: ``USAGE``.
    """
    given: object = timeout  # whatever a program without types hands over
    if given is not None and not isinstance(given, int | float):
        fix = "Give a number, such as timeout=30."
        raise UsageError("USAGE", f"a timeout is a number of seconds, not {ascii(given)[:80]}", fix=fix)
    if timeout is not None and not 0 < timeout <= limits.CALL_WAIT_SECONDS:
        raise UsageError("USAGE", f"a timeout is more than 0 and at most {int(limits.CALL_WAIT_SECONDS):,} seconds")
    return timeout


def is_below(url: Url, index: Url) -> bool:
    """Whether the host of ``url`` is one that the owner of ``index`` decides about: ``api.example.com``."""
    is_name = not is_ipv4(index.host) and ":" not in index.host
    return is_name and url.scheme == index.scheme == "https" and url.host.endswith(f".{index.host}")
