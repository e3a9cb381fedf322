"""Messages of MCP over HTTP, beside what the SDK reads and writes: checks with reasons in our words, and batches.

The SDK refuses what is no message with a page about its own classes, and does not know batches, which servers of
2025-03-26 must accept. It writes an answer to a client with a handshake as a stream of one event, which clients
bound more tightly than JSON. Spec: JSON-RPC 2.0 §4, §6; MCP Transports "Streamable HTTP". Trust: requests are
untrusted.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from skillwire import limits
from skillwire.errors import ValidationError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
#: The version with batches; a client that names none is taken for one of this version.
_WITH_BATCHES: Final = "2025-03-26"
_EVENT: Final = b"event: message\r\ndata: "
_ANSWER: Final = b'{"jsonrpc":"2.0","id":'


def encode_error(code: int, message: str, data: object = None) -> bytes:
    """Return an error for a request whose id is not known."""
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})


def read_messages(body: bytes, version: str) -> list[bytes] | None:
    """Return the messages of a batch, None for a single message; ``version`` is that of the client, if it names one.

    Raises ValidationError (``RPC_REQUEST``), its ``details["code"]`` that of JSON-RPC.
    """
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        raise _invalid("the body is not JSON", PARSE_ERROR) from None
    if not isinstance(document, list):
        _check(document)
        return None
    if (version or _WITH_BATCHES) != _WITH_BATCHES:
        raise _invalid(f"batches are of version {_WITH_BATCHES} alone; send each message by itself")
    if not 0 < len(document) <= limits.RPC_BATCH:
        raise _invalid(f"a batch has 1 to {limits.RPC_BATCH} messages, not {len(document)}")
    for message in document:
        _check(message)
        if message.get("method") == "initialize":
            raise _invalid("initialize is not part of a batch; send it by itself")
    return [json.dumps(message).encode() for message in document]


def answer_in(chunk: bytes) -> bytes | None:
    """Return the answer that a chunk of a stream has as its only event; None for another event, or a part of one."""
    if chunk.startswith(_EVENT + _ANSWER) and chunk.endswith(b"}\r\n\r\n"):
        return chunk.removeprefix(_EVENT).removesuffix(b"\r\n\r\n")
    return None


def answers_in(body: bytes) -> list[bytes]:
    """Return the answer in the whole response to one message, as JSON or as a stream; none to a notification."""
    if body.startswith(b"{"):
        return [body]
    found = map(answer_in, (event + b"\r\n\r\n" for event in body.split(b"\r\n\r\n")))
    return [answer for answer in found if answer is not None]


def _check(message: Any) -> None:
    """Check the form of a request, notification or response. Raises ValidationError."""
    if not isinstance(message, dict):
        raise _invalid("a message is a JSON object")
    if message.get("jsonrpc") != "2.0":
        raise _invalid('a message has "jsonrpc": "2.0"')
    if not isinstance(message.get("method", ""), str) or not message.keys() & {"method", "result", "error"}:
        raise _invalid("a message has a method, which is text, or is a response with a result or an error")
    if "id" in message and (not isinstance(message["id"], str | int) or isinstance(message["id"], bool)):
        raise _invalid("an id is text or a whole number")
    if not isinstance(message.get("params", {}), dict):
        raise _invalid("params is an object")


def _invalid(message: str, code: int = INVALID_REQUEST) -> ValidationError:
    return ValidationError("RPC_REQUEST", message, details={"code": code})
