"""The doors of a server that is on a local network.

``/.well-known/skill-discovery`` is for whoever found a skill of this server by a datagram: who its agent is, where
connection secrets are handed out, and lists that mDNS has no room for. ``/lan.json`` and ``/lan/events`` tell of the
whole network, and are for operators, as the console of executions is: somebody who signed in there with a key of the
scope ``operator``, or a program that shows such a key. Spec: SDP §4.3, §10.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from skillwire.model.access import OPERATOR
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.protocols.agent_skills.media import JSON
from skillwire.protocols.skill_discovery.details import details_of
from skillwire.protocols.skill_discovery.dnssd import PATH
from skillwire.server.authentication import Refusal
from skillwire.server.doors import Annex
from skillwire.server.headers import encode_fields
from skillwire.server.lan.stream import LanStreams, encoded_snapshot
from skillwire.server.methods import READ, answer_other_method
from skillwire.server.problems import Problem, method_not_allowed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Scope

    from skillwire.server.lan.service import LanService
    from skillwire.server.metrics import Route
    from skillwire.server.visit import Visit

SNAPSHOT_PATH: Final = "/lan.json"
EVENTS_PATH: Final = "/lan/events"
_UNASKED: Final = Problem(
    401,
    "AUTH_REQUIRED",
    "the LAN is shown to operators: sign in, or show a key of the scope operator",
    fields={"WWW-Authenticate": 'Bearer realm="skillwire"'},
)
_DENIED: Final = Problem(403, "ACCESS_DENIED", "the LAN is shown to operators; this key is not of the scope operator")
_PRIVATE: Final = {"Content-Type": JSON, "Cache-Control": "no-store", "Vary": "Cookie"}
_PUBLIC: Final = {"Content-Type": JSON, "Cache-Control": "no-store"}


class LanDoors:
    """Answers of one server.

    Args:
        service: what it does on the network.
        is_operator: whether a browser is signed in as one; called in a thread.
    """

    def __init__(self, service: LanService, is_operator: Callable[[Scope], bool]) -> None:
        self._service = service
        self._is_operator = is_operator
        self._streams = LanStreams(service)

    def annex(self) -> Annex:
        """Return the doors by their paths."""
        doors = {PATH: self.tell_agent, SNAPSHOT_PATH: self.tell_snapshot, EVENTS_PATH: self.tell_events}
        return Annex(doors, hang_up=self._hang_up)

    async def tell_agent(self, visit: Visit) -> Route:
        """Answer everybody who our agent is."""
        await visit.identify()
        if visit.method not in READ:
            await answer_other_method(visit.method, visit.send)
            return "service"
        agent = self._service.agent_id
        if not agent:
            message = self._service.trouble or "this server is not on the LAN yet"
            raise Refusal(Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"}))
        document: dict[str, object] = {"agentId": agent}
        if self._service.tls_port:
            document["tlsPort"] = self._service.tls_port
        if details := await asyncio.to_thread(details_of, agent, self._service.offers):
            document["skills"] = details
        await _send(visit, msgspec.json.encode(document), encode_fields(_PUBLIC, OPEN_FIELDS))
        return "service"

    async def tell_snapshot(self, visit: Visit) -> Route:
        """Answer an operator what is known of the network."""
        await self._let_in(visit)
        await _send(visit, await encoded_snapshot(self._service), encode_fields(_PRIVATE))
        return "service"

    async def tell_events(self, visit: Visit) -> Route:
        """Answer an operator what happens, as it happens."""
        may_look = await self._let_in(visit)
        await self._streams.serve(may_look, visit.receive, visit.send)
        return "service"

    async def _let_in(self, visit: Visit) -> Callable[[], Awaitable[bool]]:
        """Return what says whether somebody may go on looking.

        Raises:
            Refusal: it is no operator (401, 403), or this is no GET (405).
        """
        asker = await visit.identify()
        if visit.method not in READ:
            raise Refusal(method_not_allowed(visit.method, ", ".join(READ)))
        if asker.principal is not None:
            if OPERATOR not in asker.principal.scopes:
                raise Refusal(_DENIED)
            return _always  # a stream ends after a while, and the next one shows the key again
        if not await asyncio.to_thread(self._is_operator, visit.scope):
            raise Refusal(_UNASKED)
        return lambda: asyncio.to_thread(self._is_operator, visit.scope)

    def _hang_up(self) -> None:
        self._streams.close()
        self._service.hang_up()


async def _always() -> bool:
    return True


async def _send(visit: Visit, body: bytes, fields: list[tuple[bytes, bytes]]) -> None:
    head = [*fields, (b"content-length", str(len(body)).encode("ascii"))]
    await visit.send({"type": "http.response.start", "status": 200, "headers": head})
    await visit.send({"type": "http.response.body", "body": b"" if visit.method == "HEAD" else body})
