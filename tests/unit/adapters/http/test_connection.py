import socket
import ssl

import dns.resolver
import pytest

from skillwire import limits
from skillwire.adapters.http.connection import (
    ConnectionPool,
    Proxy,
    find_proxy,
    find_txt_records,
    known_addresses,
    resolve_host,
    socket_address,
    tls_failure,
)
from skillwire.errors import FetchError, TrustError, UsageError
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("192.0.2.1", ("192.0.2.1",)),
        ("2001:db8::1", ("2001:db8::1",)),
        ("localhost", ("127.0.0.1", "::1")),
        ("a.localhost", ("127.0.0.1", "::1")),
        ("example.com", None),
        ("notlocalhost", None),
    ],
)
def test_what_needs_no_lookup(host, addresses):
    assert known_addresses(host) == addresses


def test_addresses_come_once_and_in_order(monkeypatch):
    found = [(socket.AF_INET6, 1, 6, "", ("::2", 0, 0, 0))] + [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 0))] * 2
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert resolve_host("a.example") == ["::2", "192.0.2.1"]


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
def test_a_name_that_is_not_known(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(FetchError) as caught:
        resolve_host("a.example")
    assert caught.value.code == "HOST_NOT_FOUND"
    assert caught.value.retryable


@pytest.mark.parametrize("unclear", [dns.resolver.NoAnswer, dns.resolver.LifetimeTimeout, dns.resolver.YXDOMAIN])
def test_a_domain_that_does_not_exist_is_told_from_a_missing_record(monkeypatch, unclear):
    def look_up(name, kind, **_):
        raise unclear if (name, kind) == ("acme.example.", "SOA") else dns.resolver.NXDOMAIN

    monkeypatch.setattr(dns.resolver, "resolve", look_up)
    assert find_txt_records("_skillwire.acme.example") == []
    with pytest.raises(FetchError, match=r"the domain other\.example does not exist"):
        find_txt_records("_skillwire.other.example")


def test_a_socket_is_told_the_number_of_the_interface_that_an_address_names():
    number, name = socket.if_nameindex()[0]
    assert socket_address("192.0.2.1", 80) == ("192.0.2.1", 80)
    assert socket_address("2001:db8::1", 80) == ("2001:db8::1", 80)
    assert socket_address(f"fe80::1%{name}", 80) == ("fe80::1", 80, 0, number)
    assert socket_address("fe80::1%7", 80) == ("fe80::1", 80, 0, 7)
    with pytest.raises(OSError, match="no interface nowhere"):
        socket_address("fe80::1%nowhere", 80)


A, B = parse_url("https://a.example/"), parse_url("https://b.example/")
PUBLIC = AddressPolicy()


class Connection:
    def __init__(self, address="192.88.98.1", *, quiet=True):
        self.address = address
        self.quiet = quiet
        self.closed = False

    def is_quiet(self):
        return self.quiet

    def close(self):
        self.closed = True


@pytest.fixture
def kept():
    return ConnectionPool()


def test_the_one_used_last_is_taken_first_and_by_its_origin_only(kept):
    first, second = Connection(), Connection()
    kept.keep(A.origin, first)
    kept.keep(A.origin, second)
    assert kept.take(PUBLIC, B) is None
    assert [kept.take(PUBLIC, A) for _ in range(3)] == [second, first, None]


@pytest.mark.parametrize("unusable", [Connection(quiet=False), Connection("127.0.0.1")])
def test_one_that_has_ended_or_is_no_longer_allowed_is_closed(kept, unusable):
    usable = Connection()
    for connection in (usable, unusable):
        kept.keep(A.origin, connection)
    assert kept.take(PUBLIC, A) is usable
    assert unusable.closed
    assert not usable.closed


def test_the_oldest_goes_when_there_are_too_many_and_closing_closes_all(kept):
    connections = [Connection() for _ in range(limits.HTTP_KEPT + 1)]
    for connection in connections:
        kept.keep(A.origin, connection)
    assert [connection.closed for connection in connections] == [True] + [False] * limits.HTTP_KEPT
    kept.close()
    assert all(connection.closed for connection in connections)
    assert kept.take(PUBLIC, A) is None


PX = "http://px.example:3128"


def found(url, **environment):
    proxy = find_proxy(parse_url(url), environment)
    return proxy and f"{proxy.variable} {proxy.url.origin}"


@pytest.mark.parametrize(
    ("environment", "https", "http"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": PX}, f"HTTPS_PROXY {PX}", None),
        ({"https_proxy": PX, "HTTPS_PROXY": "http://other"}, f"https_proxy {PX}", None),
        ({"HTTP_PROXY": PX}, None, f"HTTP_PROXY {PX}"),
        ({"HTTP_PROXY": PX, "REQUEST_METHOD": "GET"}, None, None),
        ({"http_proxy": PX, "REQUEST_METHOD": "GET"}, None, f"http_proxy {PX}"),
        ({"ALL_PROXY": PX, "http_proxy": "http://other"}, f"ALL_PROXY {PX}", "http_proxy http://other"),
        ({"HTTPS_PROXY": "px.example:3128"}, f"HTTPS_PROXY {PX}", None),
        ({"HTTPS_PROXY": ""}, None, None),
    ],
)
def test_each_scheme_has_its_variable(environment, https, http):
    assert found("https://a.example", **environment) == https
    assert found("http://a.example", **environment) == http


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost", "https://x.localhost", "https://127.0.0.1:8443", "https://[::1]", "https://10.1.2.3",
        "https://192.168.0.1", "https://169.254.169.254", "https://[fe80::1%25eth0]", "https://nas.local",
    ],
)  # fmt: skip
def test_what_only_this_machine_or_network_reaches_is_direct(url):
    assert found(url, HTTPS_PROXY=PX) is None


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_direct"),
    [
        ("a.example", "https://a.example", True),
        ("A.Example", "https://b.a.example", True),
        (".a.example", "https://b.a.example", True),
        ("*.a.example", "https://b.a.example", True),
        ("a.example", "https://aa.example", False),
        ("a.example:8443", "https://a.example", False),
        ("a.example:8443", "https://a.example:8443", True),
        ("x, a.example y", "https://a.example", True),
        ("*", "https://a.example", True),
        ("203.0.114.0/24", "https://203.0.114.9", True),
        ("8.8.8.8", "https://8.8.8.8", True),
        ("8.8.8.8:443", "https://8.8.8.8", True),
        ("[2606:4700::1]:443", "https://[2606:4700::1]", True),
        ("2606:4700::/32", "https://[2606:4700::1]", True),
        ("8.8.8.8", "https://8.8.8.9", False),
        ("8.example", "https://8.8.8.8", False),
        (",, .", "https://a.example", False),
    ],
)
def test_no_proxy_lists_hosts_ports_and_networks(no_proxy, url, is_direct):
    for name in ("NO_PROXY", "no_proxy"):
        assert (found(url, HTTPS_PROXY=PX, **{name: no_proxy}) is None) is is_direct


@pytest.mark.parametrize("value", ["socks5://me:hush@px", "https://me:hush@px", "http://me:hush@p x", "http://:hush@"])
def test_a_value_that_names_no_http_proxy_is_refused_without_showing_it(value):
    with pytest.raises(UsageError) as caught:
        found("https://a.example", HTTPS_PROXY=value)
    assert caught.value.code == "PROXY_VARIABLE"
    assert "HTTPS_PROXY" in caught.value.message
    assert "hush" not in f"{caught.value.diagnostics()} {caught.value.__cause__}"


def test_credentials_are_decoded_sent_and_not_shown():
    proxy = find_proxy(parse_url("https://[2606::1]"), {"HTTPS_PROXY": "http://m%40e:hu:sh%C3%A9@px.example"})
    assert proxy is not None
    assert proxy.headers == {"proxy-authorization": "Basic bUBlOmh1OnNow6k="}
    assert "bUBl" not in repr(proxy)
    assert proxy.connect_message(parse_url("https://[2606::1]")).split(b"\r\n")[:2] == [
        b"CONNECT [2606::1]:443 HTTP/1.1",
        b"host: [2606::1]:443",
    ]


@pytest.mark.parametrize(
    ("status", "url", "is_tunnel", "is_refused"),
    [
        (200, "https://a.example", True, False),
        (302, "https://a.example", True, True),
        (403, "https://a.example", True, True),
        (407, "https://a.example", True, True),
        (407, "https://a.example", False, False),  # of the origin, within the tunnel
        (407, "http://a.example", False, True),
        (403, "http://a.example", False, False),  # of the proxy or of the origin
    ],
)
def test_a_refusal_names_proxy_variable_and_status(status, url, is_tunnel, is_refused):
    proxy, answer = Proxy("HTTPS_PROXY", parse_url(PX)), HttpResponse(url, status, {}, b"")
    if not is_refused:
        return proxy.check(answer, parse_url(url), is_tunnel=is_tunnel)
    with pytest.raises(FetchError) as caught:
        proxy.check(answer, parse_url(url), is_tunnel=is_tunnel)
    message = f"the proxy px.example:3128, which HTTPS_PROXY names, answered {status} for a.example"
    assert (caught.value.code, caught.value.message) == ("PROXY_REFUSED", message)
    return None


@pytest.mark.parametrize(
    ("proxy", "address", "is_allowed"),
    [
        (PX, "8.8.8.8", True),  # the tunnel's TLS protects what crosses plain http
        (PX, "10.0.0.1", True),  # as a host in allow may lead into private networks
        (PX, "127.0.0.1", True),
        ("http://10.0.0.1:3128", "10.0.0.1", True),
        (PX, "169.254.169.254", False),
        (PX, "0.0.0.0", False),  # noqa: S104 - an address, not a socket's
        (PX, "224.0.0.1", False),
        (PX, "64:ff9b::a00:1", False),
    ],
)
def test_the_address_policy_holds_for_the_proxy(proxy, address, is_allowed):
    policy = AddressPolicy()
    if is_allowed:
        return policy.check_proxy(parse_url(proxy), address)
    with pytest.raises(TrustError) as caught:
        policy.check_proxy(parse_url(proxy), address)
    assert caught.value.code == "ADDRESS_REFUSED"
    return None


def test_a_proxy_opens_no_address_to_others():
    with pytest.raises(TrustError):
        AddressPolicy().check_url(parse_url("https://10.0.0.1"))


URL = parse_url("https://skills.example/index.json")


def failure():
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_message = "unable to get local issuer certificate"
    found = tls_failure(URL, error)
    assert found is not None
    return found


@pytest.mark.parametrize("content", [None, "no PEM"])
def test_file_of_authorities_that_cannot_be_read_is_named(tmp_path, monkeypatch, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    found = failure()
    assert f"SSL_CERT_FILE is {path}, which cannot be read" in found.message
    assert found.diagnostics().fix == "Set SSL_CERT_FILE to a PEM file with certificates."


def test_certificate_is_at_fault_without_such_a_file(monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    message = "the certificate of skills.example is not valid: unable to get local issuer certificate"
    assert failure().message == message
