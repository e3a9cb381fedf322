"""Errors as responses: one JSON form for every status, ``{"error": {"code", "message", "details"}}``.

``code`` is a row of :data:`skillwire.codes.CODES`, so ``skillwire explain`` and the documentation describe it. Where
waiting helps, ``retry`` says how long, as in the unified form of Skill Sharing. Details of an internal failure stay in
the log. Spec: SSP §8.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from skillwire.codes import CODES
from skillwire.errors import (
    DecodeError,
    FetchError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.protocols.agent_skills.messages import IDENTITY_FIELDS, OPEN_FIELDS
from skillwire.server.http import encode_fields, send_response
from skillwire.server.quotas import Allowance

_ATTEMPTS: Final = 3
#: Codes whose general fix is one for a client of HTTP.
_FIXED: Final = frozenset({"ARCHIVE_SIZE", "LIMIT_SIZE", "METHOD_NOT_ALLOWED", "NOT_FOUND", "URL_TOO_LONG"})


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answer: status, code, message for this case, facts for machines, and further header fields.

    ``written`` is its body where a protocol has another form, and ``media_type`` that form's.
    """

    status: int
    code: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    written: bytes | None = None
    media_type: str = "application/json"

    def body(self) -> bytes:
        """Return the document."""
        if self.written is not None:
            return self.written
        fix = {"fix": CODES[self.code].fix} if self.code in _FIXED else {}
        error: dict[str, object] = {"code": self.code, "message": self.message, "details": {**fix, **self.details}}
        if "Retry-After" in self.fields:
            delay = 1000 * int(self.fields["Retry-After"])
            error["retry"] = {"suggested_delay_ms": delay, "max_attempts": _ATTEMPTS}
        return json.dumps({"error": error}, ensure_ascii=False).encode()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        await self.send(send, head=scope["method"] == "HEAD")

    async def send(self, send: Send, *, head: bool = False) -> None:
        """Answer with this problem; without the body for ``head``."""
        body = self.body()
        own = {"Content-Type": self.media_type, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        fields = encode_fields(own, OPEN_FIELDS, self.fields)
        await send_response(send, self.status, fields, b"" if head else body)


class ProblemError(Exception):
    """Ends a request with ``problem`` as its answer."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem


#: Seconds until it is worth asking again when the disk or the database failed.
STORAGE_PAUSE: Final = "2"
NOT_FOUND = Problem(404, "NOT_FOUND", "nothing is published at this path")
NOT_READY = Problem(503, "NOT_READY", "the skills are still being loaded", fields={"Retry-After": "1"})
URL_TOO_LONG = Problem(414, "URL_TOO_LONG", "the URL is longer than anything that is published here")
HEAD_TOO_LARGE = Problem(431, "HEAD_TOO_LARGE", "the head of the request is larger than any that is needed here")
REQUEST_TIMEOUT = Problem(408, "REQUEST_TIMEOUT", "the request took too long to arrive")
NO_HOST = Problem(400, "REQUEST_SYNTAX", "the request needs one Host field")
UNREADABLE = Problem(400, "REQUEST_SYNTAX", "the request cannot be parsed as HTTP/1.1")
OTHER_VERSION = Problem(505, "REQUEST_SYNTAX", "requests are of HTTP/1.0 or HTTP/1.1")
OTHER_HOST = Problem(421, "HOST_UNKNOWN", "this server is not known by this host name; call it as localhost")
CROWDED = Problem(503, "TOO_MANY_CONNECTIONS", "there are too many connections", fields={"Retry-After": "1"})
INTERNAL = Problem(500, "INTERNAL", "the server failed; its log says how")


def method_not_allowed(method: str, allowed: str) -> Problem:
    """Return the answer to a method that a resource does not have; ``allowed`` is the ``Allow`` field."""
    message = f"this resource answers {allowed}"
    return Problem(405, "METHOD_NOT_ALLOWED", message, {"method": method[:20]}, {"Allow": allowed})


def too_many(message: str, allowance: Allowance) -> Problem:
    """Return the problem of a caller with too many requests. Spec: RFC 6585 §4."""
    return Problem(429, "TOO_MANY_REQUESTS", message, fields=allowance.headers())


def unauthenticated(message: str) -> Problem:
    """Return the problem of a caller without credentials. Spec: RFC 9110 §15.5.2."""
    return Problem(401, "AUTH_REQUIRED", message, fields={"WWW-Authenticate": 'Bearer realm="skillwire"'})


def unsatisfiable(size: int) -> Problem:
    """Return the answer to a range that lies wholly behind the end. Spec: RFC 9110 §15.5.17."""
    fields = {"Content-Range": f"bytes */{size}"}
    return Problem(416, "RANGE_UNSATISFIABLE", f"there are only {size} bytes", {"size": size}, fields)


READ: Final = ("GET", "HEAD")
#: What a page of another site may send. The star stands for everything but Authorization (Fetch standard), and for
#: nothing in browsers that do not know it.
_FIELDS: Final = f"*, {IDENTITY_FIELDS}, Content-Type, Range, If-Range, If-None-Match"


async def answer_preflight(allowed: str, send: Send, *fields: str) -> None:
    """Send the ``allowed`` methods, and the fields that other sites' pages may send: the usual, and ``fields``."""
    own = {
        "Allow": allowed,
        "Access-Control-Allow-Methods": allowed,
        "Access-Control-Allow-Headers": ", ".join((_FIELDS, *fields)),
        "Access-Control-Max-Age": "86400",
    }
    await send_response(send, 204, encode_fields(own, OPEN_FIELDS))


@dataclass(frozen=True, slots=True)
class Preflight:
    """The response to OPTIONS: the methods of a resource, and the fields that pages of other sites may send."""

    allowed: Sequence[str]

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        await answer_preflight(", ".join(self.allowed), send)


def other_method(method: str, allowed: Sequence[str]) -> Preflight:
    """Return the response to OPTIONS. Raises HTTPException (405) for another method."""
    allowed = (*allowed, "OPTIONS")
    if method == "OPTIONS":
        return Preflight(allowed)
    raise HTTPException(405, headers={"Allow": ", ".join(allowed)})


def problem_for(error: SkillwireError) -> Problem:
    """Return the response that reports ``error``: 400 for what the client can correct."""
    if isinstance(error, UsageError | DecodeError | ValidationError):
        return Problem(400, error.code, error.message, {"fix": error.diagnostics().fix})
    raise error


def storage_problem(error: StorageError) -> Problem:
    """Return the response for a disk or database that failed; the log has the reason."""
    message = "the server cannot use its disk or database at the moment"
    return Problem(503, error.code, message, fields={"Retry-After": STORAGE_PAUSE})


def refused(message: str, reason: str) -> TrustError:
    """Return the refusal of credentials; ``message`` holds none of them, ``reason`` is for machines (``expired``)."""
    return TrustError("AUTH_REQUIRED", message, details={"reason": reason})


def unavailable(message: str, url: str, **details: int) -> FetchError:
    """Return the error for a failure of the authorization server at ``url``; ``retry_after`` in seconds."""
    return FetchError("ISSUER_UNAVAILABLE", message, place=SourceLocation(url), details=details)
