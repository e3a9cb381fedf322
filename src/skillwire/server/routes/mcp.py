"""MCP over HTTP: ``/mcp`` checks what HTTP asks, and hands messages to the bridge; and what MCP callers see and call.

The SDK takes a second to import, so the first request imports it, off the event loop. Each request is authenticated by
itself: there are no sessions. The SDK writes a response three times, on the event loop: as a model, as text and as
bytes. So the server writes a large value itself, gives the SDK a mark in its place, and sends the value in place of the
mark. A stream whose first event is the answer is sent as JSON, because clients bound an event, the official SDK by
1 MiB. The size of all responses together is bounded.

A call starts a run and waits no longer than a client waits. A client that disconnects before it got the ID of its run
can never read that run, so the run is cancelled. Pinned skills that are not published, and skills that MCP hosts do
not have to accept, are logged.

Trust: callers are untrusted, and may read slowly.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from importlib import import_module
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from starlette.exceptions import HTTPException

from skillwire import limits
from skillwire.bridges.mcp import has_sdk, require_sdk
from skillwire.bridges.mcp.host import INVALID_REQUEST, Blob, Large, Running, answer_in, encode_error, limit_exceeded
from skillwire.errors import (
    DecodeError,
    PendingError,
    SkillwireError,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.model.catalog import SearchQuery
from skillwire.model.skill import Skill, is_skill_name
from skillwire.protocols.agent_skills.messages import IDENTITY_FIELDS, JSON
from skillwire.registry.search import read_words, telling_words
from skillwire.server.components import Protocol
from skillwire.server.configuration import MCP_PATH
from skillwire.server.execution_service import CallableSkills
from skillwire.server.http import PAGE_REFUSED, Origins, encode_fields
from skillwire.server.log import MissingNames
from skillwire.server.openapi import TEXT, problem, reference
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.request_bodies import CROWDED
from skillwire.server.responses import in_pieces, send_pieces
from skillwire.server.revision import has_failed
from skillwire.server.routes.system import resource_route
from skillwire.server.routing import Answer, Operation, Route
from skillwire.server.rpc_methods import hold_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillwire.bridges.mcp.server import HttpEndpoint
    from skillwire.model.digest import Digest
    from skillwire.ports import BlobStore
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.protocols.skills_rpc.messages import CreateBlob, CreatedBlob, RunResult
    from skillwire.server.components import Components, Services
    from skillwire.server.revision import AccessView, Revision
    from skillwire.server.routing import RequestContext
    from skillwire.server.rpc_methods import ByteQuota, SkillListCache
    from skillwire.server.runs import Runs


_NAME_WEIGHT: Final = 3


def check_pins(pins: Iterable[str]) -> tuple[str, ...]:
    """Return the names of pinned skills, each once. Raises UsageError (``USAGE``)."""
    names = tuple(dict.fromkeys(pins))
    for name in names:
        if not is_skill_name(name):
            fix = "Write the name of its folder, such as --pin csv-profile."
            raise UsageError("USAGE", f"no skill can be called {name[:100]!a}", fix=fix)
    if len(names) > limits.MCP_PINS:
        raise UsageError("USAGE", f"{len(names)} skills are pinned, at most {limits.MCP_PINS} can be")
    return names


def missing_pins(pins: Iterable[str]) -> MissingNames:
    """Return what logs the pinned skills that a revision does not publish."""
    names = tuple(pins)
    return MissingNames(
        "pinned, but not published", lambda new: [one for one in names if one not in new.everything.skills]
    )


def log_left_out(revision: Revision) -> None:
    """Log the skills that hosts do not have to accept; it reads each skill, so run it off the event loop."""
    log = structlog.get_logger("skillwire.mcp")
    for skill in revision.everything.skills.values():
        if (reason := limit_exceeded(skill)) is not None:
            log.warning("a skill is left out of lists and resources", reason=reason)


class McpBackend(NamedTuple):
    """The parts that MCP callers share: blobs of skills, descriptors, runs, skills by dotted names, cancellations."""

    blobs: BlobStore
    callables: CallableSkills
    runs: Runs
    skills: SkillListCache
    cancelling: set[asyncio.Task[None]]


def make_mcp_backend(parts: Components) -> McpBackend:
    """Return the backend of a server with these parts."""
    blobs, runs = parts.catalog.blobs, parts.executions.runs
    return McpBackend(blobs, CallableSkills(blobs), runs, parts.skills, set())


class McpCaller:
    """A :class:`~skillwire.bridges.mcp.host.McpSkills`: what one caller may see and use of a revision.

    Its executions belong to ``owner``; large values of the answer go to ``large``.
    """

    def __init__(
        self, view: AccessView, revision: Revision, owner: str, backend: McpBackend, large: Large | None = None
    ) -> None:
        self.visible = view.visible
        self.usable = view.usable
        self.is_public = view.is_public
        self.large = large
        self._view = view
        self._revision = revision
        self._owner = owner
        self._backend = backend

    async def find(self, words: str, limit: int) -> Sequence[Skill]:
        """Return the visible skills that fit best. Raises UsageError (``QUERY``)."""
        return await asyncio.to_thread(self._find, words, limit)

    def _find(self, words: str, limit: int) -> Sequence[Skill]:
        """Search the public skills by their index, and compare the caller's other skills word by word."""
        skills, public = self.visible.skills, self._revision.catalog.skills
        page = self._revision.search.search(SearchQuery(text=words, limit=limit, counted=False))
        others = [skills[name] for name in skills if name not in public]
        wanted = telling_words(read_words(words))
        if not wanted.words:
            return sorted(
                [*others, *(skills[name] for name in page.names if name in skills)], key=lambda skill: skill.name
            )[:limit]
        scored: list[tuple[int, str, Skill, bool]] = []
        for skill in others:
            name, text = skill.name, skill.description.lower()
            hits = [_NAME_WEIGHT * (word in name) + (word in text) for word in wanted.words]
            if any(hits):
                scored.append((-sum(hits), name, skill, all(hits)))
        scored.sort(key=lambda one: one[:2])
        best, rest = [one[2] for one in scored if one[3]], [one[2] for one in scored if not one[3]]
        return [*best, *(skills[name] for name in page.names if name in skills), *rest][:limit]

    async def name_of(self, dotted: str) -> str | None:
        """Return the name of the visible skill with this name of the Skills Protocol."""
        return (await self._backend.skills.of(self._view, self._revision)).name_of(dotted)

    async def read(self, digest: Digest) -> bytes:
        """Return the bytes of a file of a skill. Raises StorageError (``STORAGE``)."""
        content = await asyncio.to_thread(self._backend.blobs.read, digest)
        if content is None:
            raise StorageError("STORAGE", "the bytes of this file are not kept here any more")
        return content

    async def describe(self, skill: Skill) -> SkillDescriptor:
        """Return the descriptor of a skill."""
        return await asyncio.to_thread(self._backend.callables.descriptor, skill)

    async def refusal(self, skill: Skill) -> str:
        """Return why a call of a skill would be refused now; empty where it would not."""
        try:
            await self._backend.runs.check(self._owner, skill, is_call=False)
        except (TrustError, ValidationError) as error:
            return error.message
        return ""

    async def call(self, skill: Skill, arguments: Mapping[str, Any], seconds: float) -> RunResult | Running:
        """Start a run, and wait for its end for so many seconds.

        Raises TrustError (``PERMISSION_DENIED``), and what :meth:`skillwire.server.runs.Runs.begin_skill` raises.
        """
        if skill.name not in self.usable.skills:
            raise TrustError("PERMISSION_DENIED", f"{skill.name} is not open to this caller")
        runs, cancelling = self._backend.runs, self._backend.cancelling
        beginning = asyncio.create_task(runs.begin_skill(self._owner, skill, arguments))

        async def cancel() -> None:
            with suppress(SkillwireError):  # it was not accepted; what is being stored is accepted nevertheless
                await runs.cancel(self._owner, await beginning)

        try:
            return await self.follow(await asyncio.shield(beginning), seconds)
        except asyncio.CancelledError:
            task = asyncio.create_task(cancel())
            cancelling.add(task)
            task.add_done_callback(cancelling.discard)
            await asyncio.shield(task)
            raise

    async def follow(self, run_id: str, seconds: float) -> RunResult | Running:
        """Return the result of a run of this caller, or its status after so many seconds. Raises NotFoundError."""
        try:
            return await self._backend.runs.follow(self._owner, run_id, seconds)
        except PendingError as pending:
            return Running(run_id, str(pending.details["status"]))

    async def find_blob(self, blob_id: str) -> Blob:
        """Return a blob of this caller. Raises NotFoundError, DecodeError (``LIMIT_SIZE``), StorageError."""
        with await self._backend.runs.blobs.open(self._owner, blob_id) as blob:
            if blob.size > limits.MCP_BLOB_BYTES:
                message = f"this blob has {blob.size:,} bytes, and MCP gives at most {limits.MCP_BLOB_BYTES:,}"
                raise DecodeError("LIMIT_SIZE", f"{message}; GET /blobs/{blob_id} of the same server gives it whole")

        async def read() -> bytes:
            with await self._backend.runs.blobs.open(self._owner, blob_id) as blob:
                return await blob.read(0, blob.size)

        return Blob(blob.kind, blob.size, read)

    async def create_blob(self, wanted: CreateBlob) -> CreatedBlob:
        """Store a blob of this caller; errors as of :meth:`skillwire.server.runs.BlobUploads.create`."""
        return await self._backend.runs.blobs.create(self._owner, wanted)


_MCP_TOO_LARGE: Final = Problem(500, "LIMIT_SIZE", f"the answer has more than {limits.RPC_ANSWER_BYTES:,} bytes")


class McpAnswer:
    """The response to one request: sends what the SDK writes, within ``room``."""

    def __init__(
        self,
        room: ByteQuota,
        send: Send,
        step_up: Callable[[str], Problem | None],
        count_further: Callable[[int], None],
    ) -> None:
        self._send = send
        self._attached: dict[bytes, bytes] = {}
        self._start: Message | None = None
        self._is_over = False
        self._step_up = step_up
        self._count_further = count_further
        self._has_several = False
        self._refusal: Problem | None = None
        #: Takes so many bytes of room, or gives some back.
        self.reserve = room.reserve

    def attach(self, value: bytes) -> str:
        """Return a mark that the SDK writes in place of ``value``, JSON whose bytes are reserved."""
        mark = f"skillwire-{token_hex(16)}"
        self._attached[f'"{mark}"'.encode()] = value
        return mark

    def begin_batch(self, messages: int) -> None:
        """Count each message of a batch as a request. Raises ProblemError (429)."""
        if messages > 1:
            self._has_several = True
            self._count_further(messages - 1)

    def ask_for_scope(self, skill: str) -> None:
        """Send the scope that opens ``skill`` in place of what the SDK writes, if there is one."""
        if not self._has_several:  # the other messages of a batch have answers
            self._refusal = self._step_up(skill)

    async def send(self, message: Message) -> None:
        """Send a message of the SDK, with the attached values. The head waits for the first part of the body."""
        if self._is_over:
            return
        if message["type"] != "http.response.body":
            self._start = message
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._start is not None:
            if self._refusal is not None:
                await self._replace(self._refusal)
                return
            if (answer := answer_in(body)) is not None:
                body, is_last, self._is_over = answer, True, True
                self._start = _as_json(self._start, len(answer))
        try:
            self.reserve(len(body))
        except SkillwireError as refusal:
            await self._replace(_MCP_TOO_LARGE if isinstance(refusal, DecodeError) else CROWDED)
            return
        await self._write(body, is_last=is_last)

    async def _write(self, body: bytes, *, is_last: bool) -> None:
        """Send a part of the body, whose bytes are reserved until then, and the head before the first one."""
        try:
            parts = [body]
            for mark, value in self._attached.items():
                before, found, after = parts[-1].partition(mark)
                if found:
                    parts[-1:] = [before, value, after]
            size = sum(map(len, parts))
            if self._start is not None:
                more = size - len(body)
                fields = [
                    (key, b"%d" % (int(value) + more) if key == b"content-length" else value)
                    for key, value in self._start["headers"]
                ]
                start, self._start = {**self._start, "headers": fields}, None
                await self._send(start)
            if size <= limits.SERVER_PIECE_BYTES:
                await self._send({"type": "http.response.body", "body": b"".join(parts), "more_body": not is_last})
            elif not await send_pieces(in_pieces(parts), size, self._send, is_last=is_last):
                self._is_over = True
        finally:
            self.reserve(-len(body))

    async def _replace(self, problem: Problem) -> None:
        """Answer with ``problem``; a stream that has begun is cut."""
        self._is_over = True
        if self._start is not None:
            await problem.send(self._send)


def _as_json(start: Message, size: int) -> Message:
    """Return the head of a stream as the head of a JSON answer."""
    kept = [field for field in start["headers"] if field[0] not in {b"content-type", b"x-accel-buffering"}]
    return {**start, "headers": [*kept, *encode_fields({"Content-Type": JSON, "Content-Length": str(size)})]}


_ALLOWED: Final = "POST, OPTIONS"
#: The star stands for every field but Authorization; some that the protocol has carry the names of inputs.
_FIELDS: Final = f"*, {IDENTITY_FIELDS}, Content-Type"
_NO_JSON: Final = Problem(415, "MEDIA_TYPE", "the body has to be application/json, and say so in Content-Type")
_REFUSED: Final = Problem(403, PAGE_REFUSED, "pages of this origin may not speak with this server")


_MESSAGE: Final = {
    "type": "object",
    "properties": {"jsonrpc": {"const": "2.0"}},
    "required": ["jsonrpc"],
    "description": "A message of JSON-RPC 2.0, as the Model Context Protocol has it.",
}
_REFUSAL: Final = {JSON: {"anyOf": [_MESSAGE, reference("schemas", "Problem")]}}
_OPERATION: Final = Operation(
    "A message of the Model Context Protocol",
    {
        "200": Answer("Its answer, or a stream of it.", {JSON: _MESSAGE, "text/event-stream": TEXT}),
        "202": Answer("Nothing: only notifications came."),
        "400": Answer("The message is not known.", _REFUSAL),
        "401": "AuthRequired",
        "403": problem("It comes from a page of another site: `PAGE_REFUSED`; or a scope is missing, which is named."),
        "404": Answer("There is no such method; or nothing at this path.", _REFUSAL),
        "406": Answer("`Accept` has not both media types of the answer.", _REFUSAL),
        "413": Answer(f"It has more than {limits.EXECUTION_REQUEST_BYTES:,} bytes.", _REFUSAL),
        "415": problem("The body is not JSON by its media type: `MEDIA_TYPE`."),
    },
    body={JSON: _MESSAGE},
)


class Mcp(Protocol):
    """The Model Context Protocol: ``/mcp``, if the operator has not turned it off and the extra is installed."""

    name = "MCP"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the row of ``/mcp``. Raises UsageError (``MCP_MISSING``) when skills are pinned."""
        settings = services.configuration.mcp
        if settings.serve and settings.pins:
            require_sdk()
        is_there = settings.serve and has_sdk()
        route = McpRoute(services)
        if is_there:
            services.catalog.follows.append(missing_pins(settings.pins).log)
            services.close.append(route.close)
        return [
            Route(
                MCP_PATH,
                route.answer if is_there else None,
                "mcp",
                methods=(),
                authenticates=False,
                loads=False,
                describes={"post": _OPERATION},
            ),
            resource_route(services, MCP_PATH, is_served=is_there),
        ]


class McpRoute:
    """Answers at ``/mcp``."""

    def __init__(self, services: Services) -> None:
        self._pins = services.configuration.mcp.pins
        self._is_closed = services.configuration.mcp.require == "authenticated"
        self._authentication = services.authentication
        self._origins = Origins(services.configuration.runs.origins, services.base_url)
        self._backend = make_mcp_backend(services)
        self._bodies = services.executions.bodies
        self._answers = services.executions.answers
        self._endpoint: asyncio.Task[HttpEndpoint] | None = None

    async def answer(self, context: RequestContext) -> ASGIApp | None:
        """Answer a request."""
        if not self._origins.let_in(context.scope):
            raise ProblemError(_REFUSED)
        asked = context.fields(b"origin", b"content-type")
        origin = asked.get(b"origin", "")
        if context.method != "POST":
            await context.authenticate()
            if context.method != "OPTIONS":
                raise HTTPException(405, headers={"Allow": _ALLOWED})
            return partial(_answer_preflight, origin)
        async with _readable(), self._bodies.reading(context.scope, context.receive) as body:
            await context.authenticate(body.data)
            if self._is_closed and context.principal is None:
                raise self._authentication.required("Authentication is required to connect by MCP", context.scope)
            if asked.get(b"content-type", "").partition(";")[0].strip().lower() != JSON:
                raise ProblemError(_NO_JSON)
            view = await context.load()
            if self._endpoint is None or has_failed(self._endpoint):
                self._endpoint = asyncio.create_task(self._make(context.revision))
            endpoint = await asyncio.shield(self._endpoint)
            with hold_bytes(self._answers, context.scope) as quota:
                step_up = partial(self._authentication.step_up, context.principal, context.scope)
                send = _opened(context.send, origin) if origin else context.send
                answer = McpAnswer(quota, send, step_up, context.count_further)
                caller = McpCaller(view, context.revision, context.owner, self._backend, answer)
                await endpoint.answer(caller, context.scope, body.data, context.receive, answer.send)
        return None

    async def close(self) -> None:
        """End what is under way."""
        if self._endpoint is not None:
            (endpoint,) = await asyncio.gather(self._endpoint, return_exceptions=True)
            if not isinstance(endpoint, BaseException):
                await endpoint.close()

    async def _make(self, revision: Revision) -> HttpEndpoint:
        bridge = await asyncio.to_thread(import_module, "skillwire.bridges.mcp.server")
        await asyncio.to_thread(log_left_out, revision)
        endpoint: HttpEndpoint = bridge.HttpEndpoint(bridge.make_server(pins=self._pins))
        return endpoint


@asynccontextmanager
async def _readable() -> AsyncIterator[None]:
    """Write the refusal of a message that is too large, or comes too often, as one of JSON-RPC, which clients show."""
    try:
        yield
    except ProblemError as refusal:
        problem = refusal.problem
        if problem.status not in {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.TOO_MANY_REQUESTS}:
            raise
        message = problem.message
        if problem.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            most = limits.EXECUTION_REQUEST_BYTES
            message = (
                f"a message has at most {most:,} bytes; hand a larger file in with POST /blobs, and give its blob_id"
            )
        written = encode_error(INVALID_REQUEST, message, {"code": problem.code, **problem.details})
        raise ProblemError(replace(problem, written=written)) from None


def _opened(send: Send, origin: str) -> Send:
    """Return a sender that lets pages of ``origin`` read the response, and no other pages."""

    async def opened(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = encode_fields({"Access-Control-Allow-Origin": origin, "Vary": "Origin"})
            others = [field for field in message["headers"] if field[0] != b"access-control-allow-origin"]
            message = {**message, "headers": [*others, *own]}
        await send(message)

    return opened


async def _answer_preflight(origin: str, _scope: Scope, _receive: Receive, send: Send) -> None:
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
