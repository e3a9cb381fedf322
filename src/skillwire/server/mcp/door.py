"""The door of ``/mcp``: what HTTP asks is looked at here, and what MCP asks is handed to the bridge.

The SDK takes a second to import and is imported, off the event loop, by the first request. Who asks is recognised with
every request, as everywhere: there is no session that could stand for somebody.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from skillwire.errors import UsageError
from skillwire.model.access import ANONYMOUS
from skillwire.protocols.agent_skills.fields import IDENTITY_FIELDS
from skillwire.protocols.agent_skills.media import JSON
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.authentication import Refusal
from skillwire.server.doors import Annex
from skillwire.server.headers import encode_fields, read_fields
from skillwire.server.mcp.answer import Answer
from skillwire.server.mcp.caller import AudienceCaller, make_shelves
from skillwire.server.mcp.pins import MissingPins, tell_left_out
from skillwire.server.origins import PAGE_REFUSED, Origins
from skillwire.server.problems import Problem, method_not_allowed
from skillwire.server.rpc.room import holding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Message, Receive, Send

    from skillwire.bridges.mcp.http import HttpEndpoint
    from skillwire.server.compose import Parts
    from skillwire.server.invocation.bodies import Bodies
    from skillwire.server.mcp.caller import Shelves
    from skillwire.server.metrics import Route
    from skillwire.server.revision import Revision
    from skillwire.server.visit import Visit

PATH: Final = "/mcp"
_ALLOWED: Final = "POST, OPTIONS"
#: The star stands for every field but Authorization; some that the protocol has carry the names of inputs.
_FIELDS: Final = f"*, {IDENTITY_FIELDS}, Content-Type"
_NO_JSON: Final = Problem(415, "MEDIA_TYPE", "the body has to be application/json, and say so in Content-Type")
_REFUSED: Final = Problem(403, PAGE_REFUSED, "pages of this origin may not speak with this server")


def has_sdk() -> bool:
    """Whether the extra is installed; imports nothing of it."""
    return find_spec("mcp") is not None and find_spec("mcp_types") is not None


def require_sdk() -> None:
    """Refuse to go on without the extra.

    Raises:
        UsageError: ``MCP_MISSING``.
    """
    if not has_sdk():
        raise UsageError("MCP_MISSING", "the SDK of the Model Context Protocol is not installed")


def make_annexes(parts: Parts) -> list[Annex]:
    """Return the annex with ``/mcp``; none where it is off, or where nobody needs it and the extra is missing.

    Raises:
        UsageError: ``MCP_MISSING`` when skills are pinned that no tool can be made of.
    """
    settings = parts.configuration.mcp
    if settings.serve and settings.pins:
        require_sdk()
    if not settings.serve or not has_sdk():
        return []
    parts.publication.prepares.append(MissingPins(settings.pins).tell)
    door = McpDoor(
        settings.pins,
        Origins(parts.configuration.runs.origins, parts.base_url),
        make_shelves(parts),
        parts.executions.bodies,
        parts.executions.answers,
    )
    return [Annex({PATH: door}, close=door.close)]


class McpDoor:
    """Answers at ``/mcp``.

    Args:
        pins: the names of the skills that are tools of their own.
        origins: of pages that are let in.
        shelves: where callers get things from.
        bodies: reads requests.
        answers: what is held of answers.
    """

    def __init__(
        self, pins: Sequence[str], origins: Origins, shelves: Shelves, bodies: Bodies, answers: Bodies
    ) -> None:
        self._pins = pins
        self._origins = origins
        self._shelves = shelves
        self._bodies = bodies
        self._answers = answers
        self._endpoint: asyncio.Task[HttpEndpoint] | None = None

    async def __call__(self, visit: Visit) -> Route:
        """Answer a request."""
        if not self._origins.let_in(visit.scope):
            raise Refusal(_REFUSED)
        asked = read_fields(visit.scope["headers"], b"origin", b"content-type")
        origin = asked.get(b"origin", "")
        if visit.method != "POST":
            await visit.identify()
            if visit.method != "OPTIONS":
                raise Refusal(method_not_allowed(visit.method, _ALLOWED))
            await _answer_preflight(origin, visit.send)
            return "mcp"
        async with self._bodies.reading(visit.scope, visit.receive) as body:
            asker = await visit.identify(body.data)
            if asked.get(b"content-type", "").partition(";")[0].strip().lower() != JSON:
                raise Refusal(_NO_JSON)
            audience, revision = await visit.audience(), await visit.revision()
            address = visit.scope["client"][0] if visit.scope.get("client") else ""
            owner = caller_of(asker.principal or ANONYMOUS, address)
            endpoint = await self._made(revision)
            with holding(self._answers, visit.scope) as room:
                answer = Answer(room, _opened(visit.send, origin) if origin else visit.send)
                caller = AudienceCaller(audience, revision, owner, self._shelves, answer)
                await endpoint.answer(caller, visit.scope, _replayed(body.data, visit.receive), answer.send)
        return "mcp"

    async def close(self) -> None:
        """End what is under way."""
        if self._endpoint is not None:
            (endpoint,) = await asyncio.gather(self._endpoint, return_exceptions=True)
            if not isinstance(endpoint, BaseException):
                await endpoint.close()

    async def _made(self, revision: Revision) -> HttpEndpoint:
        if self._endpoint is None or (self._endpoint.done() and self._endpoint.exception() is not None):
            self._endpoint = asyncio.create_task(self._make(revision))
        return await asyncio.shield(self._endpoint)

    async def _make(self, revision: Revision) -> HttpEndpoint:
        await asyncio.to_thread(_import)
        await asyncio.to_thread(tell_left_out, revision)
        from skillwire.bridges.mcp.http import HttpEndpoint  # noqa: PLC0415  # see above
        from skillwire.bridges.mcp.server import make_server  # noqa: PLC0415  # same

        return HttpEndpoint(make_server(pins=self._pins))


def _import() -> None:
    import skillwire.bridges.mcp.http  # noqa: F401, PLC0415  # see above


def _replayed(data: bytes, receive: Receive) -> Receive:
    """Return what gives the body that was read, and then what comes."""
    messages: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _opened(send: Send, origin: str) -> Send:
    """Return what lets a page of ``origin`` read the answer, and no other page."""

    async def opened(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = encode_fields({"Access-Control-Allow-Origin": origin, "Vary": "Origin"})
            message = {**message, "headers": [*message["headers"], *own]}
        await send(message)

    return opened


async def _answer_preflight(origin: str, send: Send) -> None:
    own = {
        "Allow": _ALLOWED,
        "Access-Control-Allow-Methods": _ALLOWED,
        "Access-Control-Allow-Headers": _FIELDS,
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }
    opened = {"Access-Control-Allow-Origin": origin} if origin else {}
    await send({"type": "http.response.start", "status": 204, "headers": encode_fields(own, opened)})
    await send({"type": "http.response.body", "body": b""})
