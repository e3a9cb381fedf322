"""A client names the last change that a registry acknowledged to it, to that registry alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skillwire import limits
from skillwire.client.credentials import RequestSigner, StoredCredentials
from skillwire.model.credential import Credential
from skillwire.protocols.skill_sharing.signing import is_signed_by, read_signature
from skillwire.wire.exchange import HttpRequest, HttpResponse, drive

SITE = "https://skills.example.com"


@pytest.fixture
def send():
    """Return a function that sends a request to a server that answers with a revision; it returns the fields sent."""
    stored = StoredCredentials(cast("Any", SimpleNamespace()))

    def send(url, told=None):
        seen = {}

        def answer(request):
            seen.update(request.headers)
            return HttpResponse(request.url, 200, {} if told is None else {"skillwire-revision": told}, b"")

        drive(stored.send(HttpRequest(url, headers={"Accept": "*/*"})), answer)
        return seen

    return send


def test_the_last_change_is_sent_back_to_its_registry(send):
    assert send(f"{SITE}/a", "7") == {"Accept": "*/*"}
    assert send(f"{SITE}/b")["Skillwire-Revision"] == "7"
    assert "Skillwire-Revision" not in send("https://other.example.com/a")


def test_an_older_change_replaces_no_newer_one(send):
    send(SITE, "7")
    send(SITE, "5")
    assert send(SITE)["Skillwire-Revision"] == "7"


@pytest.mark.parametrize("told", ["", "x", "-1", "1" * 16, "٣", "1\r\nX: y"])
def test_what_is_no_number_is_not_sent_back(send, told):
    send(SITE, told)
    assert "Skillwire-Revision" not in send(SITE)


KEY = Credential("https://skills.example", "custom", "hush", "login", key_id="abcdefgh234567ab")
REQUEST = HttpRequest(
    "https://skills.example/a%20b?q=1", "POST", {"Authorization": KEY.mark, "Accept": "text/plain"}, b"body"
)


def signed(signer, request=REQUEST):
    value = signer.sign(request, KEY).header("x-signature")
    signature = read_signature(value)
    assert signature is not None
    return signature


def test_the_signature_is_of_the_request_as_it_goes_out():
    request = RequestSigner(lambda: 1000.9).sign(REQUEST, KEY)
    assert set(request.headers) == {"Accept", "X-Signature"}
    signature = read_signature(request.headers["X-Signature"])
    assert signature is not None
    assert (signature.key_id, signature.timestamp) == (KEY.key_id, 1000)
    assert is_signed_by(signature, b"hush", "POST", "/a%20b?q=1", b"body")


def test_equal_requests_of_one_second_get_a_time_each_and_others_share_it():
    now = [1000.0]
    signer = RequestSigner(lambda: now[0])
    assert [signed(signer).timestamp for _ in range(3)] == [1000, 1001, 1002]
    for other in (REQUEST._replace(method="PUT"), REQUEST._replace(body=None), REQUEST._replace(url=KEY.origin + "/")):
        assert signed(signer, other).timestamp == 1000
    now[0] = 1001.5
    assert [signed(signer).timestamp for _ in range(2)] == [1003, 1004]
    now[0] = 2000.0
    assert signed(signer).timestamp == 2000
    assert len(signer._last) == 1


def test_threads_never_share_a_signature():
    signer = RequestSigner(lambda: 1000.0)
    with ThreadPoolExecutor(8) as threads:
        made = [future.result() for future in [threads.submit(signed, signer) for _ in range(50)]]
    assert len(set(made)) == 50


REPEATED = b'{"error": {"code": "AUTH_REQUIRED", "details": {"reason": "repeated"}}}'


def sent(*bodies):
    """Return the times that a request is signed with that is refused with ``bodies``, and the last of these."""
    exchange, seen = RequestSigner(lambda: 1000.0).send(REQUEST, KEY), []
    request: Any = next(exchange)
    try:
        for body in bodies:
            signature = read_signature(request.headers["X-Signature"])
            assert signature is not None
            seen.append(signature.timestamp)
            request = exchange.send(HttpResponse(request.url, 401, {}, body))
    except StopIteration as stop:
        return seen, stop.value.body
    raise AssertionError("it asks on")


def test_a_signature_that_is_known_already_is_made_anew_a_few_times():
    assert sent(REPEATED, REPEATED, b"{}") == ([1000, 1001, 1002], b"{}")
    times, last = sent(*[REPEATED] * 7)
    assert (times[:4], last) == ([1000, 1001, 1002, 1003], REPEATED)
    assert all(1000 - limits.SIGNATURE_WINDOW_SECONDS < time < 1000 for time in times[4:])


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error": {"details": {"reason": "unknown"}}}', b'{"error": 1}'])
def test_any_other_refusal_is_the_answer(body):
    assert sent(body) == ([1000], body)
