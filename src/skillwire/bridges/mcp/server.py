"""The MCP server: the Skills extension, resources and tools, over streamable HTTP and over standard input and output.

``skills/list``, ``skills/get`` and ``resources/directory/read`` list what the caller may use, because an entry promises
that all of its files can be read. Over HTTP one endpoint answers each POST independently: there is no session to steal,
confuse or leave open, and the caller is authenticated each time. Clients of versions with a handshake get no session,
which those versions allow. A long answer is a stream; when its reader disconnects, its work is cancelled.
Spec: MCP 2026-07-28 and its earlier handshake, which the SDK speaks; MCP Transports; MCP Skills "Listing Skills",
"Getting a Skill", "Reading Directories".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

import structlog
from anyio import AsyncFile
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION, PaginatedRequestParams, RequestParams
from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from skillwire import limits
from skillwire.bridges.mcp.host import (
    INVALID_REQUEST,
    McpSkills,
    answers_in,
    encode_error,
    limit_exceeded,
    read_messages,
)
from skillwire.bridges.mcp.resources import (
    Entries,
    Resources,
    Target,
    find_target,
    hint,
    page_after,
    resource_of,
    uri_of,
)
from skillwire.bridges.mcp.tools import Tools
from skillwire.errors import ValidationError
from skillwire.model.skill import SKILL_MD
from skillwire.version import VERSION

EXTENSION: Final = "io.modelcontextprotocol/skills"
#: What a server that does all of it declares. Spec: MCP Skills "Capability Negotiation".
SETTINGS: Final[dict[str, Any]] = {"directoryRead": True}
_DIRECTORY: Final = "inode/directory"


def _encode_hint(caller: McpSkills) -> dict[str, Any]:
    fresh = hint(caller)
    return {"ttlMs": fresh["ttl_ms"], "cacheScope": fresh["cache_scope"]}


class GetSkillParams(RequestParams):
    """Which skill: the URI of its ``SKILL.md``."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """Which folder."""

    uri: str


class SkillMethods:
    """Answers the methods of the extension; ``caller_of`` returns the caller of a request."""

    def __init__(self, caller_of: Callable[[ServerRequestContext], Awaitable[McpSkills]], entries: Entries) -> None:
        self._caller_of = caller_of
        self._entries = entries

    async def list_skills(self, context: ServerRequestContext, params: PaginatedRequestParams) -> dict[str, Any]:
        """Answer ``skills/list``; a page may hold fewer skills than asked for, where some are too large."""
        caller = await self._caller_of(context)
        skills = caller.usable.skills
        names, cursor = page_after(tuple(skills), params.cursor)
        listed = [skill for name in names if limit_exceeded(skill := skills[name]) is None]
        result = {"resultType": "complete", "skills": [await self._entries.of(skill, caller) for skill in listed]}
        return {**result, **_encode_hint(caller), **({"nextCursor": cursor} if cursor else {})}

    async def get_skill(self, context: ServerRequestContext, params: GetSkillParams) -> dict[str, Any]:
        """Answer ``skills/get``."""
        caller = await self._caller_of(context)
        target = find_target(params.uri, caller.usable.skills)
        if target is None or target.path != SKILL_MD:
            raise _refused(f"no skill is served at {params.uri[:200]}", params.uri)
        if (reason := limit_exceeded(target.skill)) is not None:
            raise _refused(reason, params.uri)
        return {"resultType": "complete", "skill": await self._entries.of(target.skill, caller), **_encode_hint(caller)}

    async def read_directory(self, context: ServerRequestContext, params: ReadDirectoryParams) -> dict[str, Any]:
        """Answer ``resources/directory/read``; a skill has so few files that a folder is always one page."""
        caller = await self._caller_of(context)
        target = find_target(params.uri.rstrip("/"), caller.usable.skills)
        children = list(_children(target)) if target is not None and limit_exceeded(target.skill) is None else []
        if not children:  # no folder of a skill is empty
            raise _refused(f"{params.uri[:200]} is no folder", params.uri)
        return {"resultType": "complete", "resources": children}


def _children(target: Target) -> Iterator[dict[str, Any]]:
    """Yield the direct children of a folder, each subfolder once."""
    skill, before = target.skill, f"{target.path}/" if target.path else ""
    folders: set[str] = set()
    for file in skill.files:
        if not file.path.startswith(before):
            continue
        name, slash, _ = file.path.removeprefix(before).partition("/")
        if not slash:
            yield resource_of(skill, file).model_dump(mode="json", by_alias=True, exclude_none=True)
        elif name not in folders:
            folders.add(name)
            yield {"uri": uri_of(skill, before + name), "name": name, "mimeType": _DIRECTORY}


def _refused(message: str, uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, message, {"uri": uri})


#: Where the scope of an HTTP request holds its caller.
CALLER: Final = "skillwire.caller"
_INSTRUCTIONS: Final = (
    "This server publishes Agent Skills: instructions for doing tasks well, and actions that run on the server. "
    "Before a task, look for a skill with find_skills, read its SKILL.md with read_skill_file, and follow it; "
    "call_skill runs those that can be called. Clients that know the Skills extension list skills with skills/list, "
    "and every file of a skill is a resource skill://NAME/PATH."
)


def make_server(
    alone: Callable[[], Awaitable[McpSkills]] | None = None, *, pins: Sequence[str] = ()
) -> Server[dict[str, Any]]:
    """Return a server; ``alone`` returns the only caller where requests do not come over HTTP, ``pins`` are tools."""

    async def caller_of(context: ServerRequestContext) -> McpSkills:
        if isinstance(context.request, Request):
            caller: McpSkills = context.request.scope[CALLER]
            return caller
        if alone is None:
            raise RuntimeError("a request came neither over HTTP nor from the one caller there is")
        return await alone()

    resources, tools = Resources(caller_of), Tools(caller_of, pins)
    server: Server[dict[str, Any]] = Server(
        "skillwire",
        version=VERSION,
        title="Agent Skills",
        instructions=_INSTRUCTIONS,
        # No input of ours is also a header field, so no list of tools has to be made to look for one.
        get_tool_input_schema=lambda _: None,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
    )
    methods = SkillMethods(caller_of, Entries())
    server.add_request_handler("skills/list", PaginatedRequestParams, methods.list_skills)
    server.add_request_handler("skills/get", GetSkillParams, methods.get_skill)
    server.add_request_handler("resources/directory/read", ReadDirectoryParams, methods.read_directory)
    server.extensions[EXTENSION] = SETTINGS
    return server


class HttpEndpoint:
    """Answers requests with ``server``, from the first one until :meth:`close`."""

    def __init__(self, server: Server[dict[str, Any]]) -> None:
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=limits.EXECUTION_REQUEST_BYTES
        )
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._living: asyncio.Task[None] | None = None

    async def answer(self, caller: McpSkills, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Answer a POST of ``caller`` with ``body``. Where it may come from has been looked at."""
        if self._living is None:
            self._living = asyncio.create_task(self._live())
        await self._ready.wait()
        version = Request(scope).headers.get("mcp-protocol-version", "")
        status, answer = HTTPStatus.BAD_REQUEST, b""
        own = {**scope, CALLER: caller}
        try:
            if version and version not in SUPPORTED_PROTOCOL_VERSIONS:
                raise _unknown_version(version)
            batch = read_messages(body, version)
            if batch is None:
                await self._manager.handle_request(own, _after(body, receive), send)
                return
            if caller.large is not None:
                caller.large.begin_batch(len(batch))
            status, answer = await self._answer_batch(own, batch, receive)
        except ValidationError as error:
            answer = encode_error(int(str(error.details["code"])), error.message, error.details.get("data"))
        await Response(answer, status, media_type="application/json" if answer else None)(scope, receive, send)

    async def _answer_batch(self, scope: Scope, batch: list[bytes], receive: Receive) -> tuple[HTTPStatus, bytes]:
        """Answer each message by itself, in order. Spec: JSON-RPC 2.0 §6. Raises ValidationError."""
        answers: list[bytes] = []
        for message in batch:
            body = bytearray()

            async def keep(part: Message, body: bytearray = body) -> None:
                body.extend(part.get("body", b""))

            await self._manager.handle_request(scope, _after(message, receive), keep)
            answers += answers_in(bytes(body))
            if sum(map(len, answers)) > limits.RPC_ANSWER_BYTES:
                most = f"{limits.RPC_ANSWER_BYTES:,} bytes"
                reason = f"the answers to this batch have more than {most}; send fewer at once"
                raise ValidationError("RPC_REQUEST", reason, details={"code": INVALID_REQUEST})
        return (HTTPStatus.OK, b"[%s]" % b",".join(answers)) if answers else (HTTPStatus.ACCEPTED, b"")

    async def close(self) -> None:
        """End what is under way."""
        if self._living is not None:
            self._over.set()
            await asyncio.gather(self._living, return_exceptions=True)

    async def _live(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._over.wait()


def _after(body: bytes, receive: Receive) -> Receive:
    """Return what a request is received with whose ``body`` was read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def after() -> Message:
        return messages.pop() if messages else await receive()

    return after


def _unknown_version(version: str) -> ValidationError:
    known = ", ".join(SUPPORTED_PROTOCOL_VERSIONS)
    message = f"MCP-Protocol-Version {version[:20]!a} is not known; this server knows {known}"
    data = {"supported": list(SUPPORTED_PROTOCOL_VERSIONS), "requested": version[:20]}
    return ValidationError("RPC_REQUEST", message, details={"code": UNSUPPORTED_PROTOCOL_VERSION, "data": data})


async def serve_stdio(server: Server[dict[str, Any]], lines: AsyncIterator[bytes | None]) -> None:
    """Answer ``lines`` until they end. Nothing else may write to standard output meanwhile."""
    messages = _logged_failure(lines)
    async with stdio_server(stdin=cast("AsyncFile[str]", messages)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _logged_failure(lines: AsyncIterator[bytes | None]) -> AsyncIterator[bytes]:
    """Yield the lines that may be messages; no other has an id to be answered with."""
    async for line in lines:
        if line is None:
            structlog.get_logger("skillwire.mcp").warning("a message is too long", most=limits.RPC_REQUEST_BYTES)
        elif line.strip():
            yield line
