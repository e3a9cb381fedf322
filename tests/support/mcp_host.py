"""Folders of skills as MCP tells them, spoken with by the SDK's own client, without a network."""

import base64
import contextlib
from pathlib import Path
from typing import Any, Literal

from fastmcp.skills.models import (
    GetSkillParams,
    GetSkillRequest,
    GetSkillResult,
    ListSkillsParams,
    ListSkillsRequest,
    ListSkillsResult,
)
from mcp.client.client import Client
from mcp_types import PaginatedRequestParams, PaginatedResult, Request
from tests.support.publishing import write_skill

from skillwire.bridges.mcp.server import make_server
from skillwire.model.access import ANONYMOUS, Principal
from skillwire.server import create_app
from skillwire.server.app import make_components
from skillwire.server.components import Components
from skillwire.server.configuration import read_configuration
from skillwire.server.quotas import caller_of
from skillwire.server.revision import AccessViews
from skillwire.server.routes.mcp import McpCaller, make_mcp_backend

EXECUTES = "[rpc]\nexecute_skill = true\n[executions]\ngrant_all = true\n"
#: Protocol: with the handshake of earlier versions, and without.
MODES = ("auto", "legacy")


class Host:
    """A published folder; ``client`` connects as somebody."""

    def __init__(self, parts: Components) -> None:
        self.parts = parts
        self._audiences = AccessViews("")
        self._shelves = make_mcp_backend(parts)

    def client(self, principal: Principal | None = None, *, mode: str = "auto", pins: tuple[str, ...] = ()) -> Client:
        async def alone() -> McpCaller:
            revision = await self.parts.catalog.first(30)
            assert revision is not None
            audience = await self._audiences.of(principal, revision)
            owner = caller_of(principal or ANONYMOUS, "192.0.2.7")
            return McpCaller(audience, revision, owner, self._shelves)

        return Client(make_server(alone, pins=pins), mode=mode)


@contextlib.asynccontextmanager
async def hosting(folder: Path, place: Path, configuration: str = ""):
    """Publish a folder, its state in ``place``; SKILLWIRE_HOME leads there already."""
    parts = make_components(
        [folder],
        blobs=place / "blobs",
        access_log=False,
        configuration=read_configuration(configuration.encode(), "server.toml"),
    )
    parts.catalog.start()
    try:
        yield Host(parts)
    finally:
        parts.executions.close_streams()
        await parts.executions.stop()
        parts.catalog.stop()


async def list_skills(client: Client, cursor: str | None = None) -> ListSkillsResult:
    """Return a page of skills, read as strictly as FastMCP reads it."""
    return await client.session.send_request(
        ListSkillsRequest(params=ListSkillsParams(cursor=cursor)), ListSkillsResult
    )


async def get_skill(client: Client, uri: str) -> Any:
    """Return the entry of a skill, read in the same way."""
    result = await client.session.send_request(GetSkillRequest(params=GetSkillParams(uri=uri)), GetSkillResult)
    return result.skill


class _DirectoryParams(PaginatedRequestParams):
    uri: str


class _DirectoryRequest(Request[_DirectoryParams, Literal["resources/directory/read"]]):
    method: Literal["resources/directory/read"] = "resources/directory/read"
    params: _DirectoryParams


class _DirectoryResult(PaginatedResult):
    resources: list[dict[str, Any]]
    result_type: Literal["complete"] = "complete"


async def read_directory(client: Client, uri: str) -> list[dict[str, Any]]:
    request = _DirectoryRequest(params=_DirectoryParams(uri=uri))
    return (await client.session.send_request(request, _DirectoryResult)).resources


async def read_bytes(client: Any, uri: str) -> bytes:
    result = await client.read_resource(uri)
    (contents,) = getattr(result, "contents", result)
    text: str | None = getattr(contents, "text", None)
    return base64.b64decode(contents.blob) if text is None else text.encode()


def text_of(result: Any) -> str:
    return "\n".join(item.text for item in result.content)


@contextlib.asynccontextmanager
async def published(tmp_path, configuration="", **more):
    folder = tmp_path / "skills"
    write_skill(folder, "open-notes")
    write_skill(folder, "omega-plan", {"skill.toml": 'access = "private"\n'})
    read = read_configuration(configuration.encode(), "server.toml")
    application = create_app([folder], blobs=tmp_path / "blobs", configuration=read, **more)
    await application.startup()
    await application.catalog.first(20)
    try:
        yield application
    finally:
        application.close_streams()
        await application.shutdown()


SHOUT = """kind = "action"
name = "leads.shout"

[runtime]
language = "python"
entrypoint = "main.py"

[inputs.sheet]
type = "blob"
description = "The sheet."
required = true

[inputs.word]
type = "string"
"""
SHOUT_MAIN = """
import os


def main(args):
    with open(os.path.join(os.environ["SKILLS_BLOBS"], args["sheet"].removeprefix("blob:"))) as file:
        text = file.read()
    with open(os.path.join(os.environ["SKILLS_OUTPUT"], "loud.txt"), "w") as file:
        file.write(text.upper())
    return len(text)
"""


@contextlib.asynccontextmanager
async def shouting(tmp_path, monkeypatch):
    """Serve a skill that reads a blob and leaves one; give the host."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "skills", "shout", {"skill.toml": SHOUT, "main.py": SHOUT_MAIN})
    async with hosting(tmp_path / "skills", tmp_path, EXECUTES) as host:
        yield host
