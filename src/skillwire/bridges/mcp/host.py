"""What the host of the bridge needs without the SDK: the caller of a request, and messages beside what the SDK reads.

The host makes one caller per request from the request's credentials. There are no sessions, so callers cannot be
confused. The SDK refuses what is no message with a page about its own classes, and does not know batches, which servers
of 2025-03-26 must accept; so messages are checked here, with reasons in our words. The SDK writes an answer to a client
with a handshake as a stream of one event, which clients bound more tightly than JSON. Spec: JSON-RPC 2.0 §4, §6; MCP
Transports "Streamable HTTP". Trust: requests are untrusted.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.model.skill import Skill
from skillwire.protocols.skill_sharing.messages import SkillDescriptor
from skillwire.protocols.skills_rpc.messages import CreateBlob, CreatedBlob, RunResult


class Running(NamedTuple):
    """An execution that has not ended yet; ``status`` is ``accepted`` or ``running``."""

    run_id: str
    status: str


class Large(Protocol):
    """The answer beside what the SDK writes: its large values, and what is answered in its place.

    What is held of large values is bounded.
    """

    def begin_batch(self, messages: int) -> None:
        """Count the messages of a batch. Raises ProblemError when they come too often."""

    def ask_for_scope(self, skill: str) -> None:
        """Answer with the scope that opens ``skill`` to this caller's access token, if one does."""

    def reserve(self, size: int) -> None:
        """Reserve ``size`` bytes, or release them if negative. Raises SkillwireError when too much is held."""

    def attach(self, value: bytes) -> str:
        """Return a placeholder for ``value``, JSON with reserved space, for use as a string in the SDK's output."""


class Blob(NamedTuple):
    """A blob of a caller: its media type, its size in bytes, and what reads it."""

    kind: str
    size: int
    read: Callable[[], Awaitable[bytes]]


class McpSkills(Protocol):
    """A caller, as the bridge needs it. What raises, raises a :class:`~skillwire.errors.SkillwireError`."""

    @property
    def visible(self) -> Catalog:
        """What it may know of."""

    @property
    def usable(self) -> Catalog:
        """What it may read and have run."""

    @property
    def is_public(self) -> bool:
        """Whether the caller sees public content only."""

    @property
    def large(self) -> Large | None:
        """The place for large values of the answer; None where only this caller is served."""

    async def find(self, words: str, limit: int) -> Sequence[Skill]:
        """Return the skills it may know of that fit these words best; all, by name, without words."""

    async def name_of(self, dotted: str) -> str | None:
        """Return the name of the skill that the Skills Protocol calls so, if the caller may know of it."""

    async def read(self, digest: Digest) -> bytes:
        """Return the bytes of a file of a skill."""

    async def describe(self, skill: Skill) -> SkillDescriptor:
        """Return what a skill takes and gives."""

    async def refusal(self, skill: Skill) -> str:
        """Return why a call of a skill would be refused now; empty where it would not."""

    async def call(self, skill: Skill, arguments: Mapping[str, Any], seconds: float) -> RunResult | Running:
        """Have a skill run, and wait for its end for so long."""

    async def follow(self, run_id: str, seconds: float) -> RunResult | Running:
        """Return how far an execution of its own is, after waiting for its end for so long."""

    async def find_blob(self, blob_id: str) -> Blob:
        """Return a blob of its own; ``BLOB_NOT_FOUND``, or ``LIMIT_SIZE`` for one that is too large for a message."""

    async def create_blob(self, wanted: CreateBlob) -> CreatedBlob:
        """Keep a blob, which a skill that it calls can read."""


def limit_exceeded(skill: Skill) -> str | None:
    """Return why a skill is not served as one of the extension, or None when it is."""
    size = sum(file.size for file in skill.files)
    if len(skill.files) > limits.MCP_SKILL_FILES:
        return f"{skill.name} has {len(skill.files):,} files; over MCP a skill has at most {limits.MCP_SKILL_FILES:,}"
    if size > limits.MCP_SKILL_BYTES:
        return f"{skill.name} has {size:,} bytes; over MCP a skill has at most {limits.MCP_SKILL_BYTES:,}"
    return None


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
