"""The routes of the Skills Protocol as OpenAPI describes them: ``/rpc``, and blobs as they are.

OpenAPI has no word for methods behind one path. So the request is described as what it may be: for each method its name
and its parameters, which are those of the protocol's own list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from skillwire import limits
from skillwire.protocols.skills_rpc.errors import ERRORS
from skillwire.protocols.skills_rpc.messages import METHODS
from skillwire.server.openapi_operations import describe, describe_answer, every_answer, posted
from skillwire.server.openapi_parts import JSON, closed, listed, problem, reference
from skillwire.server.routes.blobs import BLOBS_PATH
from skillwire.server.routes.rpc import RPC_PATH

if TYPE_CHECKING:
    from skillwire.server.openapi_operations import Answers
    from skillwire.server.openapi_parts import Node

_TAG: Final = "Skills Protocol"
_ID: Final = {"type": ["string", "number", "null"]}
_TEXT: Final = {"type": "string"}
_VERSION: Final = {"const": "2.0"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_ERROR: Final = closed(
    {"code": {"type": "integer", "description": "; ".join(f"{code}: {text}" for code, text in ERRORS.items())}}
    | {"message": _TEXT},
    {"data": {"type": "object", "description": "Our code, what to do, whether to try again, the place."}},
)
_OFF: Final = problem("As above, or nothing is executed here that could read a blob: `PERMISSION_DENIED`.")


def rpc() -> Node:
    """Return the description of each path."""
    return {RPC_PATH: _call(), BLOBS_PATH: _create(), f"{BLOBS_PATH}/{{blob}}": _read()}


def rpc_schemas() -> Node:
    """Return the schemas of what JSON-RPC carries, and of the parameters of each method."""
    _, parameters = msgspec.json.schema_components(METHODS.values(), ref_template="#/components/schemas/{name}")
    parameters = msgspec.json.decode(msgspec.json.encode(parameters))  # defaults are lists in JSON
    return {
        **{name: {**one, "description": one["description"].partition("\n")[0]} for name, one in parameters.items()},
        "RpcRequest": {"oneOf": [_request(method, kind.__name__) for method, kind in METHODS.items()]},
        "RpcAnswer": {
            "type": "object",
            "properties": {"jsonrpc": _VERSION, "id": _ID, "result": {}, "error": _ERROR},
            "required": ["jsonrpc", "id"],
            "additionalProperties": False,
            "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
        },
        "CreatedBlob": closed({"blob_id": _TEXT, "size_bytes": _COUNT}),
    }


def _request(method: str, parameters: str) -> Node:
    return closed(
        {"jsonrpc": _VERSION, "method": {"const": method}},
        {"id": _ID, "params": reference("schemas", parameters)},
    )


def _call() -> Node:
    request, answer = reference("schemas", "RpcRequest"), reference("schemas", "RpcAnswer")
    several = {"maxItems": int(limits.RPC_BATCH), "minItems": 1}
    told = every_answer(
        {
            "200": describe_answer(
                "What JSON-RPC answers, errors too.", {JSON: {"anyOf": [answer, listed(answer)]}}, "Cache-Control"
            ),
            "204": describe_answer("Nothing: only notifications came.", {}, "Cache-Control"),
            "413": problem(f"The request has more than {limits.RPC_REQUEST_BYTES:,} bytes: `LIMIT_SIZE`."),
            "415": problem("The body is no JSON by its media type: `MEDIA_TYPE`."),
        }
    )
    schema = {"anyOf": [request, {**listed(request), **several}]}
    return posted(_TAG, "Call a method, or several", {JSON: {"schema": schema}}, told)


def _create() -> Node:
    created = {JSON: reference("schemas", "CreatedBlob")}
    told = every_answer(
        {
            "201": describe_answer("It is kept.", created, "Location", "Cache-Control"),
            "403": _OFF,
            "413": problem("It is larger than the operator allows: `LIMIT_SIZE`."),
            "415": problem("It has no media type: `BLOB_KIND`."),
            "429": problem("As above, or there is no room for it: `BLOB_ROOM`.", "Retry-After"),
        }
    )
    return posted(_TAG, "Keep a blob, for a run", {"*/*": {"schema": {}}}, told)


def _read() -> Node:
    fields = ("ETag", "Cache-Control", "Accept-Ranges", "Content-Security-Policy")
    answers: Answers = {
        "200": describe_answer("All of it.", {"*/*": {}}, *fields),
        "206": describe_answer("A part of it.", {"*/*": {}}, *fields, "Content-Range"),
        "304": "NotModified",
        "404": problem("You have no such blob, or not any more: `BLOB_NOT_FOUND`."),
        "416": "OutOfRange",
    }
    return describe(_TAG, "A blob, to its owner", answers, ("blob", "If-None-Match", "Range", "If-Range"))
