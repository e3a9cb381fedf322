"""``skills/list``, ``skills/get`` and ``resources/directory/read``: the methods of the Skills extension.

What is listed is what the caller may use: an entry promises that every file in it can be read. Spec: MCP Skills
"Listing Skills", "Getting a Skill", "Reading Directories".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

from skillwire.bridges.mcp.bounds import why_not
from skillwire.bridges.mcp.paging import page_after
from skillwire.bridges.mcp.resources import hint, resource_of
from skillwire.bridges.mcp.uris import SKILL_MD, Target, find_target, uri_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from mcp.server import Server
    from mcp.server.context import ServerRequestContext

    from skillwire.bridges.mcp.caller import Caller
    from skillwire.bridges.mcp.entries import Entries

EXTENSION: Final = "io.modelcontextprotocol/skills"
#: What a server that does all of it declares. Spec: MCP Skills "Capability Negotiation".
SETTINGS: Final[dict[str, Any]] = {"directoryRead": True}
_DIRECTORY: Final = "inode/directory"


class GetSkillParams(RequestParams):
    """Which skill: the URI of its ``SKILL.md``."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """Which folder."""

    uri: str


class SkillMethods:
    """Answers the methods of the extension.

    Args:
        caller_of: returns who sent a request.
        entries: makes entries.
    """

    def __init__(self, caller_of: Callable[[ServerRequestContext], Awaitable[Caller]], entries: Entries) -> None:
        self._caller_of = caller_of
        self._entries = entries

    def add_to(self, server: Server) -> None:
        """Let ``server`` answer the methods, and declare that it does."""
        server.add_request_handler("skills/list", PaginatedRequestParams, self.list_skills)
        server.add_request_handler("skills/get", GetSkillParams, self.get_skill)
        server.add_request_handler("resources/directory/read", ReadDirectoryParams, self.read_directory)
        server.extensions[EXTENSION] = SETTINGS

    async def list_skills(self, context: ServerRequestContext, params: PaginatedRequestParams) -> dict[str, Any]:
        """Answer ``skills/list``; a page may hold fewer skills than asked for, where some are too large."""
        caller = await self._caller_of(context)
        skills = caller.usable.skills
        names, cursor = page_after(tuple(skills), params.cursor)
        listed = [skill for name in names if why_not(skill := skills[name]) is None]
        result = {"resultType": "complete", "skills": [await self._entries.of(skill, caller) for skill in listed]}
        return {**result, **hint(caller).wire(), **({"nextCursor": cursor} if cursor else {})}

    async def get_skill(self, context: ServerRequestContext, params: GetSkillParams) -> dict[str, Any]:
        """Answer ``skills/get``."""
        caller = await self._caller_of(context)
        target = find_target(params.uri, caller.usable.skills)
        if target is None or target.path != SKILL_MD:
            raise _refused(f"no skill is served at {params.uri[:200]}", params.uri)
        if (reason := why_not(target.skill)) is not None:
            raise _refused(reason, params.uri)
        return {"resultType": "complete", "skill": await self._entries.of(target.skill, caller), **hint(caller).wire()}

    async def read_directory(self, context: ServerRequestContext, params: ReadDirectoryParams) -> dict[str, Any]:
        """Answer ``resources/directory/read``; a skill has so few files that a folder is always one page."""
        caller = await self._caller_of(context)
        target = find_target(params.uri.rstrip("/"), caller.usable.skills)
        children = list(_children(target)) if target is not None and why_not(target.skill) is None else []
        if not children:  # no folder of a skill is empty
            raise _refused(f"{params.uri[:200]} is no folder", params.uri)
        return {"resultType": "complete", "resources": children}


def _children(target: Target) -> Iterator[dict[str, Any]]:
    """Yield what stands directly in a folder, folders once."""
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
