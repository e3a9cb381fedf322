"""Responses that are sent without the application: prepared indexes, lists, searches and details of skills.

Two thirds of the time of such a response would go into a task, a scope and messages for the application. An unusual
request or connection takes the ordinary way, on which the application gives the same response. The head of a request is
kept with its response, and the next request with the same bytes is not even parsed. That is right only between two
requests, so the parser's position is an explicit state, which its own events move. This is the only module that knows
the protocol class of uvicorn.

The library reads a head however long it is and however slowly it comes. Here a head has at most
:data:`~skillwire.limits.SERVER_HEAD_BYTES`, and a request has to arrive whole within
:data:`~skillwire.limits.SERVER_REQUEST_SECONDS`; the first one counts from the moment the connection is made. One with
a large body may take longer, as long as it comes at :data:`~skillwire.limits.SERVER_REQUEST_RATE`. One timer for each
connection looks now and then whether a request is overdue; setting one for each request would cost a tenth of the time
that a response takes.

The library accepts connections without an end, and answers 503 beyond its limit. Here a connection beyond the limit, or
beyond the limit of its address, gets a 503 and is closed within a second, so that files can still be opened; trusted
proxies have no limit of their own. Requests that HTTP forbids, such as one without ``Host``, are refused before the
application.

Trust: the bytes are untrusted. The number and the size of the heads that are kept are bounded; the oldest goes first.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import suppress
from enum import Enum, auto
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from weakref import ref

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skillwire import limits
from skillwire.protocols.skill_discovery.center import SKILLS
from skillwire.server import problems
from skillwire.server.http import IDENTITY_NAMES, encode_fields, is_own_name, join_fields
from skillwire.server.middleware import Outcome
from skillwire.server.problems import ProblemError
from skillwire.server.quotas import network_of
from skillwire.server.routing import REVISION
from skillwire.server.search import DETAILS, SEARCH_PATH
from skillwire.wire.tracing import is_tracing

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from skillwire.server.app import Application
    from skillwire.server.components import Services
    from skillwire.server.http import Fields
    from skillwire.server.middleware import RequestLog
    from skillwire.server.monitoring import RouteLabel
    from skillwire.server.problems import Problem
    from skillwire.server.responses import WireResponse
    from skillwire.server.revision import Revision

    Client = tuple[str, int] | None

_END_OF_HEAD: Final = b"\r\n\r\n"
_ANSWERED: Final = (f"{SEARCH_PATH}?".encode("ascii"), DETAILS)
_LISTS: Final = SKILLS.encode("ascii")
#: Fields with which a request goes the ordinary way: it has a body, came through a proxy that names its client, waits
#: for a change, or has credentials.
_UNUSUAL: Final = frozenset(
    {b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"x-forwarded-for", REVISION, *IDENTITY_NAMES}
)
_NAMED: Final = frozenset({b"x-request-id", b"traceparent"})
_NO_FIELDS: Final[Fields] = []
_OPEN_TO_ALL: Final = b"access-control-allow-origin: *\r\n"
_VERSIONS: Final = frozenset({"1.0", "1.1"})
#: How long a refused connection may take to send its request, to which it gets a response.
_REFUSED_SECONDS: Final = 1.0
#: What the library logs of connections; its warnings are ours, with the address of the client.
_LIBRARY_LOG: Final = logging.getLogger("uvicorn.error.connections")
_LIBRARY_LOG.setLevel(logging.ERROR)


class _Known(NamedTuple):
    """The response to a head, and the method, path and label for the log."""

    response: WireResponse
    method: str
    path: str
    label: RouteLabel


class FastPath:
    """Finds prepared responses, by the parsed request or by its head, and records them as the application does."""

    def __init__(self, services: Services, log: RequestLog) -> None:
        self._catalog = services.catalog
        self._authentication = services.authentication
        self._is_local = services.is_local
        self._is_traced = is_tracing()  # then the application answers, which makes a span of each request
        self.log = log
        self._proxies = tuple(map(ip_network, services.configuration.trusted_proxies))
        self._connections = 0
        self.refused = 0
        self._addresses: Counter[str] = Counter()
        self._revision: Callable[[], Revision | None] = lambda: None  # that the heads belong to
        self._heads: dict[bytes, _Known] = {}

    def connect(self, client: Client, most: int) -> str | None:
        """Count a connection; return the address that it counts for, or None when it is refused."""
        network = network_of(client[0]) if client else ""
        with suppress(ValueError):
            if client and any(ip_address(client[0]) in proxy for proxy in self._proxies):
                network = ""
        share = max(1, min(limits.SERVER_ADDRESS_CONNECTIONS, most // 4))
        if self._connections < most and not (network and self._addresses[network] >= share):
            self._connections += 1
            self._addresses[network] += 1
            return network
        log = structlog.get_logger("skillwire")
        log.error("connections are refused", client=network or None, connections=self._connections)
        return None

    def disconnect(self, network: str) -> None:
        """Count the end of a connection."""
        self._connections -= 1
        self._addresses[network] -= 1
        if not self._addresses[network]:
            del self._addresses[network]

    def respond(
        self, url: bytes, method: bytes, fields: Fields, client: Client, head: bytes | None = None
    ) -> WireResponse | None:
        """Return the response to a request, if it is prepared or quickly found; it is kept for ``head``.

        ``url`` and ``method`` are as the request line has them; ``head`` is the request, if nothing else came with it.
        """
        revision = self._catalog.current
        if revision is None or self._is_traced:
            return None
        if self._is_local:  # the response depends on the name of the server, and on the page that asks
            asked = dict(fields)
            if b"origin" in asked or not is_own_name(asked.get(b"host", b"localhost").decode("latin-1")):
                return None
        started = time.perf_counter()
        path = url.decode("latin-1")  # prepared paths have no escapes
        index = revision.prepared.get(path)
        if url.startswith(_ANSWERED):
            response = revision.answers.ready_at_once(url, method, fields)
        else:
            site = revision.answers.site_of(fields) if url.startswith(_LISTS) else ""
            prepared = revision.public_view.indexes.get(f"{path} {site}") if site else index
            response = prepared.ready(method, fields) if prepared else None
        if response is None or (counted := self._count(client)) is None:
            return None
        if self._is_local:
            response = response._replace(head=response.head.replace(_OPEN_TO_ALL, b"vary: Origin\r\n"))
        known = _Known(response, method.decode("ascii"), path.partition("?")[0], "index" if index else "service")
        # An index is one body for all heads; other bodies are kept within the bound of their own cache alone. A head
        # with an ID or a trace of its own comes once.
        is_kept = (index or not response.body) and head and _NAMED.isdisjoint([name for name, _ in fields])
        if is_kept and head and len(head) <= limits.SERVER_REMEMBERED_HEAD_BYTES:
            if revision is not self._revision():
                self._revision = ref(revision)
                self._heads.clear()
            if len(self._heads) >= limits.SERVER_REMEMBERED_HEADS:
                del self._heads[next(iter(self._heads))]
            self._heads[head] = known
        self._record(known, started, client, fields)
        return response._replace(head=response.head + counted) if counted else response

    def respond_again(self, head: bytes, client: Client) -> WireResponse | None:
        """Return the response to a request that :meth:`respond` answered before, byte for byte."""
        revision = self._catalog.current
        if revision is None or revision is not self._revision():
            return None
        started = time.perf_counter()
        known = self._heads.get(head)
        if known is None:
            return None
        if (counted := self._count(client)) is None:
            return None
        self._record(known, started, client)
        return known.response._replace(head=known.response.head + counted) if counted else known.response

    def _count(self, client: Client) -> bytes | None:
        """Count the request, and return its lines about that; None where it is refused."""
        try:
            return join_fields(encode_fields(self._authentication.count_anonymous(client[0] if client else "")))
        except ProblemError:  # the ordinary way refuses it, and counts no refused one
            return None

    def _record(self, known: _Known, started: float, client: Client, fields: Fields = _NO_FIELDS) -> None:
        response = known.response
        outcome = Outcome(known.label, response.status, len(response.body), time.perf_counter() - started)
        self.log.record(known.method, known.path, outcome, client, fields)


class _State(Enum):
    """Where the parser stands."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class Connection(HttpToolsProtocol):
    """The library's connection to an :class:`~skillwire.server.app.Application`, bounded. Trust: untrusted bytes."""

    _timer: asyncio.TimerHandle | None = None
    #: When the request that is arriving began; None while none is.
    _began: float | None = None
    #: Bytes that have come of it.
    _arrived = 0
    _state = _State.BETWEEN
    #: How many have begun to arrive.
    _requests = 0
    #: Of the head that is arriving.
    _head_bytes = 0
    #: Whether the request that is arriving has been answered already.
    _is_answered = False
    #: What came last, if the parser stood between two requests, until it has read the first one in it.
    _chunk: bytes | None = None
    #: The fields that the library sends with every answer, and how they go over the wire.
    _default_lines: tuple[Fields, bytes] = ([], b"")
    #: Since when nothing has come after an answer at once; the library itself watches what it has answered.
    _idle_since: float | None = None
    #: The address that the connection counts for; None when it was refused.
    _counted: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and expect a request soon, unless there are too many connections."""
        super().connection_made(cast("asyncio.Transport", transport))
        self.logger = _LIBRARY_LOG
        application = cast("Application", self.config.app)
        if not hasattr(application.state, "fast_path"):  # one for all connections
            application.state.fast_path = FastPath(application.services, application.log)
        self._fast_path: FastPath = application.state.fast_path
        most = limits.SERVER_CONNECTIONS if self.limit_concurrency is None else self.limit_concurrency - 1
        self._counted = self._fast_path.connect(self.client, most)
        if self._counted is None:  # what was sent is read first: a close before it would be a reset
            self.connections.discard(self)  # the library answers 503 to all when there are too many in it
            if self._fast_path.refused >= most // 4:
                self._refuse(problems.CROWDED)
            self._fast_path.refused += 1
            self._timer = self.loop.call_later(_REFUSED_SECONDS, self._refuse, problems.CROWDED)
            return
        self._expect()
        self._timer = self.loop.call_later(limits.SERVER_REQUEST_SECONDS / 2, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._counted is None:
            self._fast_path.refused -= 1
        else:
            self._fast_path.disconnect(self._counted)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Answer at once, or read on, unless the head has become too long."""
        if self._counted is None and not self.transport.is_closing():
            self._refuse(problems.CROWDED)
        if self.transport.is_closing():  # what comes after a refusal
            return
        if self._state is _State.BETWEEN and self._answer_again(data):
            return
        self._chunk = data if self._state is _State.BETWEEN else None
        requests = self._requests
        self._arrived += len(data)
        super().data_received(data)
        if self._state is _State.HEAD:
            # A head that began in this chunk began behind the last one that ended in it.
            began = self._requests != requests
            self._head_bytes = len(data) - data.rfind(_END_OF_HEAD) if began else self._head_bytes + len(data)
            self._expect()
            if self._head_bytes > limits.SERVER_HEAD_BYTES:
                self._refuse(problems.HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins; its scope is made later, if the application has to answer it."""
        self._state = _State.HEAD
        self._requests += 1
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._idle_since = None
        self._expect()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._state = _State.BODY
        hosts = [name for name, _ in self.headers].count(b"host")
        version = self.parser.get_http_version()
        if version not in _VERSIONS or hosts > 1 or (not hosts and version == "1.1"):
            self._refuse(problems.NO_HOST if version in _VERSIONS else problems.OTHER_VERSION)
        self._is_answered = self.transport.is_closing() or self._answer()  # nothing is answered behind a refusal
        if not self._is_answered:
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()  # makes the scope, and resets what has been read
            self.url, self.expect_100_continue = url, expects
            self.headers.extend(headers)  # the scope holds this list
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Read on, unless the request was refused."""
        if not self._is_answered:
            super().on_body(body)

    def send_400_response(self, _msg: str) -> None:
        """Refuse what cannot be parsed."""
        self._refuse(problems.UNREADABLE)

    def on_message_complete(self) -> None:
        """It is whole, and what comes next is another head."""
        self._state = _State.BETWEEN
        self._chunk = None
        self._began = None
        if self._is_answered:
            self._idle_since = self.loop.time()
        else:
            super().on_message_complete()

    def _is_free(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _may_answer(self) -> bool:
        return self._is_free() and not self.flow.write_paused

    def _answer(self) -> bool:
        """Answer at once, if the response is known and nothing is unusual; return whether that was done."""
        is_usual = (
            self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and _UNUSUAL.isdisjoint([name for name, _ in self.headers])
        )
        if not is_usual or not self._may_answer():
            return False
        # The chunk is kept where it is one whole head and nothing else; a request with a body never comes here.
        chunk = self._chunk or b""
        is_plain = chunk.count(b"\n") == chunk.count(b"\r\n")
        is_one_head = is_plain and chunk.count(_END_OF_HEAD) == 1 and chunk.endswith(_END_OF_HEAD)
        head = chunk if is_one_head else None
        ready = self._fast_path.respond(self.url, self.parser.get_method(), self.headers, self.client, head)
        if ready is None:
            return False
        self._write(ready)
        return True

    def _answer_again(self, data: bytes) -> bool:
        ready = self._fast_path.respond_again(data, self.client) if self._may_answer() else None
        if ready is None:
            return False
        self._unset_keepalive_if_required()
        self._write(ready)
        self._began = None
        self._idle_since = self.loop.time()
        return True

    def _write(self, ready: WireResponse) -> None:
        fields = self.server_state.default_headers  # such as the date; the library makes them anew each second
        if self._default_lines[0] is not fields:
            self._default_lines = (fields, join_fields(fields))
        head = b"%s%s\r\n" % (ready.head, self._default_lines[1])
        self.transport.writelines((head, ready.body) if ready.body else (head,))
        self.server_state.total_requests += 1

    def _expect(self) -> None:
        if self._began is None:
            self._began = self.loop.time()
            self._arrived = 0

    def _look(self) -> None:
        """Refuse a request that is overdue; close a connection that is idle."""
        now = self.loop.time()
        allowed = limits.SERVER_REQUEST_SECONDS + self._arrived / limits.SERVER_REQUEST_RATE
        if self._began is not None and now - self._began >= allowed:
            self._refuse(problems.REQUEST_TIMEOUT)
        elif self._idle_since is not None and now - self._idle_since >= limits.SERVER_IDLE_SECONDS:
            self.transport.close()
        elif not self.transport.is_closing():
            self._timer = self.loop.call_later(limits.SERVER_REQUEST_SECONDS / 2, self._look)

    def _refuse(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        if self._arrived:
            outcome = Outcome("none", problem.status, len(problem.body()), 0.0)
            self._fast_path.log.record("-", "-", outcome, self.client, _NO_FIELDS)
        if self._is_free():
            body = problem.body()
            status = HTTPStatus(problem.status)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
            )
            own = join_fields(encode_fields(problem.fields))
            self.transport.write(head.encode("ascii") + own + b"\r\n" + body)
        self.transport.close()
