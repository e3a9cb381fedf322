"""The MCP server: its methods put together over callers that its host makes.

It keeps nothing of a client between two requests. Over HTTP each request brings its caller with it; elsewhere there is
one. Spec: MCP 2026-07-28, and the handshake of the versions before it, which the SDK speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp.server import Server
from starlette.requests import Request

from skillwire.bridges.mcp.entries import Entries
from skillwire.bridges.mcp.resources import Resources
from skillwire.bridges.mcp.skills import SkillMethods
from skillwire.bridges.mcp.tools import Tools
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp.server.context import ServerRequestContext

    from skillwire.bridges.mcp.caller import Caller

#: Where the scope of an HTTP request holds its caller.
CALLER: Final = "skillwire.caller"
_INSTRUCTIONS: Final = (
    "This server publishes Agent Skills: instructions for doing tasks well, and actions that run on the server. "
    "Before a task, look for a skill with find_skills, read its SKILL.md with read_skill_file, and follow it; "
    "call_skill runs those that can be called. Clients that know the Skills extension list skills with skills/list, "
    "and every file of a skill is a resource skill://NAME/PATH."
)


def make_server(
    alone: Callable[[], Awaitable[Caller]] | None = None, *, pins: Sequence[str] = ()
) -> Server[dict[str, Any]]:
    """Return a server.

    Args:
        alone: makes the one caller there is, where requests do not come over HTTP.
        pins: the names of the skills that are tools of their own.
    """

    async def caller_of(context: ServerRequestContext) -> Caller:
        if isinstance(context.request, Request):
            caller: Caller = context.request.scope[CALLER]
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
        # No input of ours is to stand in a header field too, so no list of tools has to be made to look for one.
        get_tool_input_schema=lambda _: None,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
    )
    SkillMethods(caller_of, Entries()).add_to(server)
    return server
