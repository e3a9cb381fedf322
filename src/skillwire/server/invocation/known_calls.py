"""Calls whose head is known: accepted without a task, a scope, and messages for an application.

Clients send the same head again and again, byte for byte; the body alone is another. What a head means does not change
while the revision stays. So when a call was accepted that was nothing but that (of nobody in particular, with nothing
asked for beside it), its head is kept with what it meant, and the next time only the body is read, and checked as ever.

Nothing is refused here. What is not in order, what has to be looked up before, and what could not be written takes the
ordinary way, on which the application says what is wrong, or does it after all.

Trust: heads and bodies are a stranger's. The heads' number and size are bounded, and the oldest goes first; bodies are
small, so that what all connections hold stays within :data:`~skillwire.limits.EXECUTION_BODIES_BYTES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import UNSET

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.invocation.accept import Invocation
from skillwire.model.access import ANONYMOUS
from skillwire.protocols.skill_sharing.validation import parse_plain
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.invocation.answer import ready_accepted
from skillwire.server.invocation.bodies import WITH_BODY
from skillwire.server.remembered import RememberedHeads
from skillwire.server.site import site_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.invocation.offer import Offer
    from skillwire.model.execution import Execution
    from skillwire.protocols.skill_sharing.messages import InvocationRequest
    from skillwire.server.invocation.desk import Desk
    from skillwire.server.invocation.granted import Granted
    from skillwire.server.invocation.route import Request
    from skillwire.server.prepared import Ready

    Address = tuple[str, int | None]

_END_OF_HEAD: Final = b"\r\n\r\n"
#: The extension of a scope that holds the :class:`Head` of its request as ``head``.
HEAD: Final = "skillwire.head"


class Head(NamedTuple):
    """The head of a request that came whole and alone, and how many bytes of body came with it."""

    written: bytes
    length: int


class KnownCall(NamedTuple):
    """What a head means: a call of ``offer`` with so many bytes of body, that reached ``site`` at ``server``."""

    method: str
    path: str
    length: int
    offer: Offer
    site: str
    server: Address | None


class KnownCalls:
    """Accepts calls by their heads.

    Args:
        desk: where executions are.
        granted: knows whether somebody agreed that a skill runs here.
        base_url: of the site; as requests say it when empty.
    """

    def __init__(self, desk: Desk, granted: Granted, base_url: str) -> None:
        self._desk = desk
        self._granted = granted
        self._base_url = base_url
        self._heads: RememberedHeads[KnownCall] = RememberedHeads()

    def learn(self, request: Request, offer: Offer, revision: int) -> None:
        """Keep what the head of a request meant that was accepted in this revision, if it was nothing but a call."""
        scope, asked = request.scope, request.asked
        head: Head | None = scope.get("extensions", {}).get(HEAD, {}).get("head")
        if head is None or head.length > limits.SERVER_REMEMBERED_BODY_BYTES or request.method not in WITH_BODY:
            return
        if request.principal is not None or asked.wait or asked.key is not None or asked.webhook is not None:
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        known = KnownCall(request.method, path, head.length, offer, site_of(scope, self._base_url), scope.get("server"))
        self._heads.keep(head.written, revision, known)

    def find(self, request: bytes, revision: int, server: Address | None) -> tuple[KnownCall, bytes] | None:
        """Return what a request means that came alone, and its body; None when it is not known, or not whole."""
        end = request.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        call = self._heads.find(request[:end], revision)
        if call is None or len(request) != end + call.length or call.server != server:
            return None
        return call, request[end:]

    def accept(self, call: KnownCall, body: bytes, address: str, answered: Callable[[Ready | None], object]) -> bool:
        """Accept a call if nothing is in the way; return whether that was begun.

        Later ``answered`` is called: with the answer when the execution is on the disk, with None when that failed.
        """
        wanted = parse_plain(body, "InvocationRequest", limits.EXECUTION_REQUEST_BYTES)
        if wanted is None or _proves_who(wanted) or not self._granted.is_known(call.offer.skill):
            return False
        clock = self._desk.clock
        invocation = Invocation(wanted, caller_of(ANONYMOUS, address), clock().wall)

        def told(execution: Execution | None) -> None:
            answered(None if execution is None else ready_accepted(execution, call.site, clock().wall))

        try:
            return self._desk.accept_soon(call.offer, invocation, told)
        except SkillwireError:  # the ordinary way says what is wrong
            return False


def _proves_who(wanted: InvocationRequest) -> bool:
    return wanted.caller.credentials is not UNSET
