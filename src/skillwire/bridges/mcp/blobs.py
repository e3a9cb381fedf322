"""Bytes in MCP: text where they are UTF-8, else base64; and blobs, files that go into or come out of a skill.

A blob's id is the URI of its resource, so its owner reads it like any other resource. An input that takes a blob states
it in the tool's schema, because JSON types have only text.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, BlobResourceContents, ResourceLink, ResourceTemplate, TextResourceContents

from skillwire.errors import DecodeError, NotFoundError
from skillwire.folder.manifest import read_manifest
from skillwire.model.execution import PREFIX
from skillwire.protocols.agent_skills.messages import JSON, media_type

if TYPE_CHECKING:
    from skillwire.bridges.mcp.caller import Blob, McpSkills
    from skillwire.model.skill import Skill
    from skillwire.protocols.skills_rpc.messages import RunResult


def plain(kind: str) -> str:
    """Return a media type without parameters: texts are text in JSON anyway."""
    return kind.partition(";")[0]


def mime_type(path: str) -> str:
    """Return the media type of a file."""
    return plain(media_type(path))


def contents_of(uri: str, kind: str, content: bytes) -> TextResourceContents | BlobResourceContents:
    """Return the contents of a resource: text if the bytes are exactly UTF-8, else base64."""
    if kind.startswith("text/") or kind == JSON:
        try:
            return TextResourceContents(uri=uri, mime_type=kind, text=content.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    return BlobResourceContents(uri=uri, mime_type=kind, blob=b64encode(content).decode("ascii"))


BLOB_TEMPLATE: Final = ResourceTemplate(
    uri_template=f"{PREFIX}{{sha256}}",
    name="blob",
    title="A blob of yours",
    description="What you handed in, or a skill that you called left, by its id.",
)
_ID_PATTERN: Final = f"^{PREFIX}[0-9a-f]{{64}}$"
_WANTED: Final = "The id of a blob, as create_blob, POST /blobs or output_blobs give it."


def is_blob_uri(uri: str) -> bool:
    """Whether a URI is that of a blob."""
    return uri.startswith(PREFIX)


async def find_blob(uri: str, caller: McpSkills) -> Blob:
    """Return a blob of ``caller``. Raises MCPError (-32602) if it does not exist or is too large for MCP."""
    try:
        return await caller.find_blob(uri)
    except (NotFoundError, DecodeError) as error:
        raise MCPError(INVALID_PARAMS, error.message, {"uri": uri}) from None


def links_of(run: RunResult) -> list[ResourceLink]:
    """Return links to the blobs that a run left."""
    return [
        ResourceLink(uri=one.blob_id, name=one.name or one.blob_id, mime_type=plain(one.kind), size=one.size_bytes)
        for one in run.output_blobs
    ]


async def blob_inputs(skill: Skill, caller: McpSkills) -> frozenset[str]:
    """Return the names of those inputs of a skill that take a blob, which only code can read."""
    manifest = skill.find_file("skill.toml")
    if manifest is None or skill.action is None or skill.action.executor != "python":
        return frozenset()
    inputs = read_manifest(await caller.read(manifest.digest))[0].inputs
    return frozenset(name for name, one in inputs.items() if one.input_type == "blob")


def blob_schema(own: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an input that takes a blob, extending ``own``."""
    described = " ".join(filter(None, (own.get("description"), _WANTED)))
    return {"type": "string", "pattern": _ID_PATTERN, **own, "description": described}
