import gzip
import zlib
from typing import Any, cast

import brotli
import pytest

from skillwire import limits
from skillwire.errors import FetchError, UsageError
from skillwire.model.url import parse_url
from skillwire.wire.exchange import HttpRequest, HttpResponse
from skillwire.wire.http1 import ResponseReader, decode_content, encode_request

URL = "https://a.example:8443/a/b?c"
OK = b"HTTP/1.1 200 OK\r\n"


def encode(request, **defaults):
    return encode_request(request, parse_url(request.url), defaults)


def read(*pieces, request=None, end=False):
    reader = ResponseReader(request or HttpRequest(URL, max_bytes=1000))
    response = None
    for piece in pieces:
        assert response is None, "fed after the answer was complete"
        response = reader.feed(piece)
    return reader.end() if end else response


def code(*pieces, end=False, request=None):
    with pytest.raises(FetchError) as caught:
        read(*pieces, end=end, request=request)
    return caught.value.code


def test_a_request_is_one_piece_of_bytes():
    request = HttpRequest(URL, method="POST", headers={"User-Agent": "other", "X-A": "b"}, body=b"body")
    assert encode(request, **{"user-agent": "skillwire", "accept-encoding": "gzip"}) == (
        b"POST /a/b?c HTTP/1.1\r\nhost: a.example:8443\r\nuser-agent: other\r\naccept-encoding: gzip\r\nx-a: b\r\n"
        b"content-length: 4\r\n\r\nbody"
    )
    assert encode(HttpRequest("https://a.example")) == b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [{"A": "b\r\nC: d"}, {"A": "b\x00"}, {"A": "€"}, {"A b": "c"}, {"": "c"}, {"A:": "c"}, {"Host": "b"}, {"TE": "x"}],
)
def test_a_header_that_cannot_be_sent(headers):
    with pytest.raises(UsageError) as caught:
        encode(HttpRequest(URL, headers=headers))
    assert caught.value.code == "HEADER"


def test_a_refused_header_does_not_show_its_value():
    with pytest.raises(UsageError) as caught:
        encode(HttpRequest(URL, headers={"Authorization": "Bearer hunter2\n"}))
    assert "hunter2" not in str(caught.value.diagnostics())


def test_an_answer_with_a_length():
    response = read(OK + b"Content-Length: 4\r\nX-A:  b \r\nx-a: c\r\nX-Empty:\r\n\r\nbody")
    assert response.url == URL
    assert response.status == 200
    assert response.headers == {"content-length": "4", "x-a": "b, c", "x-empty": ""}
    assert response.body == b"body"


ANSWERS = {
    "length": (OK + b"content-length: 4\r\n\r\nbody", b"body"),
    "chunked": (OK + b"Transfer-Encoding: Chunked\r\n\r\n2;x=y\r\nbo\r\n02\r\ndy\r\n0\r\nTrailer: x\r\n\r\n", b"body"),
    "empty": (OK + b"content-length: 0\r\n\r\n", b""),
    "after interim answers": (
        b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" + OK + b"content-length: 1\r\n\r\nx",
        b"x",
    ),
    "no reason phrase": (b"HTTP/1.0 404\r\ncontent-length: 1\r\n\r\nx", b"x"),
}


@pytest.mark.parametrize(("message", "body"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_may_come_byte_by_byte(message, body):
    reader = ResponseReader(HttpRequest(URL))
    for index in range(len(message) - 1):
        assert reader.feed(message[index : index + 1]) is None
    response = reader.feed(message[-1:])
    assert response is not None
    assert response.body == body


def test_an_answer_without_a_length_ends_with_the_connection():
    assert read(OK + b"\r\nbo", b"dy", end=True).body == b"body"


@pytest.mark.parametrize(
    ("message", "reusable"),
    [
        (OK + b"content-length: 0\r\n\r\n", True),
        (OK + b"content-length: 0\r\nConnection: Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", False),
    ],
)
def test_whether_the_connection_may_be_used_again(message, reusable):
    reader = ResponseReader(HttpRequest(URL))
    reader.feed(message)
    assert reader.reusable is reusable


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_some_statuses_have_no_body(status):
    assert read(b"HTTP/1.1 " + status + b" X\r\ncontent-length: 9\r\n\r\n").body == b""


def test_the_answer_to_head_has_no_body():
    assert read(OK + b"content-length: 5000\r\n\r\n", request=HttpRequest(URL, method="HEAD")).body == b""


@pytest.mark.parametrize(
    "message",
    [
        b"<html>",
        b"HTTP/0.9 200 OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\ncontent-length: 0\n\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 600 No\r\n\r\n",
        b"HTTP/1.1 000 No\r\n\r\n",
        b"HTTP/1.1 200 O\x00K\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"space : x\r\n\r\n",
        OK + b" folded: x\r\n\r\n",
        OK + b"a: b\r\n folded\r\n\r\n",
        OK + b": x\r\n\r\n",
        OK + b"a: b\rc\r\n\r\n",
        OK + b"a: b\nc: d\r\n\r\n",
        OK + b"a: \x7f\r\n\r\n",
        OK + b"content-length: 1\r\ncontent-length: 1\r\n\r\nx",
        OK + b"content-length: 1, 1\r\n\r\nx",
        OK + b"content-length: +1\r\n\r\nx",
        OK + b"content-length: -1\r\n\r\n",
        OK + b"content-length: \xb2\r\n\r\n",
        OK + b"content-length: \r\n\r\n",
        OK + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: identity\r\n\r\n",
        OK + b"location: /a\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n1\r\nxy\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n1" + b" " * 2000,
        OK + b"transfer-encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
        OK + b"content-length: 1\r\n\r\nxy",
        OK + b"content-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
)
def test_an_answer_that_two_readers_could_read_differently(message):
    assert code(message) == "HTTP_SYNTAX"


@pytest.mark.parametrize(
    "message",
    [
        OK + b"a: " + b"b" * limits.HTTP_HEADER_BYTES,
        OK + b"a: " + b"b" * limits.HTTP_HEADER_BYTES + b"\r\n\r\n",
        OK + b"a: b\r\n" * (limits.HTTP_HEADERS + 1) + b"\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * (limits.HTTP_INTERIM_RESPONSES + 1) + OK + b"\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * (limits.HTTP_HEADERS + 1),
    ],
)
def test_what_comes_before_and_behind_the_body_is_bounded(message):
    assert code(message) == "HTTP_SYNTAX"


def test_chunks_are_bounded_in_number():
    request = HttpRequest(URL, max_bytes=limits.HTTP_CHUNKS * 2)
    chunks = b"1\r\nx\r\n" * limits.HTTP_CHUNKS
    assert code(OK + b"transfer-encoding: chunked\r\n\r\n" + chunks, request=request) == "HTTP_SYNTAX"


@pytest.mark.parametrize(
    "message",
    [
        OK + b"content-length: 1001\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\nfff\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        OK + b"\r\n" + b"x" * 1001,
    ],
)
def test_a_body_is_bounded_before_it_is_kept(message):
    assert code(message) == "BODY_TOO_LARGE"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"HTT",
        OK,
        OK + b"content-length: 4\r\n\r\n",
        OK + b"content-length: 4\r\n\r\nbod",
        OK + b"transfer-encoding: chunked\r\n\r\n4\r\nbody\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
def test_a_connection_that_ends_early(message):
    assert code(*([message] if message else []), end=True) == "CONNECTION_LOST"


def test_whether_an_answer_has_begun():
    reader = ResponseReader(HttpRequest(URL))
    assert not reader.started
    reader.feed(b"H")
    assert reader.started


BOTH = ("gzip", "br")
COMPRESS = {"gzip": gzip.compress, "br": brotli.compress}


def answer(body, coding):
    return HttpResponse("https://a.example/", 200, {"content-encoding": coding, "etag": '"x"'}, body)


def code_coding(body, coding, *, limit=1000, codings=BOTH):
    with pytest.raises(FetchError) as caught:
        decode_content(answer(body, coding), limit, codings=codings)
    return caught.value.code


@pytest.mark.parametrize("coding", BOTH)
@pytest.mark.parametrize("content", [b"", b"x" * 1000, bytes(range(256)) * 3])
def test_a_body_is_decoded_and_no_longer_says_that_it_is_encoded(coding, content):
    response = decode_content(answer(COMPRESS[coding](content), coding), 1000, codings=BOTH)
    assert response.body == content
    assert response.headers == {"etag": '"x"'}


@pytest.mark.parametrize("response", [answer(b"body", "identity"), answer(b"", "gzip"), answer(b"", "br, gzip")])
def test_what_needs_no_decoding_is_left_alone(response):
    assert decode_content(response, 1000) is response


def test_the_old_name_of_gzip():
    assert decode_content(answer(gzip.compress(b"body"), "X-GZip"), 1000).body == b"body"


@pytest.mark.parametrize("coding", BOTH)
def test_one_byte_over_the_bound_is_too_much(coding):
    assert code_coding(COMPRESS[coding](b"x" * 1001), coding) == "BODY_TOO_LARGE"


@pytest.mark.parametrize("coding", BOTH)
def test_a_bomb_costs_what_the_bound_costs(coding):
    bomb = COMPRESS[coding](bytes(20_000_000))
    assert len(bomb) < 30_000
    assert code_coding(bomb, coding, limit=1_000_000) == "BODY_TOO_LARGE"


@pytest.mark.parametrize("coding", ["gzip, gzip", "br, gzip", "deflate", "compress", "zstd", "x", ""])
def test_an_encoding_that_was_not_asked_for(coding):
    assert code_coding(gzip.compress(gzip.compress(b"x")), coding) == "CONTENT_ENCODING"


def test_br_is_not_read_when_only_gzip_was_asked_for():
    assert code_coding(brotli.compress(b"x"), "br", codings=("gzip",)) == "CONTENT_ENCODING"


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (b"not compressed", "gzip"),
        (b"not compressed", "br"),
        (gzip.compress(b"body", mtime=0)[:-1], "gzip"),
        (brotli.compress(b"body" * 99)[:-2], "br"),
        (gzip.compress(b"body", mtime=0)[:-8] + bytes(8), "gzip"),
        (gzip.compress(b"body", mtime=0) + b"x", "gzip"),
        (gzip.compress(b"body", mtime=0) + gzip.compress(b"more", mtime=0), "gzip"),
        (brotli.compress(b"body") + b"x", "br"),
        (zlib.compress(b"body"), "gzip"),
    ],
)
def test_damaged_data_is_refused(body, coding):
    assert code_coding(body, coding) == "CONTENT_ENCODING"


@pytest.mark.parametrize(("control", "is_taken"), [(b"private", True), (b"private, No-Store", False)])
def test_what_must_not_be_stored_goes_into_no_sink(control, is_taken):
    class Sink:
        size = 0
        content = b""

        def begin(self, position):
            return position == 0

        def append(self, data):
            self.content += data

    sink, size = Sink(), limits.DOWNLOAD_PIECE_BYTES + 1
    head = b"%bcache-control: %b\r\ncontent-length: %d\r\n\r\n" % (OK, control, size)
    request = HttpRequest(URL, max_bytes=2 * size, sink=cast(Any, sink))
    response = read(head, bytes(size), request=request)
    assert (response.in_sink, len(response.body), len(sink.content)) == (
        (True, 0, size) if is_taken else (False, size, 0)
    )
