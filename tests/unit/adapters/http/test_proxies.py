"""The variables of proxies: which requests they carry, and what is never shown."""

import pytest

from skillwire.adapters.http.proxies import Proxy, find_proxy
from skillwire.errors import FetchError, TrustError, UsageError
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse

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
