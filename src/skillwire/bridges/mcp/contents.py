"""Bytes as MCP holds them: text where they are one, and base64."""

from __future__ import annotations

from base64 import b64encode

from mcp_types import BlobResourceContents, TextResourceContents

from skillwire.protocols.agent_skills.media import JSON, media_type


def plain(kind: str) -> str:
    """Return a media type without parameters: texts are text in JSON anyway."""
    return kind.partition(";")[0]


def mime_type(path: str) -> str:
    """Return the media type of a file."""
    return plain(media_type(path))


def contents_of(uri: str, kind: str, content: bytes) -> TextResourceContents | BlobResourceContents:
    """Return what a resource holds: a text whose UTF-8 is these bytes exactly, or else base64."""
    if kind.startswith("text/") or kind == JSON:
        try:
            return TextResourceContents(uri=uri, mime_type=kind, text=content.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    return BlobResourceContents(uri=uri, mime_type=kind, blob=b64encode(content).decode("ascii"))
