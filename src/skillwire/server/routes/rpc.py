"""JSON-RPC over HTTP: ``POST /rpc``.

What reaches JSON-RPC is answered in its terms, errors too, with 200; notifications alone, which have no answer, with
204. What fails before (a body that is too large, or no JSON by its own account; credentials that are not good; requests
that come too often) is answered as everywhere else on this server. A batch counts as many requests as it holds.

Who goes away while something is executed is not waited for; the run goes on. Spec: JSON-RPC 2.0; specs §4. The
statuses are ours.

Putting the Skills Protocol together: its methods, and the doors at which they are called.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.agent_skills.messages import OPEN_FIELDS
from skillwire.protocols.skills_rpc.messages import METHODS
from skillwire.server.auth.authentication import AuthResult, ProblemError
from skillwire.server.doors import Plugin
from skillwire.server.execution_responses import until_disconnected
from skillwire.server.fastpath import KnownLists
from skillwire.server.http import encode_fields, read_fields
from skillwire.server.origins import Origins
from skillwire.server.problems import Problem, answer_preflight
from skillwire.server.responses import in_pieces, send_pieces
from skillwire.server.routes.blobs import BLOBS_PATH, BlobRoutes
from skillwire.server.rpc_methods import (
    GONE,
    ByteQuota,
    Methods,
    RpcCaller,
    RpcDispatcher,
    calls_of,
    is_lasting,
    owner_of,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import Scope

    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.compose import Components
    from skillwire.server.context import RequestContext
    from skillwire.server.doors import Door
    from skillwire.server.metrics import Route
    from skillwire.server.request_bodies import Bodies
    from skillwire.server.rpc_methods import Request, SkillListCache


RPC_PATH: Final = "/rpc"
_ALLOWED: Final = "POST, OPTIONS"
_JSON: Final = re.compile(r"application/(?:(?:[a-z0-9.+-]+\+)?json|json-?rpc|jsonrequest)\s*(?:;.*)?", re.IGNORECASE)
_FIELDS: Final = {"Content-Type": "application/json", "Cache-Control": "no-store"}


class RpcRoute:
    """Answers ``/rpc``.

    Args:
        answering: answers what came.
        skills: what each audience may list, describe and read.
        authentication: counts the requests of a batch.
        origins: of pages that may have something done without a credential.
        bodies: what is held of requests and answers.
    """

    def __init__(
        self,
        answering: RpcDispatcher,
        skills: SkillListCache,
        authentication: Authentication,
        origins: Origins,
        bodies: Bodies,
    ) -> None:
        self._answering = answering
        self._skills = skills
        self._authentication = authentication
        self._origins = origins
        self._bodies = bodies
        self.lists = KnownLists(encode_fields(_FIELDS, OPEN_FIELDS))

    async def __call__(self, visit: RequestContext) -> Route:
        """Answer one HTTP request."""
        if visit.method != "POST":
            await visit.identify()
            if visit.method == "OPTIONS":
                await answer_preflight(_ALLOWED, visit.send)
            else:
                await _other_method(visit.method).send(visit.send, head=visit.method == "HEAD")
            return "rpc"
        async with self._bodies.reading(visit.scope, visit.receive) as body:
            asker = await visit.identify(body.data)
            _check_type(visit.scope)
            request = await self._answering.decode(body.data)
            self._count(asker, request, visit)
            caller = await self._caller(asker, visit)
            if asker.principal is None and not self._authentication.limits_anonymous:
                self.lists.learn(visit.scope, request, caller.skills, (await visit.revision()).number)
            answering = self._answering.answer(request, caller, ByteQuota(body))
            if is_lasting(request):
                await _send_unless_gone(answering, visit)
            else:
                await _send(await answering, visit)
        return "rpc"

    def _count(self, asker: AuthResult, request: Request, visit: RequestContext) -> None:
        further = len(calls_of(request)) - 1
        if further > 0:
            visit.send.asker = AuthResult(asker.principal, {})  # a refusal says itself what is left
            fields = self._authentication.count_further(asker.principal, visit.scope, further)
            visit.send.asker = AuthResult(asker.principal, fields)

    async def _caller(self, asker: AuthResult, visit: RequestContext) -> RpcCaller:
        audience = await visit.audience()
        skills = await self._skills.of(audience, await visit.revision())
        is_known = asker.principal is not None or self._origins.let_in(visit.scope)
        return RpcCaller(owner_of(asker, visit.scope), skills, is_stray_page=not is_known)


async def _send_unless_gone(answering: Coroutine[None, None, bytes | None], visit: RequestContext) -> None:
    making, gone = asyncio.create_task(answering), asyncio.create_task(until_disconnected(visit.receive))
    try:
        await asyncio.wait({making, gone}, return_when=asyncio.FIRST_COMPLETED)
        if making.done():
            await _send(making.result(), visit)
        else:
            visit.send.status = GONE
    finally:
        making.cancel()
        gone.cancel()
        await asyncio.gather(making, gone, return_exceptions=True)


async def _send(answer: bytes | None, visit: RequestContext) -> None:
    if answer is None:
        headers = encode_fields({"Cache-Control": "no-store"}, OPEN_FIELDS)
        await visit.send({"type": "http.response.start", "status": 204, "headers": headers})
        await visit.send({"type": "http.response.body", "body": b""})
        return
    headers = encode_fields({**_FIELDS, "Content-Length": str(len(answer))}, OPEN_FIELDS)
    await visit.send({"type": "http.response.start", "status": 200, "headers": headers})
    if len(answer) <= limits.SERVER_PIECE_BYTES:
        await visit.send({"type": "http.response.body", "body": answer})
    else:
        await send_pieces(in_pieces([answer]), len(answer), visit.send)


def _check_type(scope: Scope) -> None:
    """Look at the media type of a body; a browser sends others without asking us first.

    Raises:
        Refusal: it is not JSON (415).
    """
    given = read_fields(scope["headers"], b"content-type").get(b"content-type", "")
    if not _JSON.fullmatch(given):
        told = f"the body is {ascii(given)[:60]}" if given else "the body has no Content-Type"
        raise ProblemError(Problem(415, "MEDIA_TYPE", f"{told}, and only application/json is read"))


def _other_method(method: str) -> Problem:
    details = {"method": method[:20], "methods": list(METHODS)}
    message = "this resource answers POST with a request of JSON-RPC 2.0"
    return Problem(405, "METHOD_NOT_ALLOWED", message, details, {"Allow": _ALLOWED})


def make_rpc(parts: Components) -> Plugin:
    """Return the doors of ``/rpc`` and ``/blobs``."""
    runs = parts.executions.runs
    origins = Origins(parts.configuration.runs.origins, parts.base_url)
    blobs = BlobRoutes(runs, origins)
    rpc = RpcRoute(RpcDispatcher(Methods(runs)), parts.skills, parts.authentication, origins, parts.executions.answers)
    doors: dict[str, Door] = {RPC_PATH: rpc, BLOBS_PATH: blobs.create, f"{BLOBS_PATH}/": blobs.read}
    return Plugin(doors, again=rpc.lists.answer)
