from __future__ import annotations

import gzip
import zlib

import brotli
import pytest

from skillwire.errors import FetchError
from skillwire.wire.coding import decode_content
from skillwire.wire.exchange import HttpResponse

BOTH = ("gzip", "br")
COMPRESS = {"gzip": gzip.compress, "br": brotli.compress}


def answer(body, coding):
    return HttpResponse("https://a.example/", 200, {"content-encoding": coding, "etag": '"x"'}, body)


def code(body, coding, *, limit=1000, codings=BOTH):
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
    assert code(COMPRESS[coding](b"x" * 1001), coding) == "BODY_TOO_LARGE"


@pytest.mark.parametrize("coding", BOTH)
def test_a_bomb_costs_what_the_bound_costs(coding):
    bomb = COMPRESS[coding](bytes(20_000_000))
    assert len(bomb) < 30_000
    assert code(bomb, coding, limit=1_000_000) == "BODY_TOO_LARGE"


@pytest.mark.parametrize("coding", ["gzip, gzip", "br, gzip", "deflate", "compress", "zstd", "x", ""])
def test_an_encoding_that_was_not_asked_for(coding):
    assert code(gzip.compress(gzip.compress(b"x")), coding) == "CONTENT_ENCODING"


def test_br_is_not_read_when_only_gzip_was_asked_for():
    assert code(brotli.compress(b"x"), "br", codings=("gzip",)) == "CONTENT_ENCODING"


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
    assert code(body, coding) == "CONTENT_ENCODING"
