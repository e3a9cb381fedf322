"""``/openapi.json``: every route of the server, as OpenAPI 3.1.

The document is the same for everybody and says nothing of what is published. Few servers are ever asked for it, so it
is made and compressed with the first request, off the event loop.
"""

from __future__ import annotations

from typing import Any, Final

from skillwire.version import VERSION

OPENAPI_PATH: Final = "/openapi.json"
_ABOUT: Final = (
    "Skills of a folder, published over Agent Skills Discovery, the Skill Sharing Protocol and the Skills Protocol, "
    "and called over the latter two; beside them the doors of MCP, of neighbours and of the local network, where the "
    "operator opened them. Pages for people who sign in are no part of it: each of their forms carries a token of the "
    "session. Whoever shows no credentials is everybody; whoever shows some must show good "
    "ones, whatever is asked for."
)


def document() -> dict[str, Any]:
    """Return the whole document."""
    from skillwire.server.openapi_lan import lan_schemas  # noqa: PLC0415  # same
    from skillwire.server.openapi_neighbours import neighbours_schemas  # noqa: PLC0415  # same
    from skillwire.server.openapi_parts import HEADERS, PARAMETERS, RESPONSES, SECURITY_SCHEMES  # noqa: PLC0415  # with the first request
    from skillwire.server.openapi_paths import paths  # noqa: PLC0415  # same
    from skillwire.server.openapi_rpc import rpc_schemas  # noqa: PLC0415  # same
    from skillwire.server.openapi_schemas import schemas  # noqa: PLC0415  # same

    return {
        "openapi": "3.1.0",
        "info": {"title": "skillwire", "version": VERSION, "description": _ABOUT},
        "servers": [{"url": "./"}],  # from where the document is: the site may be mounted anywhere
        "security": [{}, *({name: []} for name in SECURITY_SCHEMES)],
        "paths": paths(OPENAPI_PATH),
        "components": {
            "schemas": {**schemas(), **rpc_schemas(), **neighbours_schemas(), **lan_schemas()},
            "headers": HEADERS,
            "responses": RESPONSES,
            "parameters": PARAMETERS,
            "securitySchemes": SECURITY_SCHEMES,
        },
    }
