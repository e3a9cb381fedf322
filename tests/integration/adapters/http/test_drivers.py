"""What holds for both drivers. How they treat servers that misbehave: tests/corpus/test_http_documents.py."""

import gzip
import random
import re
import threading

import brotli
import pytest
from tests.support.eventually import PATIENCE
from tests.support.raw_server import RawServer, answer, serving

from skillwire import limits
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.http.sync import call_within, run_parallel
from skillwire.errors import FetchError, TrustError, UsageError
from skillwire.model.digest import Digest
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_artifact
from skillwire.protocols.agent_skills.messages import IndexEntry
from skillwire.trust.address import AddressPolicy
from skillwire.version import VERSION
from skillwire.wire.exchange import HttpRequest, Sleep
from skillwire.wire.fetch import fetch


def header_lines(request):
    return set(request.decode().lower().split("\r\n")[1:])


def code(call, *arguments, **options):
    with pytest.raises((FetchError, TrustError)) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_a_request_is_answered(drive):
    with RawServer(serving(answer(b"body", "ETag: x"))) as server:
        response = drive.get(server.url("/a?b"), headers={"Accept": "text/plain"})
        assert (response.url, response.status, response.body) == (server.url("/a?b"), 200, b"body")
        assert response.headers["etag"] == "x"
        (request,) = server.requests
    assert request.startswith(b"GET /a?b HTTP/1.1\r\n")
    coding = "accept-encoding: gzip" if drive.kind == "sync" else "accept-encoding: gzip, br"
    host = f"host: 127.0.0.1:{server.port}"
    assert header_lines(request) == {host, f"user-agent: skillwire/{VERSION}", coding, "accept: text/plain"}


def test_the_user_agent_is_the_callers_to_choose(drive):
    with RawServer(serving(answer())) as server:
        drive.open(AddressPolicy(), user_agent="someone/1")
        drive.get(server.url())
        drive.get(server.url(), headers={"User-Agent": "someone/2"})
        first, second = server.requests
    assert "user-agent: someone/1" in header_lines(first)
    assert "user-agent: someone/2" in header_lines(second)


def test_a_body_is_sent_with_its_length(drive):
    received = []

    def talk(peer):
        received.append(peer.request())
        peer.send(answer(b"ok", "Connection: close"))

    with RawServer(talk) as server:
        assert drive.get(server.url(), method="POST", body=b"x" * 5).body == b"ok"
    assert "content-length: 5" in header_lines(received[0])


def test_head_has_no_body(drive):
    with RawServer(serving(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")) as server:
        assert drive.get(server.url(), method="HEAD").headers["content-length"] == "500"
        assert drive.get(server.url(), method="HEAD").status == 200
        assert server.connections == 1


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_compressed_body_is_decompressed(drive, size):
    with RawServer(serving(answer(gzip.compress(b"x" * size, mtime=0), "Content-Encoding: gzip"))) as server:
        assert drive.get(server.url()).body == b"x" * size


def test_a_large_compressed_body_is_decompressed(drive):
    content = bytes(range(256)) * 4000
    stored = gzip.compress(content, 0)
    assert len(stored) > 256 * 1024
    with RawServer(serving(answer(stored, "Content-Encoding: gzip"))) as server:
        assert drive.get(server.url()).body == content


def test_br_is_for_the_driver_that_asks_for_it(drive):
    with RawServer(serving(answer(brotli.compress(b"body"), "Content-Encoding: br"))) as server:
        if drive.kind != "sync":
            assert drive.get(server.url()).body == b"body"
        else:
            assert code(drive.get, server.url()) == "CONTENT_ENCODING"


def test_a_connection_is_used_again(drive):
    with RawServer(serving(answer(b"1"), answer(b"2"), answer(b"3"))) as server:
        assert [drive.get(server.url(f"/{number}")).body for number in range(3)] == [b"1", b"2", b"3"]
        assert server.connections == 1


@pytest.mark.parametrize(
    "last",
    [answer(b"x", "Connection: close"), b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", b"HTTP/1.1 200 OK\r\n\r\nx"],
    ids=["asked to close", "HTTP/1.0", "no length"],
)
def test_a_connection_that_ends_is_not_used_again(drive, last):
    def talk(peer):
        peer.request()
        peer.send(last)

    with RawServer(talk) as server:
        assert [drive.get(server.url()).body for _ in range(2)] == [b"x", b"x"]
        assert server.connections == 2


def test_closing_the_driver_closes_its_connections(drive):
    ended = threading.Event()

    def talk(peer):
        while peer.request():
            peer.send(answer(b"x"))
        ended.set()

    with RawServer(talk) as server:
        drive.get(server.url())
        drive.close()
        assert ended.wait(PATIENCE)
        assert drive.get(server.url()).body == b"x"
        assert server.connections == 2


def test_few_connections_are_kept(drive, monkeypatch):
    monkeypatch.setattr(limits, "HTTP_KEPT", 1)
    ended = threading.Event()

    def talk(peer):
        while peer.request():
            peer.send(answer(b"x"))
        ended.set()

    with RawServer(talk) as first, RawServer(serving(answer(b"y"))) as second:
        drive.get(first.url())
        drive.get(second.url())
        if drive.kind != "sync":
            drive.run(fetch(HttpRequest(second.url())))  # a turn of the loop
        assert ended.wait(PATIENCE)
        drive.get(second.url())
        assert second.connections == 1


def closing_after_one_answer(peer):
    if peer.request():
        peer.send(answer(b"x"))  # it did not say that it would close


def test_a_get_is_repeated_when_the_kept_connection_had_ended(drive):
    with RawServer(closing_after_one_answer) as server:
        assert [drive.get(server.url()).body for _ in range(5)] == [b"x"] * 5


def refusing_the_second(peer):
    """Answer one request, and end the connection when a second one has been read."""
    if peer.request():
        peer.send(answer(b"x"))
        peer.request()


def test_a_get_is_repeated_once_when_the_connection_ends_under_it(drive):
    with RawServer(refusing_the_second) as server:
        assert [drive.get(server.url()).body for _ in range(2)] == [b"x", b"x"]
        assert (server.connections, len(server.requests)) == (2, 3)


def test_a_post_is_never_repeated(drive):
    with RawServer(refusing_the_second) as server:
        drive.get(server.url())
        assert code(drive.get, server.url(), method="POST", body=b"x") == "CONNECTION_LOST"
        assert server.connections == 1


def test_a_connection_with_unasked_bytes_is_not_used_again(drive):
    taken, sent = threading.Event(), threading.Event()

    def talk(peer):
        peer.request()
        peer.send(answer(b"first"))
        if server.connections == 1:
            taken.wait(PATIENCE)
            peer.send(answer(b"smuggled"))
            sent.set()
        peer.request()

    with RawServer(talk) as server:
        assert drive.get(server.url()).body == b"first"
        taken.set()
        assert sent.wait(PATIENCE)
        assert drive.get(server.url()).body == b"first"
        assert server.connections == 2


def test_a_new_policy_holds_for_kept_connections_too(drive):
    with RawServer(serving(answer(b"x"))) as server:
        drive.get(server.url())
        drive.forget()
        assert code(drive.run, fetch(HttpRequest(server.url()))) == "ADDRESS_REFUSED"
        assert len(server.requests) == 1


def test_redirects_are_followed_on_one_connection(drive):
    with RawServer(serving(answer(b"", "Location: /next", status="302 Found"), answer(b"there"))) as server:
        response = drive.get(server.url(), headers={"Authorization": "Bearer x"})
        assert (response.url, response.body, server.connections) == (server.url("/next"), b"there", 1)
        assert all("authorization: bearer x" in header_lines(request) for request in server.requests)


def test_a_redirect_meets_the_policy(drive):
    with RawServer(serving(answer(b"secret"))) as inside:
        with RawServer(serving(answer(b"", f"Location: {inside.url()}", status="302 Found"))) as server:
            assert code(drive.get, server.url()) == "PORT_REFUSED"
        assert inside.connections == 0


def test_no_credential_crosses_an_origin(drive):
    with RawServer(serving(answer(b"public"))) as other:
        with RawServer(serving(answer(b"", f"Location: {other.url()}", status="307 Away"))) as server:
            drive.naming(other.url())
            assert drive.get(server.url(), headers={"Authorization": "Bearer x"}).body == b"public"
            assert b"authorization: Bearer x" in server.requests[0]
        assert b"authorization" not in other.requests[0]


def test_no_proxy_is_used_for_this_machine(drive, monkeypatch):
    with RawServer(serving(answer(b"proxied"))) as proxy, RawServer(serving(answer(b"direct"))) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        assert drive.get(server.url()).body == b"direct"
        assert proxy.connections == 0


def test_a_header_that_cannot_be_sent_reaches_nobody(drive):
    with RawServer(serving(answer())) as server:
        with pytest.raises(UsageError):
            drive.get(server.url(), headers={"Authorization": "Bearer x\r\nEvil: y"})
        assert server.connections == 0


def test_errors_are_thrown_into_the_exchange(drive):
    def forgiving(url):
        try:
            yield HttpRequest(url)
        except TrustError as error:
            return error.code

    assert drive.run(forgiving("https://127.0.0.1/")) == "ADDRESS_REFUSED"


def test_nothing_listens(drive):
    with RawServer(None) as server:
        url = server.url()
    assert code(drive.get, url) == "CONNECT_FAILED"


def test_the_next_address_is_tried(drive):
    with RawServer(serving(answer(b"x"))) as server:
        url = server.url(host="skills.internal")
        drive.open(AddressPolicy(), resolve=lambda _: ["127.0.0.9", "0.0.0.0", "127.0.0.1"])  # noqa: S104 - refused
        assert drive.get(url).body == b"x"


def test_few_addresses_are_tried(drive):
    addresses = [f"127.0.0.{number}" for number in range(9, 9 + limits.HTTP_ADDRESSES)]
    with RawServer(serving(answer(b"x"))) as server:
        drive.open(AddressPolicy(), resolve=lambda _: [*addresses, "127.0.0.1"])
        assert code(drive.get, server.url(host="skills.internal")) == "CONNECT_FAILED"
        assert server.connections == 0


def test_a_refused_address_is_the_reason_that_is_given(drive):
    with RawServer(None) as server:
        url = server.url(host="skills.internal")
    drive.open(AddressPolicy(), resolve=lambda _: ["127.0.0.1", "169.254.169.254", "127.0.0.2"])
    assert code(drive.get, url) == "ADDRESS_REFUSED"


def test_a_name_without_addresses(drive):
    drive.open(AddressPolicy(), resolve=lambda _: [])
    assert code(drive.get, "https://nowhere.example/") == "HOST_NOT_FOUND"


def test_a_lookup_that_hangs_is_not_waited_for(drive):
    over = threading.Event()
    drive.open(AddressPolicy(), resolve=lambda _: over.wait(PATIENCE) and [])
    assert code(drive.get, "https://slow.example/", timeout=0.3) == "TIMEOUT"
    over.set()


def test_localhost_is_this_machine_without_asking(drive):
    asked: list[str] = []
    drive.open(AddressPolicy(), resolve=asked.append)
    with RawServer(serving(answer(b"x"))) as server:
        assert drive.get(server.url(host="localhost")).body == b"x"
        assert drive.get(server.url(host="a.localhost")).body == b"x"
    assert asked == []


def test_ipv6(drive):
    with RawServer(serving(answer(b"x")), address="::1") as server:
        assert drive.get(server.url(host="[::1]")).body == b"x"
        assert drive.get(server.url(host="localhost")).body == b"x"
        assert f"host: [::1]:{server.port}" in header_lines(server.requests[0])


def test_results_and_errors_come_in_order(drive):
    def talk(peer):
        while request := peer.request():
            path = request.split()[1]
            peer.send(answer(path) if path != b"/bad" else b"nonsense")

    done = []
    with RawServer(talk) as server:
        drive.naming(server.url())
        urls = [server.url(f"/{name}") for name in ("a", "bad", "b", "c", "d")]
        results = drive.run_all([fetch(HttpRequest(url)) for url in urls], on_done=lambda: done.append(1))
    assert [getattr(result, "body", None) or result.code for result in results] == [
        b"/a",
        "HTTP_SYNTAX",
        b"/b",
        b"/c",
        b"/d",
    ]
    assert len(done) == 5


def test_several_requests_are_under_way_at_once_and_no_more(drive):
    together = threading.Barrier(3)

    def talk(peer):
        while peer.request():
            together.wait(PATIENCE)
            peer.send(answer(b"x"))

    with RawServer(talk) as server:
        drive.naming(server.url())
        results = drive.run_all([fetch(HttpRequest(server.url())) for _ in range(9)], concurrency=3)
        assert [result.body for result in results] == [b"x"] * 9
        assert server.connections == 3


@pytest.mark.parametrize("count", [0, 1])
def test_there_may_be_few_exchanges(drive, count):
    with RawServer(serving(answer(b"x"))) as server:
        drive.naming(server.url())
        assert len(drive.run_all([fetch(HttpRequest(server.url())) for _ in range(count)])) == count


def test_an_error_of_our_own_is_not_a_result(drive):
    def broken():
        yield from ()
        raise ZeroDivisionError

    def idle():
        yield from ()

    with pytest.raises((ZeroDivisionError, ExceptionGroup)):
        drive.run_all([broken(), idle()])


def test_an_exchange_that_asks_nothing(drive):
    def silent():
        yield from ()
        return parse_url("https://a.example/")

    assert drive.run(silent()) == parse_url("https://a.example/")


def test_quick_calls_need_one_thread():
    calls = [threading.get_ident] * 50
    results = dict(run_parallel(calls, 6))
    assert sorted(results) == list(range(50))
    assert len(set(results.values())) < 6


def test_calls_that_wait_get_company():
    together = threading.Barrier(4)
    assert len(dict(run_parallel([lambda: together.wait(PATIENCE)] * 8, 4))) == 8


def test_an_exception_is_an_outcome():
    def broken():
        raise KeyError

    assert isinstance(dict(run_parallel([broken], 2))[0], KeyError)


def test_a_caller_that_stops_begins_no_further_call():
    begun = []
    gate = threading.Event()

    def call():
        begun.append(1)
        if len(begun) > 1:
            gate.wait(PATIENCE)

    for _ in run_parallel([call] * 100, 1):
        break
    gate.set()
    assert len(begun) <= 2


@pytest.mark.parametrize("count", [0, 1])
def test_few_calls(count):
    assert list(run_parallel([lambda: "x"] * count, 6)) == [(index, "x") for index in range(count)]


def test_a_staggered_flow_begins_after_the_delay_or_when_one_has_ended(drive):
    begun = []

    def flow(number):
        begun.append(number)
        yield Sleep(0.0)
        return number

    assert drive.run_all(map(flow, range(3)), delays=[PATIENCE] * 3) == [0, 1, 2]
    assert begun == [0, 1, 2]
    assert drive.run_all([], delays=[]) == []
    begun.clear()
    assert drive.run_all(map(flow, range(3)), delays=[PATIENCE] * 3, is_enough=lambda n: n == 1) == [0, 1, None]
    assert begun == [0, 1]


def test_a_staggered_flow_does_not_wait_for_one_that_is_slow(drive):
    def talk(peer):
        if peer.request().split()[1] == b"/slow":
            gate.wait(PATIENCE)
        else:
            peer.send(answer(b"x"))

    gate = threading.Event()
    with RawServer(talk) as server:
        drive.naming(server.url())
        flows = [fetch(HttpRequest(server.url(path))) for path in ("/slow", "/quick")]
        slow, quick = drive.run_all(flows, delays=[0.0, 0.0], is_enough=lambda _: True)
        gate.set()
    assert (slow, quick.body) == (None, b"x")


def test_a_call_within_its_time():
    assert call_within(lambda: "x", 10) == "x"
    with pytest.raises(KeyError):
        call_within(lambda: {"a": 1}["b"], 10)


def test_a_call_that_takes_too_long_is_left_behind():
    over = threading.Event()
    assert call_within(lambda: over.wait(PATIENCE), 0.05) is None
    over.set()


CONTENT = b"\x1f\x8b" + random.Random(7).randbytes(1_500_000)  # noqa: S311 - bytes that do not compress
DIGEST = Digest.of(CONTENT)
CUT = 900_000


class Origin:
    """Sends ``CONTENT``, cuts the first answers after ``CUT`` bytes, and answers ranges as ``ranges`` says."""

    def __init__(self, *, cuts=1, ranges="kept"):
        self.cuts, self.ranges = cuts, ranges
        self.starts: list[int | None] = []

    def __call__(self, peer):
        while head := peer.request():
            asked = re.search(rb"(?i)\r\nrange: bytes=(\d+)-", head)
            start = int(asked[1]) if asked else None
            self.starts.append(start)
            message = self.answer(start)
            if self.cuts:
                self.cuts -= 1
                peer.send(message[: message.index(b"\r\n\r\n") + 4 + CUT])
                return
            peer.send(message)

    def answer(self, start):
        total = len(CONTENT)
        if start is None or self.ranges == "ignored":
            return answer(CONTENT, "Content-Type: application/gzip")
        if self.ranges == "unsatisfiable":
            return answer(b"", f"Content-Range: bytes */{total}", status="416 Range Not Satisfiable")
        if self.ranges == "other part":
            return answer(CONTENT, f"Content-Range: bytes 0-{total - 1}/{total}", status="206 Partial Content")
        if self.ranges == "without saying which":
            return answer(CONTENT[start:], status="206 Partial Content")
        part = CONTENT[start:] if self.ranges == "kept" else bytes(total - start)
        extra = ["Content-Encoding: gzip"] if self.ranges == "encoded" else []
        return answer(part, f"Content-Range: bytes {start}-{total - 1}/{total}", *extra, status="206 Partial Content")


@pytest.fixture(autouse=True)
def _wait_little(monkeypatch):
    monkeypatch.setattr("skillwire.wire.fetch._FIRST_WAIT", 0.01)


@pytest.fixture
def blobs(tmp_path):
    return FileBlobs(tmp_path / "blobs")


def fetch_resuming(drive, server, blobs):
    download = blobs.download(DIGEST)
    url = server.url("/x.tar.gz")
    drive.naming(url)
    try:
        body = drive.run(fetch_artifact(IndexEntry("a", "A.", "archive", url, DIGEST), sink=download))
        assert body is None
        download.keep()
    finally:
        download.close()
    return blobs.read(DIGEST)


def test_a_cut_download_goes_on_in_one_run(drive, blobs):
    origin = Origin(cuts=1)
    with RawServer(origin) as server:
        assert fetch_resuming(drive, server, blobs) == CONTENT
    assert origin.starts[0] is None
    assert CUT - limits.DOWNLOAD_PIECE_BYTES <= (origin.starts[1] or 0) <= CUT
    assert len(origin.starts) == 2


def test_a_cut_download_goes_on_in_the_next_run(drive, blobs, monkeypatch):
    monkeypatch.setattr(limits, "DOWNLOAD_TRIES", 0)
    monkeypatch.setattr(limits, "DOWNLOAD_REQUESTS", 0)
    origin = Origin(cuts=1)
    with RawServer(origin) as server:
        with pytest.raises(FetchError, match="CONNECTION_LOST"):
            fetch_resuming(drive, server, blobs)
        assert fetch_resuming(drive, server, blobs) == CONTENT
    assert (origin.starts[1] or 0) >= CUT - limits.DOWNLOAD_PIECE_BYTES


@pytest.mark.parametrize(
    "ranges", ["ignored", "unsatisfiable", "other part", "without saying which", "encoded", "wrong"]
)
def test_whatever_a_server_makes_of_a_range_the_whole_comes(drive, blobs, ranges):
    with RawServer(Origin(cuts=1, ranges=ranges)) as server:
        assert fetch_resuming(drive, server, blobs) == CONTENT


def test_kept_bytes_are_not_trusted(drive, blobs):
    partial = blobs.directory / "partial" / DIGEST.hex
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"\x1f\x8bevil" * 1000)
    with RawServer(Origin(cuts=0)) as server:
        assert fetch_resuming(drive, server, blobs) == CONTENT
    partial.write_bytes(CONTENT + b"more")
    with RawServer(Origin(cuts=0, ranges="unsatisfiable")) as server:
        assert fetch_resuming(drive, server, blobs) == CONTENT


def test_bytes_that_are_whole_already_are_not_asked_for(drive, blobs):
    partial = blobs.directory / "partial" / DIGEST.hex
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT)
    with RawServer(Origin(cuts=0)) as server:
        assert fetch_resuming(drive, server, blobs) == CONTENT
        assert not server.requests


def test_a_whole_that_is_another_one_is_refused_and_nothing_kept(drive, blobs):
    def talk(peer):
        while peer.request():
            peer.send(answer(bytes(len(CONTENT)), "Content-Type: application/gzip"))

    with RawServer(talk) as server, pytest.raises(TrustError, match="DIGEST_MISMATCH"):
        fetch_resuming(drive, server, blobs)
    assert len(server.requests) == 1
    assert not list((blobs.directory / "partial").iterdir())


def test_a_continued_download_keeps_to_its_bound(drive, blobs, monkeypatch):
    monkeypatch.setattr(limits, "ARCHIVE_BYTES", CUT + 100_000)
    partial = blobs.directory / "partial" / DIGEST.hex
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:CUT])
    with RawServer(Origin(cuts=0)) as server, pytest.raises(FetchError, match="BODY_TOO_LARGE"):
        fetch_resuming(drive, server, blobs)


def test_a_small_artifact_touches_no_file(drive, blobs):
    content = b"\x1f\x8b" + bytes(1000)
    digest = Digest.of(content)
    download = blobs.download(digest)
    with RawServer(serving(answer(content))) as server:
        drive.naming(server.url("/"))
        entry = IndexEntry("a", "A.", "archive", server.url("/x.tar.gz"), digest)
        assert drive.run(fetch_artifact(entry, sink=download)) == content
    assert not blobs.directory.exists()
