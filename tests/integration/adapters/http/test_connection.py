"""Both drivers through a proxy that opens tunnels on loopback."""

import ssl

import pytest
import trustme
from tests.support.raw_server import RawServer, answer, opening_tunnels, serving

from skillwire.adapters.http.connection import find_proxy
from skillwire.errors import FetchError, TrustError
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpRequest

HOST = "skills.example"  # which only the proxy resolves
BASIC = b"proxy-authorization: Basic bWU6cEBzcw=="  # me:p@ss


def no_lookup(host):
    raise AssertionError(f"{host} was looked up")


@pytest.fixture
def origin(tmp_path, monkeypatch):
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with RawServer(serving(answer(b"through", "ETag: x")), tls=context) as server:
        yield server


@pytest.fixture
def ask(drive):
    """Return a function that asks for a URL, which the user named, through a proxy."""

    def ask(url, proxy, **options):
        environment = {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy}
        drive.close()
        policy = AddressPolicy(allow=(HOST,)).naming(parse_url(url))
        drive.open(policy, resolve=no_lookup, proxy_for=lambda url: find_proxy(url, environment))
        return drive.run(_send(HttpRequest(url, **options)))

    return ask


def _send(request):
    return (yield request)


def refused(ask, *arguments, **options):
    with pytest.raises((FetchError, TrustError)) as caught:
        ask(*arguments, **options)
    return caught.value


def test_https_goes_through_a_tunnel_and_the_proxy_resolves(ask, origin):
    with RawServer(opening_tunnels(origin.port)) as proxy:
        url = origin.url("/a", host=HOST)
        assert ask(url, proxy.url()).body == b"through"
        assert proxy.requests[0].split(b"\r\n")[0] == f"CONNECT {HOST}:{origin.port} HTTP/1.1".encode()
    (request,) = origin.requests
    assert request.startswith(b"GET /a HTTP/1.1\r\n")
    assert b"proxy" not in request.lower()


def test_a_tunnel_is_kept_and_used_again(drive, ask, origin):
    with RawServer(opening_tunnels(origin.port)) as proxy:
        ask(origin.url("/a", host=HOST), proxy.url())
        drive.run(_send(HttpRequest(origin.url("/b", host=HOST))))
        assert (proxy.connections, len(origin.requests)) == (1, 2)


def test_credentials_go_to_the_proxy_alone(ask, origin):
    with RawServer(opening_tunnels(origin.port, credentials=BASIC)) as proxy:
        url = origin.url(host=HOST)
        named = f"http://me:p%40ss@127.0.0.1:{proxy.port}"
        assert ask(url, named, headers={"Authorization": "Bearer secret"}).body == b"through"
        assert b"secret" not in b"".join(proxy.requests)
        assert b"bWU6cEBzcw" not in b"".join(origin.requests)
        error = refused(ask, url, proxy.url())
        wrong = refused(ask, url, f"http://me:hush@127.0.0.1:{proxy.port}")
    shown = f"{error.diagnostics()} {wrong.diagnostics()}"
    assert {error.code, wrong.code} == {"PROXY_REFUSED"}
    assert f"the proxy 127.0.0.1:{proxy.port}, which HTTPS_PROXY names, answered 407 for {HOST}" in shown
    assert "HTTPS_PROXY=http://USER:PASSWORD@127.0.0.1" in shown
    assert "hush" not in shown


@pytest.mark.parametrize("status", ["403 Forbidden", "302 Found", "502 Bad Gateway"])
def test_a_refused_tunnel_is_an_error(ask, origin, status):
    with RawServer(opening_tunnels(origin.port, status=status)) as proxy:
        assert refused(ask, origin.url(host=HOST), proxy.url()).code == "PROXY_REFUSED"
    assert origin.requests == []


def test_plain_http_goes_to_the_proxy_itself(ask):
    with RawServer(serving(answer(b"whole"), answer(b"", status="407 Who are you"))) as proxy:
        named = f"http://me:p%40ss@127.0.0.1:{proxy.port}"
        assert ask(f"http://{HOST}/a?b", named).body == b"whole"
        head = proxy.requests[0].split(b"\r\n")
        assert head[:2] == [f"GET http://{HOST}/a?b HTTP/1.1".encode(), f"host: {HOST}".encode()]
        assert BASIC in head
    with RawServer(serving(answer(b"", status="407 Who are you"))) as proxy:
        assert refused(ask, f"http://{HOST}/", proxy.url()).code == "PROXY_REFUSED"


def test_what_comes_out_of_a_tunnel_is_verified_as_any_host(ask, origin):
    with RawServer(opening_tunnels(origin.port)) as proxy:
        assert refused(ask, origin.url(host="other.example"), proxy.url()).code == "TLS_FAILED"


def test_bytes_before_tls_are_refused(ask, origin):
    def talk(peer):
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\nforged")

    with RawServer(talk) as proxy:
        assert refused(ask, origin.url(host=HOST), proxy.url()).code in {"HTTP_SYNTAX", "TLS_FAILED"}


@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_silent_proxy_costs_the_time_of_the_request(ask, origin, answered):
    def talk(peer):
        peer.request()
        peer.send(answered)
        peer.request()

    with RawServer(talk) as proxy:
        error = refused(ask, origin.url(host=HOST), proxy.url(), timeout=0.2)
    assert error.code == "TIMEOUT"


def test_a_dripping_proxy_does_too(ask, origin):
    def talk(peer):
        peer.request()
        peer.drip(b"HTTP/1.1 200 " + b"x" * 9_000, 0.01)

    with RawServer(talk) as proxy:
        assert refused(ask, origin.url(host=HOST), proxy.url(), timeout=0.2).code == "TIMEOUT"


def test_a_proxy_that_ends_is_an_error(ask, origin):
    with RawServer(lambda peer: peer.request()) as proxy:
        assert refused(ask, origin.url(host=HOST), proxy.url()).code == "CONNECTION_LOST"
        port = proxy.port
    error = refused(ask, origin.url(host=HOST), f"http://127.0.0.1:{port}")
    assert error.code == "CONNECT_FAILED"
    assert "the proxy 127.0.0.1, which HTTPS_PROXY names" in error.message


def test_the_address_policy_holds_for_proxy_and_literal_addresses(ask, drive, origin):
    error = refused(ask, origin.url(host=HOST), "http://169.254.169.254:3128")
    assert error.code == "ADDRESS_REFUSED"
    with RawServer(opening_tunnels(origin.port)) as proxy:
        ask(origin.url(host=HOST), proxy.url())
        for url in ("https://10.0.0.1/", "https://127.0.0.1/", "https://intranet/", "http://public.example/"):
            assert refused(lambda url=url: drive.run(_send(HttpRequest(url)))).code in {
                "ADDRESS_REFUSED",
                "PLAIN_HTTP_REFUSED",
            }
        assert proxy.connections == 1
