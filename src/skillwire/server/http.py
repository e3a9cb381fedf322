"""HTTP as the server reads it: header fields, queries, the site's address, codings, conditions, ranges and origins.

Agents, browsers and authorization servers get URLs of ours from one place, so that all of them get the same;
:mod:`skillwire.web.address` bounds how far ``Host`` is believed. Trust: every argument is untrusted. The work grows
with its length, which the server bounds.

**Pages of other sites** (:class:`Origins`): one rule for ``/mcp``, ``/rpc``, ``/blobs``, and calls of Skill Sharing.

A browser lets any page send requests, also to a server that listens to this machine alone, and names the page behind
every POST in ``Origin``; other clients send none. With DNS rebinding a page names its own host in ``Origin`` and in
``Host``, so comparing the two proves nothing: an origin has to be listed by the operator, or belong to this machine in
a request to this machine. Public content is open to every page without this rule. Spec: MCP Transports "Security".

For a GET by a link, picture or form a browser sends no ``Origin``; ``Sec-Fetch-Site`` says whether the page was of
another site (Fetch Metadata). Browsers send it to this machine and over TLS; a GET in clear text to another machine
looks like that of a program.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import UUID, uuid4

from starlette.types import Scope, Send

from skillwire.errors import UsageError, ValidationError
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.messages import IDENTITY_FIELDS
from skillwire.web.address import site_address
from skillwire.wire.tracing import TraceContext, read_trace

Fields = list[tuple[bytes, bytes]]

#: The fields that say who asks, by the names under which ASGI carries them.
IDENTITY_NAMES: Final = tuple(name.encode("ascii") for name in IDENTITY_FIELDS.lower().split(", "))
#: Where the scope of a request holds its context.
CONTEXT: Final = "skillwire.context"
#: The ``Vary`` of what comes in codings, and is another for who may see more.
VARY: Final = f"Accept-Encoding, {IDENTITY_FIELDS}"


def encode_fields(*groups: Mapping[str, str]) -> Fields:
    """Return header fields with their names in lower case, as bytes."""
    return [
        (name.lower().encode("ascii"), value.encode("latin-1")) for group in groups for name, value in group.items()
    ]


def join_fields(fields: Fields) -> bytes:
    """Return ``fields`` as lines of a head."""
    return b"".join([b"%s: %s\r\n" % field for field in fields])


def read_fields(fields: Iterable[tuple[bytes, bytes]], *wanted: bytes) -> dict[bytes, str]:
    """Return the ``wanted`` fields of a request; repeated ones are joined, as RFC 9110 §5.3 defines."""
    found: dict[bytes, str] = {}
    for name, value in fields:
        if name in wanted:
            text = value.decode("latin-1").strip(" \t")  # RFC 9110 §5.5: blanks around a value are not part of it
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


_REQUEST_ID_LENGTH: Final = 64


class RequestIds:
    """The names of a request in logs and traces, read from its header fields with their first use. Trust: only names.

    ``trace_id`` is that of the span or the execution that the request became, if any.
    """

    __slots__ = ("_fields", "_made", "trace_id")

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._made: UUID | None = None
        self.trace_id = ""

    @property
    def made(self) -> UUID:
        """A new ID, which stands for what the client does not name."""
        self._made = self._made or uuid4()
        return self._made

    @property
    def request_id(self) -> str:
        """``X-Request-Id``, or a new one."""
        sent = read_fields(self._fields, b"x-request-id").get(b"x-request-id", "")[:_REQUEST_ID_LENGTH]
        return sent if sent and sent.isprintable() else str(self.made)

    @property
    def trace(self) -> TraceContext | None:
        """The trace of ``traceparent``, which is the client's or a proxy's."""
        if not any(name == b"traceparent" for name, _ in self._fields):
            return None
        return read_trace(read_fields(self._fields, b"traceparent")[b"traceparent"])

    def in_logs(self) -> dict[str, str]:
        """Return the fields of each line about the request."""
        trace = self.trace
        trace_id = self.trace_id or (trace.trace_id if trace else self.made.hex)
        return {"request_id": self.request_id, "trace_id": trace_id}


#: The request that is being answered, for the log.
LOGGED: Final[ContextVar[RequestIds | None]] = ContextVar("skillwire_request", default=None)


def client_address(scope: Scope) -> str:
    """Return the IP address that a request came from; empty when the server does not say."""
    return scope["client"][0] if scope.get("client") else ""


async def send_response(send: Send, status: int, fields: Fields, body: bytes = b"") -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def read_pairs(query: bytes, most: int) -> list[tuple[str, str]]:
    """Return the parameters of an untrusted query, in order. Raises UsageError (``QUERY``) for more than ``most``."""
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=most)
    except ValueError as error:
        raise UsageError("QUERY", f"there are more than {most} parameters") from error


def site_of(scope: Scope, base_url: str) -> str:
    """Return the absolute URL of the site's root, from ``base_url``, else from the untrusted ``Host``."""
    host = read_fields(scope["headers"], b"host").get(b"host", "")
    return site_address(base_url, scope["scheme"], host, scope.get("root_path", ""), scope.get("server"))


def path_of(scope: Scope) -> str:
    """Return the decoded path from the root of this application, wherever it is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path


def root_of(scope: Scope, base_url: str) -> str:
    """Return the path of the site's root as clients know it, without a final slash: empty for a whole host."""
    return urlsplit(base_url).path.rstrip("/") if base_url else quote(scope.get("root_path", ""))


Coding = Literal["br", "gzip", "identity"]

#: Best first: what is chosen when a client likes several equally.
CODINGS: Final[tuple[Coding, ...]] = ("br", "gzip", "identity")

_WEIGHTED: Final = re.compile(r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*(?:;[ \t]*[qQ]=([0-9.]+)[ \t]*)?", re.ASCII)
_WEIGHT: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?", re.ASCII)
_TAG: Final = re.compile(r'[ \t,]*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)')
_RANGE: Final = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.ASCII | re.IGNORECASE)


class Part(NamedTuple):
    """A part of a representation: the first byte and the one after the last."""

    start: int
    stop: int


def choose_coding(accept_encoding: str) -> Coding:
    """Return the best coding for an ``Accept-Encoding``, identity if all are refused."""
    return liked_codings(accept_encoding)[0]


def liked_codings(accept_encoding: str) -> tuple[Coding, ...]:
    """Return the codings that an ``Accept-Encoding`` allows, the best first, and identity. Spec: RFC 9110 §12.5.3."""
    weights: dict[str, float] = {}
    for item in accept_encoding.split(","):
        read = _WEIGHTED.fullmatch(item)
        if read and (read[2] is None or _WEIGHT.fullmatch(read[2])):
            name = read[1].lower()
            weights["gzip" if name == "x-gzip" else name] = float(read[2] or 1)
    anything = weights.get("*", 0.0)
    # Identity that is not mentioned is acceptable, but any coding that is mentioned is liked better.
    identity = weights.get("identity", 0.0)
    liked = {"br": weights.get("br", anything), "gzip": weights.get("gzip", anything), "identity": identity}
    allowed = [coding for coding in CODINGS if liked[coding] > 0]
    return (*sorted(allowed, key=lambda coding: -liked[coding]), "identity")


def matching_tag(if_none_match: str, tags: tuple[str, ...]) -> str | None:
    """Return which of ``tags`` the client holds, compared weakly; with ``*`` the first. Spec: RFC 9110 §13.1.2."""
    if if_none_match.strip(" \t") == "*":
        return tags[0]
    position = 0
    while position < len(if_none_match):
        found = _TAG.match(if_none_match, position)
        if found is None:
            return None
        if found[1] in tags:
            return found[1]
        position = found.end()
    return None


def requested_part(range_header: str, size: int) -> Part | None:
    """Return the requested part, empty outside ``size``; None for an invalid range. Spec: RFC 9110 §14.2."""
    found = _RANGE.fullmatch(range_header)
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return Part(max(size - int(found[2]), 0), size)
    start = int(found[1])
    if not found[2]:
        return Part(min(start, size), size)
    if int(found[2]) < start:
        return None
    return Part(min(start, size), min(int(found[2]) + 1, size))


#: The reason code for a refused page.
PAGE_REFUSED: Final = "PAGE_REFUSED"
#: ``Sec-Fetch-Site`` of a program, of our own pages, and of an address that a person typed.
_OWN_SITE: Final = frozenset({"", "same-origin", "none"})


#: The field that opens a response to pages of other sites.
_OPENS: Final = b"access-control-allow-origin"


class Origins:
    """The origins whose pages may act: those that the operator lists, and ``base_url``."""

    def __init__(self, known: Iterable[str], base_url: str) -> None:
        self._known = frozenset(parse_url(one).origin for one in (*known, *([base_url] if base_url else ())))

    def let_in(self, scope: Scope) -> bool:
        """Whether a request may act, by the page that its head names. Trust: its fields are untrusted."""
        asked = read_fields(scope["headers"], b"origin", b"host", b"sec-fetch-site")
        origin, host = asked.get(b"origin", ""), asked.get(b"host", "")
        if not origin:
            site = asked.get(b"sec-fetch-site", "")
            return site in _OWN_SITE or (site == "same-site" and is_own_name(host))
        try:
            page = parse_url(origin)
        except ValidationError:  # such as "null"
            return False
        return page.origin in self._known or (is_own_name(page.authority) and is_own_name(host))

    def restrict(self, scope: Scope, fields: Fields) -> Fields:
        """Return the header fields of a response, which only the requesting page may read, if it may act."""
        kept = [field for field in fields if field[0] != _OPENS]
        if len(kept) == len(fields):
            return fields
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        opened = [(_OPENS, origin)] if origin is not None and self.let_in(scope) else []
        return [*kept, *opened, (b"vary", b"Origin")]


@lru_cache(maxsize=256)  # the same few names come again
def is_own_name(host: str) -> bool:
    """Whether an untrusted ``Host`` names this machine in a way that no other machine can take over."""
    try:
        name = parse_url(f"http://{host}").host.strip("[]")
    except ValidationError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False
