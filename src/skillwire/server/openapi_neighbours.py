"""The routes that speak the protocols of neighbours, as OpenAPI describes them: MCP, the AI Catalog, A2A's agent card.

Their documents are described by their own texts, and here as far as a caller needs it. Each is a 404 where the
operator did not ask for it, ``/mcp`` without its extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.bridges.agent_card import CARD_PATH
from skillwire.bridges.ai_catalog import CATALOG_PATH, CATALOG_TYPE, SEARCH_PATH
from skillwire.server.openapi_operations import describe, describe_answer, every_answer, posted
from skillwire.server.openapi_parts import JSON, closed, listed, problem, reference
from skillwire.server.routes.mcp import MCP_PATH

if TYPE_CHECKING:
    from skillwire.server.openapi_operations import Answers
    from skillwire.server.openapi_parts import Node

_TAG: Final = "Neighbours"
_TEXT: Final = {"type": "string"}
_OBJECT: Final = {"type": "object"}
_KEPT: Final = ("ETag", "Cache-Control", "Vary")
_CONDITION: Final = "If-None-Match"


def neighbours() -> Node:
    """Return the description of each path."""
    return {
        CATALOG_PATH: _document("An AI Catalog of what is published", CATALOG_TYPE, "AiCatalog"),
        SEARCH_PATH: _search(),
        CARD_PATH: _document("What runs here, as an agent card of A2A", JSON, "AgentCard"),
        MCP_PATH: _mcp(),
    }


def neighbours_schemas() -> Node:
    """Return the schemas of what they answer."""
    entry = {
        "identifier": _TEXT,
        "type": {**_TEXT, "description": "A media type."},
        "url": {"type": "string", "format": "uri"},
    }
    more = {"displayName": _TEXT, "description": _TEXT, "tags": listed(_TEXT), "version": _TEXT, "extensions": _OBJECT}
    hit = {**entry, "score": {"type": "integer", "minimum": 1, "maximum": 100}, "source": _TEXT}
    values = {"anyOf": [_TEXT, listed(_TEXT)]}
    filters = {"type": "object", "properties": {"type": values, "tags": values}, "additionalProperties": False}
    asked = {"text": {"type": "string"}, "filter": filters}
    return {
        "AiCatalog": closed(
            {
                "specVersion": _TEXT,
                "host": closed({"displayName": _TEXT, "identifier": _TEXT}),
                "entries": listed(closed(entry, more)),
            }
        ),
        "CatalogSearch": {
            "type": "object",
            "properties": {
                "query": {"type": "object", "properties": asked, "required": ["text"]},
                "pageSize": {"type": "integer", "minimum": 1, "maximum": int(limits.SEARCH_HITS)},
                "pageToken": {"type": ["string", "null"], "description": "Of the page before."},
            },
            "required": ["query"],
        },
        "CatalogHits": closed({"results": listed(closed(hit, more))}, {"pageToken": _TEXT}),
        "CatalogRefusal": closed({"errorCode": _TEXT, "message": _TEXT}),
        "AgentCard": {
            "type": "object",
            "properties": {
                "name": _TEXT,
                "description": _TEXT,
                "version": _TEXT,
                "supportedInterfaces": listed(
                    closed({"url": _TEXT, "protocolBinding": _TEXT, "protocolVersion": _TEXT})
                ),
                "skills": listed(closed({"id": _TEXT, "name": _TEXT, "description": _TEXT, "tags": listed(_TEXT)})),
            },
            "required": ["name", "description", "version", "supportedInterfaces", "skills"],
        },
        "McpMessage": {
            "type": "object",
            "properties": {"jsonrpc": {"const": "2.0"}},
            "required": ["jsonrpc"],
            "description": "A message of JSON-RPC 2.0, as the Model Context Protocol has it.",
        },
    }


def _document(meaning: str, media_type: str, schema: str) -> Node:
    found = describe_answer("It.", {media_type: reference("schemas", schema)}, *_KEPT)
    return describe(_TAG, meaning, {"200": found, "304": "NotModified", "404": "NotFound"}, (_CONDITION,))


def _search() -> Node:
    refused = {JSON: reference("schemas", "CatalogRefusal")}
    answers: Answers = {
        "200": describe_answer("The hits, best first.", {JSON: reference("schemas", "CatalogHits")}, "Cache-Control"),
        "400": describe_answer("It cannot be searched for.", refused, "Cache-Control"),
        "404": "NotFound",
        "413": problem(f"It has more than {limits.CATALOG_SEARCH_BYTES:,} bytes: `LIMIT_SIZE`."),
    }
    asked = {JSON: {"schema": reference("schemas", "CatalogSearch")}}
    return posted(_TAG, "Search the AI Catalog", asked, every_answer(answers))


def _mcp() -> Node:
    message = reference("schemas", "McpMessage")
    refused = {JSON: {"anyOf": [message, reference("schemas", "Problem")]}}
    answers: Answers = {
        "200": describe_answer("Its answer, or a stream of it.", {JSON: message, "text/event-stream": _TEXT}),
        "202": describe_answer("Nothing: only notifications came.", {}),
        "400": describe_answer("It is no message that is known.", refused),
        "403": problem("It comes from a page of another site: `PAGE_REFUSED`."),
        "404": describe_answer("There is no such method; or nothing at this path.", refused),
        "406": describe_answer("`Accept` has not both media types of the answer.", refused),
        "413": describe_answer(f"It has more than {limits.EXECUTION_REQUEST_BYTES:,} bytes.", refused),
        "415": problem("The body is no JSON by its media type: `MEDIA_TYPE`."),
    }
    return posted(
        "MCP", "Send a message of the Model Context Protocol", {JSON: {"schema": message}}, every_answer(answers)
    )
