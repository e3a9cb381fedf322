"""Requests whose answer is known without parsing them.

Clients send the same head again and again, byte for byte. What a head means does not change, and what it is answered
does not while the revision stays; so a head that was answered at once is kept with its answer. Only a request of
nobody in particular, whole and alone in what came, gets here (:mod:`skillwire.server.fastpath`). Trust: the heads are
a stranger's; their number and size are bounded, and the oldest goes first.

A transport that hands on at the end of a turn of the event loop what was written in it.

The HTTP library writes the head of an answer and its body one after the other, which costs two system calls and the
client two reads. So what is written within one turn leaves together.

One connection of a client: what the HTTP library leaves to others.

The library reads a head however long it is and however slowly it comes. Here a head has at most
:data:`~skillwire.limits.SERVER_HEAD_BYTES`, and a request has to arrive whole within
:data:`~skillwire.limits.SERVER_REQUEST_SECONDS`; the first one counts from the moment the connection is made. One with
a large body may take longer, as long as it comes at :data:`~skillwire.limits.SERVER_REQUEST_RATE`.

One timer for each connection looks now and then whether a request is overdue; setting one for each request would
cost a tenth of the time that an answer takes.

An index that is prepared is answered at once, without the application: two thirds of the time of such an answer
would go into a task, a scope and messages for it. Whatever is unusual about the request or the connection goes
the ordinary way, on which the application gives the same answer.

A request that was answered so is remembered, byte for byte (:mod:`skillwire.server.fastpath`), and the next time it
is not even parsed. That is right only where the parser stands between two requests, so where it stands is one explicit
state, which the parser's own events move.

A list of the Skills Protocol is known by its head, and answered from its body, at once
(:mod:`skillwire.server.fastpath`).

A call of a skill is known by its head in the same way (:mod:`skillwire.server.fastpath`). Its answer
comes later, when the call is on the disk. Until then what comes behind it waits unread, so answers leave in the order
of their requests.

Calls whose head is known: accepted without a task, a scope, and messages for an application.

Clients send the same head again and again, byte for byte; the body alone is another. What a head means does not change
while the revision stays. So when a call was accepted that was nothing but that (of nobody in particular, with nothing
asked for beside it), its head is kept with what it meant, and the next time only the body is read, and checked as ever.

Nothing is refused here. What is not in order, what has to be looked up before, and what could not be written takes the
ordinary way, on which the application says what is wrong, or does it after all.

Trust: heads and bodies are a stranger's. The heads' number and size are bounded, and the oldest goes first; bodies are
small, so that what all connections hold stays within :data:`~skillwire.limits.EXECUTION_BODIES_BYTES`.

Lists whose head is known: answered without a task, a scope, and messages for an application.

Agents list skills again and again with the same head, byte for byte; the body alone is another. What a head means does
not change while the revision stays. So the head of a request that listed skills for nobody in particular is kept with
what there was to list, and the next time only the body is read, as strictly as ever. A page is a part of a text
that is written already, so the answer is there at once.

Nothing is refused here: what is not a list, or not in order, takes the ordinary way, on which the application says so.

Trust: heads and bodies are a stranger's. The heads' number and size are bounded, and the oldest goes first; bodies are
small.
"""

from __future__ import annotations

from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, cast

from msgspec import UNSET
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.executions.accept import Invocation
from skillwire.model.access import ANONYMOUS
from skillwire.protocols.skill_sharing.validation import parse_plain
from skillwire.protocols.skills_rpc.codec import Call, Single, decode, decode_params, encode_result
from skillwire.protocols.skills_rpc.messages import ListSkills
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.execution_responses import encode_accepted
from skillwire.server.http import IDENTITY_NAMES, join_fields, site_of
from skillwire.server.problems import HEAD_TOO_LARGE, REQUEST_TIMEOUT
from skillwire.server.request_bodies import WITH_BODY
from skillwire.server.responses import WireResponse

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.model.execution import Execution
    from skillwire.protocols.skill_sharing.messages import InvocationRequest
    from skillwire.server.callable_skills import GrantCache
    from skillwire.server.execution_service import ExecutionService
    from skillwire.server.routes.executions import Request

    Address = tuple[str, int | None]
    from starlette.types import Scope

    from skillwire.protocols.skills_rpc.server import SkillsRpc
    from skillwire.server.application import Application
    from skillwire.server.http import Fields
    from skillwire.server.problems import Problem
    from skillwire.server.rpc_methods import Request as Request_known_lists


T = TypeVar("T")


class FastAnswer(NamedTuple):
    """The answer that a request got, and what the log says of the request: its method and its path."""

    ready: WireResponse
    method: str
    path: str


class FastPathCache(Generic[T]):
    """Head → what it meant in one revision."""

    def __init__(self) -> None:
        self._number = 0
        self._meanings: dict[bytes, T] = {}

    def find(self, head: bytes, revision: int) -> T | None:
        """Return what ``head`` meant in the revision of this number, or None."""
        return self._meanings.get(head) if revision == self._number else None

    def keep(self, head: bytes, revision: int, meaning: T) -> None:
        """Keep ``meaning``, unless the head is long."""
        if len(head) > limits.SERVER_REMEMBERED_HEAD_BYTES:
            return
        if revision != self._number:
            self._number = revision
            self._meanings.clear()
        if len(self._meanings) >= limits.SERVER_REMEMBERED_HEADS:
            del self._meanings[next(iter(self._meanings))]
        self._meanings[head] = meaning


class BufferedTransport:
    """Stands before ``transport``; whatever else is asked of it goes there."""

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write ``data`` at the end of this turn."""
        if data:
            if not self._parts:
                self._loop.call_soon(self._flush)
            self._parts.append(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Write ``parts`` now, behind what was written before."""
        if self._parts:
            self._flush()
        self._transport.writelines(parts)

    def close(self) -> None:
        """Write what is left, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_END_OF_HEAD: Final = b"\r\n\r\n"
#: The extension of a scope that holds the :class:`Head` of its request as ``head``.
HEAD: Final = "skillwire.head"


class Head(NamedTuple):
    """The head of a request that came whole and alone, and how many bytes of body came with it."""

    written: bytes
    length: int


class KnownCall(NamedTuple):
    """What a head means: a call of ``offer`` with so many bytes of body, that reached ``site`` at ``server``."""

    method: str
    path: str
    length: int
    offer: CallableSkill
    site: str
    server: Address | None


class KnownCalls:
    """Accepts calls by their heads.

    Args:
        desk: where executions are.
        granted: knows whether somebody agreed that a skill runs here.
        base_url: of the site; as requests say it when empty.
    """

    def __init__(self, desk: ExecutionService, granted: GrantCache, base_url: str) -> None:
        self._desk = desk
        self._granted = granted
        self._base_url = base_url
        self._heads: FastPathCache[KnownCall] = FastPathCache()

    def learn(self, request: Request, offer: CallableSkill, revision: int) -> None:
        """Keep what the head of a request meant that was accepted in this revision, if it was nothing but a call."""
        scope, asked = request.scope, request.asked
        head: Head | None = scope.get("extensions", {}).get(HEAD, {}).get("head")
        if head is None or head.length > limits.SERVER_REMEMBERED_BODY_BYTES or request.method not in WITH_BODY:
            return
        if request.principal is not None or asked.wait or asked.key is not None or asked.webhook is not None:
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        known = KnownCall(request.method, path, head.length, offer, site_of(scope, self._base_url), scope.get("server"))
        self._heads.keep(head.written, revision, known)

    def find(self, request: bytes, revision: int, server: Address | None) -> tuple[KnownCall, bytes] | None:
        """Return what a request means that came alone, and its body; None when it is not known, or not whole."""
        end = request.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        call = self._heads.find(request[:end], revision)
        if call is None or len(request) != end + call.length or call.server != server:
            return None
        return call, request[end:]

    def accept(
        self, call: KnownCall, body: bytes, address: str, answered: Callable[[WireResponse | None], object]
    ) -> bool:
        """Accept a call if nothing is in the way; return whether that was begun.

        Later ``answered`` is called: with the answer when the execution is on the disk, with None when that failed.
        """
        wanted = parse_plain(body, "InvocationRequest", limits.EXECUTION_REQUEST_BYTES)
        if wanted is None or _proves_who(wanted) or not self._granted.is_known(call.offer.skill):
            return False
        clock = self._desk.clock
        invocation = Invocation(wanted, caller_of(ANONYMOUS, address), clock().wall)

        def told(execution: Execution | None) -> None:
            answered(None if execution is None else encode_accepted(execution, call.site, clock().wall))

        try:
            return self._desk.accept_soon(call.offer, invocation, told)
        except SkillwireError:  # the ordinary way says what is wrong
            return False


def _proves_who(wanted: InvocationRequest) -> bool:
    return wanted.caller.credentials is not UNSET


#: Fields with which a request goes the ordinary way: it has a body, came through a proxy that says for whom, or says
#: who asks.
_UNUSUAL: Final = frozenset(
    {b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"x-forwarded-for", *IDENTITY_NAMES}
)
#: The same of a call, which has a body; its answer names the scheme, which a proxy may know better, too.
_UNUSUAL_OF_CALL: Final = _UNUSUAL - {b"content-length"} | {b"x-forwarded-proto"}


class _State(Enum):
    """Where the parser stands."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class Connection(HttpToolsProtocol):
    """The library's connection to an :class:`~skillwire.server.application.Application`, bounded.

    Trust: the bytes are a stranger's.
    """

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
    #: A call that is on its way to the disk, and what came behind it.
    _call: bytes | None = None
    _behind = b""
    #: Whether the server ends, and this connection with the answer to the call.
    _is_last = False
    #: The fields that the library sends with every answer, and how they go over the wire.
    _default_lines: tuple[Fields, bytes] = ([], b"")
    #: Since when nothing has come after an answer at once; the library itself watches what it has answered.
    _idle_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and expect a request soon."""
        joined = BufferedTransport(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", joined))
        self._application = cast("Application", self.config.app)
        self._expect()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
        self._call = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End as soon as no answer is under way."""
        if self._call is None:
            super().shutdown()
        self._is_last = True

    def data_received(self, data: bytes) -> None:
        """Read on, unless a call comes before."""
        if self._call is not None:
            self._behind += data
            self.flow.pause_reading()
        elif self._state is not _State.BETWEEN or not (self._answer_again(data) or self._call_again(data)):
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Read on, unless the head has become too long."""
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
                self._refuse(HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins. What the application would be told of it is gathered if it takes that way."""
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
        self._is_answered = self._answer()
        if not self._is_answered:
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()  # makes the scope, and resets what has been read
            self.url, self.expect_100_continue = url, expects
            self.headers.extend(headers)  # the scope holds this list
            if (head := self._head_of_call()) is not None:
                self.scope["extensions"] = {HEAD: {"head": head}}
            super().on_headers_complete()

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
        return self._call is None and (self.cycle is None or self.cycle.response_complete)

    def _is_crowded(self) -> bool:
        """Whether the library is going to refuse the request."""
        limit = self.limit_concurrency
        return limit is not None and (len(self.connections) >= limit or len(self.tasks) >= limit)

    def _is_usual(self, unusual: frozenset[bytes] = _UNUSUAL) -> bool:
        return (
            self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and unusual.isdisjoint([name for name, _ in self.headers])
        )

    def _may_answer(self) -> bool:
        return self._is_free() and not self.flow.write_paused and not self._is_crowded()

    def _answer(self) -> bool:
        """Answer at once, if the answer is known and nothing is unusual; return whether that was done."""
        if not self._may_answer() or not self._is_usual():
            return False
        head = self._chunk if self._chunk is not None and _is_one_head(self._chunk) else None
        ready = self._application.answer_at_once(self.url, self.parser.get_method(), self.headers, self.client, head)
        if ready is None:
            return False
        self._write(ready)
        return True

    def _answer_again(self, data: bytes) -> bool:
        """Answer what was answered before; return whether that was done."""
        if not self._may_answer():
            return False
        ready = self._application.answer_again(data, self.client)
        if ready is None:
            return False
        self._unset_keepalive_if_required()
        self._write(ready)
        self._began = None
        self._idle_since = self.loop.time()
        return True

    def _call_again(self, data: bytes) -> bool:
        """Accept a call that is like one before; return whether that was begun."""
        if not self._may_answer() or not self._application.call_again(data, self.client, self.server, self._called):
            return False
        self._unset_keepalive_if_required()
        self._call = data
        self._began = self._idle_since = None
        return True

    def _called(self, ready: WireResponse | None) -> None:
        """Answer the call, or else read it; then go on with what came behind it."""
        data, behind = self._call, self._behind
        self._call, self._behind = None, b""
        if data is None or self.transport.is_closing():
            return
        if ready is None:
            self._read(data)
        else:
            self._write(ready)
            self._idle_since = self.loop.time()
        if self._is_last:
            super().shutdown()
            return
        self.flow.resume_reading()
        if behind:
            self.data_received(behind)

    def _head_of_call(self) -> Head | None:
        """Return the head, if it begins a chunk that ends with its body: then it can be told without parsing."""
        if self._chunk is None or not self._is_usual(_UNUSUAL_OF_CALL):
            return None
        head, _, body = self._chunk.partition(_END_OF_HEAD)
        is_plain = head.count(b"\n") == head.count(b"\r\n")
        is_first = head.startswith(b"%s %s HTTP/1.1\r\n" % (self.parser.get_method(), self.url))
        is_whole = (b"content-length", b"%d" % len(body)) in self.headers
        return Head(head + _END_OF_HEAD, len(body)) if is_plain and is_first and is_whole else None

    def _write(self, ready: WireResponse) -> None:
        head = b"%s%s\r\n" % (ready.head, self._lines())
        self.transport.writelines((head, ready.body) if ready.body else (head,))
        self.server_state.total_requests += 1

    def _lines(self) -> bytes:
        """Return the fields of every answer, such as the date, as lines; the library makes them anew each second."""
        fields = self.server_state.default_headers
        if self._default_lines[0] is not fields:
            self._default_lines = (fields, join_fields(fields))
        return self._default_lines[1]

    def _expect(self) -> None:
        if self._began is None:
            self._began = self.loop.time()
            self._arrived = 0

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(limits.SERVER_REQUEST_SECONDS / 2, self._look)

    def _look(self) -> None:
        """Refuse a request that is overdue; close a connection that is idle."""
        now = self.loop.time()
        allowed = limits.SERVER_REQUEST_SECONDS + self._arrived / limits.SERVER_REQUEST_RATE
        if self._began is not None and now - self._began >= allowed:
            self._refuse(REQUEST_TIMEOUT)
        elif self._idle_since is not None and now - self._idle_since >= limits.SERVER_IDLE_SECONDS:
            self.transport.close()
        elif not self.transport.is_closing():
            self._look_later()

    def _refuse(self, problem: Problem) -> None:
        """Say what is wrong, unless an answer is under way, and close."""
        if self._is_free():
            body = problem.body()
            status = HTTPStatus(problem.status)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode("ascii") + body)
        self.transport.close()


def _is_one_head(data: bytes) -> bool:
    """Whether ``data`` is one whole head and nothing behind it; a request with a body does not come here."""
    is_plain = data.count(b"\n") == data.count(b"\r\n")
    return is_plain and data.count(_END_OF_HEAD) == 1 and data.endswith(_END_OF_HEAD)


_POST: Final = b"POST "
_LIST: Final = "list_skills"


class _Known(NamedTuple):
    """What a head means: a request of this path with so many bytes of body, for the lists of ``skills``."""

    path: str
    length: int
    skills: SkillsRpc


class KnownLists:
    """Answers lists by their heads.

    Args:
        fields: of every answer, but its length.
    """

    def __init__(self, fields: Fields) -> None:
        self._lines = b"HTTP/1.1 200 OK\r\n" + join_fields(fields)
        self._heads: FastPathCache[_Known] = FastPathCache()

    def learn(self, scope: Scope, request: Request_known_lists, skills: SkillsRpc, revision: int) -> None:
        """Keep the head of a request that nobody in particular made, if it came alone and listed skills."""
        head: Head | None = scope.get("extensions", {}).get(HEAD, {}).get("head")
        if head is not None and head.length <= limits.SERVER_REMEMBERED_BODY_BYTES and _listing(request) is not None:
            self._heads.keep(head.written, revision, _Known(scope["path"], head.length, skills))

    def answer(self, request: bytes, revision: int) -> FastAnswer | None:
        """Return the answer to a request that came alone; None when it is not known, not whole, or not a list."""
        if not request.startswith(_POST):
            return None
        end = request.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        known = self._heads.find(request[:end], revision)
        if known is None or len(request) != end + known.length:
            return None
        call = _listing(decode(request[end:]))
        if call is None:
            return None
        try:
            page = known.skills.list_skills(decode_params(call.params, ListSkills))
        except SkillwireError:
            return None
        body = encode_result(call.request_id, page)
        ready = WireResponse(200, b"%scontent-length: %d\r\n" % (self._lines, len(body)), body)
        return FastAnswer(ready, "POST", known.path)


def _listing(request: Request_known_lists) -> Call | None:
    """Return the one call that a request is, if it wants a list and an answer."""
    call = request.item if isinstance(request, Single) else None
    return call if isinstance(call, Call) and call.method == _LIST and not call.is_notification else None
