import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import FetchError
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.http1 import ResponseReader

REQUEST = HttpRequest("https://a.example/", max_bytes=10_000)
_pieces = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 \r\n\r\n",
        b"HTTP/1.0 404 No\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"abc",
        b"\n",
        b"\x00",
    ]
)
_streams = st.one_of(st.binary(max_size=200), st.lists(st.one_of(_pieces, st.binary(max_size=5))).map(b"".join))


def outcome(pieces):
    """Return the answer to ``pieces`` and a last end of the connection, or the code of what is wrong."""
    reader = ResponseReader(REQUEST)
    try:
        for piece in pieces:
            if (response := reader.feed(piece)) is not None:
                return response
        return reader.end()
    except FetchError as error:
        return error.code


@given(_streams)
def test_any_bytes_are_an_answer_or_an_error_of_ours(stream):
    assert outcome([stream] if stream else []) is not None


@given(_streams, st.lists(st.integers(0, 200)))
def test_an_answer_does_not_depend_on_how_its_bytes_are_cut(stream, cuts):
    """What follows an answer is refused when it came with it, so pieces are compared up to the end of the answer."""
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges) if end > start]
    whole = outcome([stream] if stream else [])
    cut = outcome(pieces)
    assert whole in (cut, "HTTP_SYNTAX")


_headers = st.dictionaries(
    st.from_regex(r"x-[a-z0-9]{1,8}", fullmatch=True),
    st.from_regex(r"[!-~]([ -~]{0,10}[!-~])?", fullmatch=True),
    max_size=5,
)


@given(_headers, st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.booleans())
def test_what_a_server_says_is_what_is_read(headers, parts, chunked):
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    body = b"".join(parts)
    if chunked:
        framed = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        message = b"HTTP/1.1 200 OK\r\n" + head + b"transfer-encoding: chunked\r\n\r\n" + framed
    else:
        message = b"HTTP/1.1 200 OK\r\n" + head + b"content-length: %d\r\n\r\n" % len(body) + body
    response = ResponseReader(REQUEST).feed(message)
    assert response is not None
    assert response.body == body
    assert {name: value for name, value in response.headers.items() if name in headers} == headers


def test_the_outcome_tells_answers_from_errors():
    assert outcome([b"HTTP/1.1 200 OK\r\n\r\nabc"]).body == b"abc"
    assert outcome([b"nonsense"]) == "HTTP_SYNTAX"
    with pytest.raises(AttributeError):
        _ = outcome([]).body
