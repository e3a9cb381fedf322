"""HTTP/1.1 as bytes, without IO: a request to bytes, bytes to one answer.

Both drivers feed :class:`ResponseReader`, so every guard holds in both. It is a generator inside, which stops where it
needs more bytes, and so reads like the grammar. It is strict where leniency lets two readers see two answers (RFC 9112
§6.3, §11): one ``Content-Length`` or ``Transfer-Encoding: chunked``, never both; line ends are CR LF; no folded lines,
no control characters, no space before a colon; nothing after the announced end. Everything that the peer can make large
is bounded: headers, lines, interim answers, bodies, chunks.

A body stays in memory up to :data:`~skillwire.limits.DOWNLOAD_PIECE_BYTES`; a larger one goes piece by piece into the
sink of the request, if it has one and the body is not content-encoded. A part (206) goes there from its first byte, and
must continue the sink's bytes. An answer without a length ends with the connection, which is not used again.

:func:`decode_content` undoes one content encoding: two multiply a bomb's ratio and no server needs them. It stops one
byte past the bound. Spec: RFC 9110 §8.4.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from skillwire import limits
from skillwire.errors import FetchError, SourceLocation, UsageError
from skillwire.wire.exchange import HttpRequest, HttpResponse, Sink, may_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping

    from skillwire.model.url import Url

    T = TypeVar("T")
    Parsing = Generator[None, None, T]


_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t\x20-\x7e\x80-\xff]*?)[\t ]*")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_PART: Final = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/(?:[0-9]{1,18}|\*)", re.ASCII | re.IGNORECASE)
_VERSION: Final = b"HTTP/1."
_LINE_END: Final = b"\r\n"
_LINE_BYTES: Final = 1024  # of a chunk's size line or a trailer, neither is used

#: Fields that mean one thing; two of them are two answers.
_SINGULAR: Final = frozenset({"content-length", "content-type", "etag", "location", "transfer-encoding"})

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OURS: Final = frozenset({"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"})

_FINAL: Final = 200
_SWITCHING: Final = 101
_OK: Final = 200
_PARTIAL: Final = 206
_BODILESS: Final = frozenset({204, 304})
_BODILESS_METHODS: Final = frozenset({"CONNECT", "HEAD"})


def encode_request(
    request: HttpRequest, url: Url, defaults: Mapping[str, str], for_proxy: Mapping[str, str] | None = None
) -> bytes:
    """Return the bytes of ``request``, whose headers override ``defaults``; raise ``HEADER`` for a malformed one.

    ``for_proxy`` are the header fields for the proxy that the request is sent to. Spec: RFC 9112 §3.2.2.
    """
    headers = {name.lower(): value for name, value in (*defaults.items(), *request.headers.items())}
    for name, value in headers.items():
        if name in _OURS or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise UsageError("HEADER", f"the header {name!r} cannot be sent")  # its value may be a secret
    target = url.target if for_proxy is None else str(url)
    lines = [f"{request.method} {target} HTTP/1.1", f"host: {url.host_header}"]
    lines += [f"{name}: {value}" for name, value in {**headers, **(for_proxy or {})}.items()]
    if request.body is not None:
        lines.append(f"content-length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b"")


class _Body:
    """The body as it arrives: in memory, and from its first whole piece on in the sink; ``start`` is its offset."""

    def __init__(self, sink: Sink | None, start: int) -> None:
        self.pending = bytearray()
        self.size = start
        self._sink = sink
        self._start = start
        self._has_begun = False

    def take(self, data: bytes) -> None:
        self.pending += data
        self.size += len(data)
        if self._sink is not None and len(self.pending) >= limits.DOWNLOAD_PIECE_BYTES:
            self._move()

    def finish(self) -> bool:
        """Move the rest; return whether the body is in the sink."""
        if self._has_begun or self._start:
            self._move()
        return self._has_begun

    def _move(self) -> None:
        if self._sink is None:
            return
        if not self._has_begun and not self._sink.begin(self._start):
            self._sink = None
            return
        self._has_begun = True
        self._sink.append(self.pending)
        self.pending = bytearray()


class ResponseReader:
    """Reads the answer to one request.

    Trust: all bytes are untrusted. Raises ``FetchError`` only: ``HTTP_SYNTAX``, ``BODY_TOO_LARGE``,
    ``CONNECTION_LOST``.
    """

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._buffer = bytearray()
        self._ended = False
        self.started = False  # whether any byte came
        self.reusable = True  # whether the connection may carry another request; known when the answer is complete
        self._steps = self._answer()
        next(self._steps)

    def feed(self, data: bytes) -> HttpResponse | None:
        """Take bytes; return the answer when it is complete, its body not yet content-decoded."""
        self.started = True
        self._buffer += data
        return self._advance()

    def end(self) -> HttpResponse | None:
        """Take the end of the connection; return the answer if that completes it."""
        self._ended = True
        return self._advance()

    def lost(self, why: str) -> FetchError:
        """Return the error for a connection that was lost before the answer was complete."""
        message = f"the connection was lost before the whole answer came: {why}"
        return FetchError("CONNECTION_LOST", message, place=self._place)

    def _advance(self) -> HttpResponse | None:
        try:
            next(self._steps)
        except StopIteration as stop:
            response: HttpResponse = stop.value
            return response
        return None

    def _answer(self) -> Parsing[HttpResponse]:
        for _ in range(limits.HTTP_INTERIM_RESPONSES + 1):
            status, headers = yield from self._head()
            if status >= _FINAL:
                break
            if status == _SWITCHING:
                self._refuse("it switches to another protocol")
        else:
            self._refuse("it announces itself too many times (1xx)")
        is_plain = headers.get("content-encoding", "identity").lower() == "identity"
        sink = self._request.sink if is_plain and may_store(headers) and status in {_OK, _PARTIAL} else None
        body = _Body(sink, self._start_of(status, headers))
        yield from self._read_body(status, headers, body)
        if self._buffer:
            self._refuse("more bytes came than it announced")
        in_sink = body.finish()
        return HttpResponse(self._request.url, status, headers, bytes(body.pending), in_sink)

    def _head(self) -> Parsing[tuple[int, dict[str, str]]]:
        searched = 0
        while (end := self._buffer.find(b"\r\n\r\n", searched)) < 0 and len(self._buffer) <= limits.HTTP_HEADER_BYTES:
            if not self._buffer.startswith(_VERSION[: len(self._buffer)]):
                self._refuse("it does not begin with HTTP/1")
            searched = max(0, len(self._buffer) - 3)
            yield from self._more()
        if not 0 <= end <= limits.HTTP_HEADER_BYTES:
            self._refuse("its headers are too large")
        status_line, *fields = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        match = _STATUS.fullmatch(status_line)
        if match is None:
            self._refuse("its status line is malformed")
        headers = self._fields(fields)
        if match[1] == b"0" or "close" in headers.get("connection", "").lower():
            self.reusable = False
        return int(match[2]), headers

    def _fields(self, lines: list[bytes]) -> dict[str, str]:
        if len(lines) > limits.HTTP_HEADERS:
            self._refuse("it has too many headers")
        headers: dict[str, str] = {}
        for line in lines:
            match = _FIELD.fullmatch(line)
            if match is None:
                self._refuse("a header line is malformed")
            name, value = match[1].decode("ascii").lower(), match[2].decode("latin-1")
            if name in headers:
                if name in _SINGULAR:
                    self._refuse(f"it has two {name} headers")
                value = f"{headers[name]}, {value}"
            headers[name] = value
        return headers

    def _start_of(self, status: int, headers: Mapping[str, str]) -> int:
        """Return the body's offset in the whole."""
        if status != _PARTIAL or self._request.sink is None:
            return 0
        part = _PART.fullmatch(headers.get("content-range", ""))
        if part is None or int(part[1]) != self._request.sink.size or int(part[2]) < int(part[1]):
            self._refuse("its part is not the one that was asked for")
        return int(part[1])

    def _read_body(self, status: int, headers: Mapping[str, str], body: _Body) -> Parsing[None]:
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None and length is not None:
            self._refuse("it is chunked and has a length")
        if length is not None and not _LENGTH.fullmatch(length):
            self._refuse("its length is not a number")
        if coding is not None and coding.lower() != "chunked":
            self._refuse("it has an unknown transfer encoding")
        if self._request.method == "CONNECT" and status != _OK:
            self._buffer.clear()  # a page for people, on a connection that is closed
        if self._request.method in _BODILESS_METHODS or status in _BODILESS:
            return
        if coding is not None:
            yield from self._chunked(body)
        elif length is not None:
            yield from self._gather(int(length), body)
        else:
            yield from self._until_end(body)

    def _chunked(self, body: _Body) -> Parsing[None]:
        for _ in range(limits.HTTP_CHUNKS):
            match = _CHUNK.fullmatch((yield from self._line()))
            if match is None:
                self._refuse("a chunk has no size")
            size = int(match[1], 16)
            if size == 0:
                yield from self._trailers()
                return
            yield from self._gather(size, body)
            while len(self._buffer) < len(_LINE_END):
                yield from self._more()
            if self._take(len(_LINE_END)) != _LINE_END:
                self._refuse("a chunk is longer than its size")
        self._refuse("it has too many chunks")

    def _trailers(self) -> Parsing[None]:
        for _ in range(limits.HTTP_HEADERS):
            line = yield from self._line()
            if not line:
                return
            if not _FIELD.fullmatch(line):
                self._refuse("a trailer is malformed")
        self._refuse("it has too many trailers")

    def _until_end(self, body: _Body) -> Parsing[None]:
        self.reusable = False
        while True:
            self._check_size(body.size + len(self._buffer))
            body.take(self._take(len(self._buffer)))
            if self._ended:
                return
            yield

    def _gather(self, size: int, body: _Body) -> Parsing[None]:
        """Move the next ``size`` bytes to ``body``."""
        self._check_size(body.size + size)
        left = size
        while left:
            if not self._buffer:
                yield from self._more()
            piece = self._take(min(left, len(self._buffer)))
            left -= len(piece)
            body.take(piece)

    def _line(self) -> Parsing[bytes]:
        while (end := self._buffer.find(b"\r\n")) < 0 and len(self._buffer) <= _LINE_BYTES:
            yield from self._more()
        if not 0 <= end <= _LINE_BYTES:
            self._refuse("a line in its body is too long")
        return self._take(end + 2)[:-2]

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _more(self) -> Parsing[None]:
        yield
        if self._ended:
            raise self.lost("it ended")

    def _check_size(self, size: int) -> None:
        limit = self._request.max_bytes
        if size > limit:
            raise FetchError("BODY_TOO_LARGE", f"the body is larger than {int(limit)} bytes", place=self._place)

    @property
    def _place(self) -> SourceLocation:
        return SourceLocation(self._request.url)

    def _refuse(self, why: str) -> NoReturn:
        raise FetchError("HTTP_SYNTAX", f"the answer cannot be trusted: {why}", place=self._place)


_GZIP_WINDOW: Final = 31  # zlib's number for a gzip wrapper around the largest window


def decode_content(response: HttpResponse, max_bytes: int, *, codings: Collection[str] = ("gzip",)) -> HttpResponse:
    """Return the answer with its body decoded, and without its ``Content-Encoding``.

    Raises:
        FetchError: ``CONTENT_ENCODING`` for an encoding not in ``codings``, or damaged data; ``BODY_TOO_LARGE``.

    Trust: body and header are untrusted.
    """
    coding = response.headers.get("content-encoding", "identity").lower().removeprefix("x-")
    if coding == "identity" or not response.body:
        return response
    place = SourceLocation(response.url)
    if coding not in codings:
        raise FetchError("CONTENT_ENCODING", f"the encoding {coding[:80]!r} was not asked for", place=place)
    body = _DECODERS[coding](response.body, max_bytes + 1)
    if body is None:
        raise FetchError("CONTENT_ENCODING", f"the {coding} data is damaged", place=place)
    if len(body) > max_bytes:
        raise FetchError("BODY_TOO_LARGE", f"the body decodes to more than {int(max_bytes)} bytes", place=place)
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return response._replace(headers=headers, body=body)


def _gunzip(data: bytes, limit: int) -> bytes | None:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = stream.decompress(data, limit)
    except zlib.error:
        return None
    # Data behind the end would be a second member, or something hidden.
    return body if len(body) >= limit or (stream.eof and not stream.unused_data) else None


def _unbrotli(data: bytes, limit: int) -> bytes | None:
    import brotli  # noqa: PLC0415 - never on the install path

    stream = brotli.Decompressor()
    body = bytearray()
    try:
        body += stream.process(data, output_buffer_limit=limit)
        while len(body) < limit and not stream.is_finished() and not stream.can_accept_more_data():
            body += stream.process(b"", output_buffer_limit=limit - len(body))
    except brotli.error:
        return None
    return bytes(body) if len(body) >= limit or stream.is_finished() else None


_DECODERS: Final[Mapping[str, Callable[[bytes, int], bytes | None]]] = {"gzip": _gunzip, "br": _unbrotli}
