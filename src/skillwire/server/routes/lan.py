"""The doors of a server that is on a local network.

``/.well-known/skill-discovery`` is for whoever found a skill of this server by a datagram: who its agent is, where
connection secrets are handed out, and lists that mDNS has no room for. ``/lan.json`` and ``/lan/events`` tell of the
whole network, and are for operators, as the console of executions is: somebody who signed in there with a key of the
scope ``operator``, or a program that shows such a key. Spec: SDP §4.3, §10.

The network as a stream of server-sent events: all that is known, and then each change.

The first event is ``snapshot``; each that follows is a ``change``, or another ``snapshot`` for who was too slow to be
told every change. A stream ends when its reader goes, when it may look no more, when the server stops, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`.

What the server tells of the network, as JSON: one form for ``/lan.json`` and ``/lan/events``.

Names are those of Skill Discovery's own JSON (SDP §4.3, §11.3); instants are seconds since the epoch. What others sent
is told as it is: whoever shows it neutralises it.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skillwire import limits
from skillwire.model.access import OPERATOR
from skillwire.protocols.agent_skills.messages import JSON, OPEN_FIELDS
from skillwire.protocols.skill_discovery.dnssd import PATH, details_of
from skillwire.server.auth.authentication import ProblemError
from skillwire.server.doors import Plugin
from skillwire.server.event_streams import HEARTBEAT, STILL_HERE, OpenStreams, part
from skillwire.server.http import encode_fields
from skillwire.server.problems import READ, Problem, answer_other_method, method_not_allowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from skillwire.model.lan import LanChange, LanScene, LanSkill, LanSnapshot
    from skillwire.server.context import RequestContext
    from skillwire.server.lan.service import LanService
    from skillwire.server.metrics import Route


_encode = msgspec.json.Encoder().encode


def encode_snapshot(snapshot: LanSnapshot | None, trouble: str, counters: Mapping[str, int]) -> bytes:
    """Return all that is known; without a network, why there is none."""
    if snapshot is None:
        return _encode({"agentId": None, "trouble": trouble or "not on the LAN yet", "skills": [], "scenes": []})
    return _encode(
        {
            "agentId": snapshot.agent_id,
            "at": snapshot.at,
            "isSuspected": snapshot.is_suspected,
            "skills": [_skill(skill) for skill in snapshot.skills],
            "scenes": [_scene(scene) for scene in snapshot.scenes],
            "counters": dict(counters),
        }
    )


def encode_change(change: LanChange) -> bytes:
    """Return one change; with ``reason`` where it is known why a skill is gone."""
    document: dict[str, Any] = {"kind": change.kind, "at": change.at}
    if change.skill is not None:
        document["skill"] = _skill(change.skill)
    if change.reason:
        document["reason"] = change.reason
    if change.scene is not None:
        document["scene"] = _scene(change.scene)
    return _encode(document)


def _skill(skill: LanSkill) -> dict[str, Any]:
    return {
        "agentId": skill.agent_id,
        "skillId": skill.skill_id,
        "version": skill.version,
        "skillType": skill.skill_type,
        "endpoint": skill.endpoint,
        "capabilities": skill.capabilities,
        "scenes": skill.scenes,
        "status": skill.status,
        "trust": skill.trust,
        "foundVia": skill.found_via.value,
        "heard": skill.heard,
        "isStale": skill.is_stale,
    }


def _scene(scene: LanScene) -> dict[str, Any]:
    members = [
        {"agentId": member.agent_id, "skillId": member.skill_id, "role": member.role} for member in scene.members
    ]
    return {"sceneId": scene.name, "groupId": scene.group_id, "members": members}


#: Seconds in which a reader is believed that it may look, however many changes it is told.
_BELIEVED: Final = 1.0
_CROWDED: Final = Problem(503, "ENDPOINT_UNREACHABLE", "too many follow the LAN already", fields={"Retry-After": "30"})


class LanStreams(OpenStreams):
    """The streams that are open.

    Args:
        service: that is followed.
        heartbeat: seconds until a line shows that a quiet stream lives.
    """

    def __init__(self, service: LanService, heartbeat: float = HEARTBEAT) -> None:
        super().__init__()
        self._service = service
        self._heartbeat = heartbeat

    async def serve(self, may_look: Callable[[], Awaitable[bool]], receive: Receive, send: Send) -> None:
        """Send what happens for as long as whoever asks stays, and ``may_look``."""
        if self.is_full:
            await _CROWDED.send(send)
            return
        changes = self._service.listen()
        if changes is None:
            message = self._service.trouble or "this server is not on the LAN yet"
            await Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"}).send(send)
            return
        await self.keep(partial(self._write, changes, may_look), receive, send)

    async def _write(
        self, changes: AsyncIterator[LanChange], may_look: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        await send(_event(b"snapshot", await encoded_snapshot(self._service)))
        believed = time.monotonic()
        end = believed + limits.CONSOLE_STREAM_SECONDS
        coming = asyncio.ensure_future(anext(changes, None))
        try:
            while time.monotonic() < end:
                done, _ = await asyncio.wait({coming}, timeout=self._heartbeat)
                # Asked by the clock, since a network on which much happens may never be quiet.
                if not done or time.monotonic() >= believed + _BELIEVED:
                    if not await may_look():
                        return
                    believed = time.monotonic()
                if not done:
                    await send(part(STILL_HERE))
                    continue
                change = coming.result()
                if change is None:  # the agent has ended
                    return
                if change.kind == "missed":
                    await send(_event(b"snapshot", await encoded_snapshot(self._service)))
                else:
                    await send(_event(b"change", encode_change(change)))
                coming = asyncio.ensure_future(anext(changes, None))
        finally:
            coming.cancel()


async def encoded_snapshot(service: LanService) -> bytes:
    """Return all that is known now; what changes while it is encoded is not in it."""
    known = service.snapshot(), service.trouble, dict(service.counters)
    return await asyncio.to_thread(encode_snapshot, *known)  # ten thousand skills take a while


def _event(name: bytes, data: bytes) -> dict[str, object]:
    return part(b"event: " + name + b"\ndata: " + data + b"\n\n")  # JSON as we write it has no line ends


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


class LanRoutes:
    """Answers of one server.

    Args:
        service: what it does on the network.
        is_operator: whether a browser is signed in as one; called in a thread.
    """

    def __init__(self, service: LanService, is_operator: Callable[[Scope], bool]) -> None:
        self._service = service
        self._is_operator = is_operator
        self._streams = LanStreams(service)

    def annex(self) -> Plugin:
        """Return the doors by their paths."""
        doors = {PATH: self.tell_agent, SNAPSHOT_PATH: self.tell_snapshot, EVENTS_PATH: self.tell_events}
        return Plugin(doors, hang_up=self._hang_up)

    async def tell_agent(self, visit: RequestContext) -> Route:
        """Answer everybody who our agent is."""
        await visit.identify()
        if visit.method not in READ:
            await answer_other_method(visit.method, visit.send)
            return "service"
        agent = self._service.agent_id
        if not agent:
            message = self._service.trouble or "this server is not on the LAN yet"
            raise ProblemError(Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"}))
        document: dict[str, object] = {"agentId": agent}
        if self._service.tls_port:
            document["tlsPort"] = self._service.tls_port
        if details := await asyncio.to_thread(details_of, agent, self._service.offers):
            document["skills"] = details
        await _send(visit, msgspec.json.encode(document), encode_fields(_PUBLIC, OPEN_FIELDS))
        return "service"

    async def tell_snapshot(self, visit: RequestContext) -> Route:
        """Answer an operator what is known of the network."""
        await self._let_in(visit)
        await _send(visit, await encoded_snapshot(self._service), encode_fields(_PRIVATE))
        return "service"

    async def tell_events(self, visit: RequestContext) -> Route:
        """Answer an operator what happens, as it happens."""
        may_look = await self._let_in(visit)
        await self._streams.serve(may_look, visit.receive, visit.send)
        return "service"

    async def _let_in(self, visit: RequestContext) -> Callable[[], Awaitable[bool]]:
        """Return what says whether somebody may go on looking.

        Raises:
            Refusal: it is no operator (401, 403), or this is no GET (405).
        """
        asker = await visit.identify()
        if visit.method not in READ:
            raise ProblemError(method_not_allowed(visit.method, ", ".join(READ)))
        if asker.principal is not None:
            if OPERATOR not in asker.principal.scopes:
                raise ProblemError(_DENIED)
            return _always  # a stream ends after a while, and the next one shows the key again
        if not await asyncio.to_thread(self._is_operator, visit.scope):
            raise ProblemError(_UNASKED)
        return lambda: asyncio.to_thread(self._is_operator, visit.scope)

    def _hang_up(self) -> None:
        self._streams.close()
        self._service.hang_up()


async def _always() -> bool:
    return True


async def _send(visit: RequestContext, body: bytes, fields: list[tuple[bytes, bytes]]) -> None:
    head = [*fields, (b"content-length", str(len(body)).encode("ascii"))]
    await visit.send({"type": "http.response.start", "status": 200, "headers": head})
    await visit.send({"type": "http.response.body", "body": b"" if visit.method == "HEAD" else body})
