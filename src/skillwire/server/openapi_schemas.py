"""The schemas of the OpenAPI document of the server that no module of its own describes.

Those of Skill Sharing are those of the protocol, taken as they are.
"""

from __future__ import annotations

import json
from typing import Final

from skillwire.protocols.agent_skills.messages import SCHEMA_URI
from skillwire.protocols.skill_sharing.schemas import json_schema
from skillwire.registry.search import FACETS
from skillwire.server.openapi_parts import NAME, Node, closed, listed

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_DIGEST: Final = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}


def _nullable(schema: Node) -> Node:
    return {"anyOf": [schema, {"type": "null"}]}


_ENTRY: Final = {
    "name": NAME,
    "type": {"type": "string", "enum": ["skill-md", "archive"]},
    "description": _TEXT,
    "url": {"type": "string", "description": "Of the artifact; relative to the index unless the site has an address."},
    "digest": _DIGEST,
}
_HIT: Final = {
    "id": _TEXT,
    "name": NAME,
    "source": {"type": "string", "format": "uri"},
    "installs": {"const": 0},
    "description": _TEXT,
    "version": _nullable(_TEXT),
    "digest": _DIGEST,
    "url": {"type": "string", "format": "uri"},
    "kind": {"type": "string", "enum": ["instructions", "scripts", "callable"]},
}
_BROKEN: Final = {
    "folder": _nullable(_TEXT),
    "serving": {"type": "boolean", "description": "Whether the last good version is served."},
    "findings": listed(closed({"code": _TEXT, "message": _nullable(_TEXT), "line": _nullable(_COUNT)})),
}
_RETRY: Final = {"retry": closed({"suggested_delay_ms": {"type": "number"}, "max_attempts": {"type": "number"}})}


def schemas() -> Node:
    """Return every schema by its name; those of Skill Sharing under the names that the text gives them."""
    facet = listed(closed({"value": _TEXT, "skills": _COUNT}))
    return {
        **json.loads(json.dumps(json_schema()["$defs"]).replace('"#/$defs/', '"#/components/schemas/')),
        "SkillsIndex": closed(
            {
                "$schema": {"const": SCHEMA_URI},
                "skills": listed(closed(_ENTRY, {"version": _TEXT, "files": listed(_TEXT)})),
            }
        ),
        "OldSkillsIndex": closed(
            {"skills": listed(closed({"name": NAME, "description": _TEXT, "files": listed(_TEXT)}))}
        ),
        "SearchPage": closed(
            {"skills": listed(closed(_HIT)), "total": _COUNT, "next": _nullable(_TEXT)},
            {"facets": closed({}, dict.fromkeys(FACETS, facet))},
        ),
        "Readiness": closed(
            {
                "status": {"enum": ["ready", "stale"]},
                "watching": {"type": "boolean"},
                "revision": _COUNT,
                "skills": _COUNT,
                "broken": listed(closed(_BROKEN)),
            }
        ),
        "ProtectedResource": closed(
            {"resource": _TEXT, "authorization_servers": listed(_TEXT), "bearer_methods_supported": listed(_TEXT)},
            {"scopes_supported": listed(_TEXT)},
        ),
        "Liveness": closed({"status": {"const": "alive"}}),
        "Problem": {
            **closed({"error": closed({"code": _TEXT, "message": _TEXT, "details": {"type": "object"}}, _RETRY)}),
            "description": "An error of the server; `code` is one of its table of codes.",
        },
        "SharingError": {
            **closed({"error": closed({"code": _TEXT, "message": _TEXT}, {"details": {}, **_RETRY})}),
            "description": "An error in the unified form of Skill Sharing, with one of its seven codes.",
        },
    }
