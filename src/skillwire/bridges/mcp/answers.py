"""What a tool answers: facts as JSON, for programs and for models, and faults that a model can mend."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import msgspec
from mcp_types import CallToolResult, EmbeddedResource, ImageContent, TextContent

from skillwire import limits
from skillwire.bridges.mcp.blobs import links_of
from skillwire.bridges.mcp.caller import Running
from skillwire.bridges.mcp.contents import contents_of, mime_type
from skillwire.bridges.mcp.uris import uri_of
from skillwire.errors import ValidationError
from skillwire.protocols.skills_rpc.results import encode_run

if TYPE_CHECKING:
    from skillwire.errors import SkillwireError
    from skillwire.model.skill import Skill
    from skillwire.protocols.skills_rpc.messages import Run

_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


def told(facts: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    """Return facts, as JSON and as the text of that JSON."""
    text = msgspec.json.encode(facts).decode("utf-8")
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=facts, is_error=is_error)


def refused(error: SkillwireError) -> CallToolResult:
    """Return an error as the model reads it: what is wrong, and what to do about it in this case.

    What generally helps is written for people at a command line, and left out.
    """
    text = f"{error.code}: {error.message}" + (f"\n{error.fix}" if error.fix else "")
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def run_told(run: Run | Running) -> CallToolResult:
    """Return how far an execution is, with links to what it left; one that failed is an error, with all of it."""
    if isinstance(run, Running):
        summary = f"It has not ended yet. Call execution_status with execution_id {run.run_id!r} to follow it."
        return told({"status": "running", "run_id": run.run_id, "summary": summary})
    answer = told(msgspec.json.decode(encode_run(run)), is_error=run.status == "failed")
    answer.content.extend(links_of(run))
    return answer


def file_told(skill: Skill, path: str, content: bytes, offset: int) -> CallToolResult:
    """Return a file: a part of a text from character ``offset`` on, an image, or a resource in base64.

    Raises:
        ValidationError: ``VALIDATION_ERROR``: the text ends before ``offset``.
    """
    contents = contents_of(uri_of(skill, path), mime_type(path), content)
    text = getattr(contents, "text", None)
    if text is not None:
        if offset >= len(text) > 0 or offset > len(text):
            message = f"{path} has {len(text):,} characters, and offset {offset:,} is past its end"
            raise ValidationError("VALIDATION_ERROR", message, fix="Begin at offset 0.")
        return CallToolResult(content=_part(text, offset))
    kind = mime_type(path)
    if kind in _IMAGES:
        return CallToolResult(
            content=[ImageContent(type="image", data=b64encode(content).decode("ascii"), mime_type=kind)]
        )
    return CallToolResult(content=[EmbeddedResource(type="resource", resource=contents)])


def _part(text: str, offset: int) -> list[Any]:
    end = offset + limits.MCP_TEXT_LENGTH
    content = [TextContent(type="text", text=text[offset:end])]
    if end < len(text):
        more = f"[{len(text) - end:,} characters follow: read on with offset {end}]"
        content.append(TextContent(type="text", text=more))
    return content
