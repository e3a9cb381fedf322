"""The proxies that the environment names: which one carries a request, and how a tunnel through it is opened.

``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` are read as curl reads them, lower case first. Under CGI
a client can set ``HTTP_PROXY`` with a ``Proxy`` header, so only ``http_proxy`` counts there. ``NO_PROXY`` also takes
networks. ``urllib.request`` reads the same variables without networks, and costs 20 ms to import.

An https request goes through a ``CONNECT`` tunnel; an http request goes to the proxy itself. This machine, addresses
that are not public and names of multicast DNS are connected to directly, since a proxy seldom reaches them. A proxy
resolves all other names. Its credentials are sent to it alone and appear in no message.
"""

from __future__ import annotations

import binascii
import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from skillwire.errors import FetchError, SourceLocation, UsageError, ValidationError
from skillwire.model.url import Url, is_ipv4, parse_url
from skillwire.trust.address import AddressPolicy, AddressScope, classify, is_localhost, read_address, read_network
from skillwire.wire.exchange import HttpResponse

_ESCAPED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_SEPARATOR: Final = re.compile(r"[,\s]+")
_REDIRECT: Final = 300
_AUTHENTICATE: Final = 407


class Proxy(NamedTuple):
    """A proxy, the variable that names it, and the value of ``Proxy-Authorization``."""

    variable: str
    url: Url
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"Proxy({self.variable}, {self.url.origin})"

    @property
    def headers(self) -> dict[str, str]:
        """The header fields that the proxy itself gets."""
        return {} if self.authorization is None else {"proxy-authorization": self.authorization}

    def connect_message(self, url: Url) -> bytes:
        """Return the request for a tunnel to the host of ``url``. Spec: RFC 9110 §9.3.6."""
        target = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
        fields = [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([f"CONNECT {target} HTTP/1.1", f"host: {target}", *fields, "", ""]).encode("ascii")

    def check(self, response: HttpResponse, url: Url, *, is_tunnel: bool) -> None:
        """Raise FetchError (``PROXY_REFUSED``) when the proxy opens no tunnel, or asks for credentials."""
        status = response.status
        if status < _REDIRECT or not (is_tunnel or (status == _AUTHENTICATE and url.scheme == "http")):
            return
        message = f"the proxy {self.url.authority}, which {self.variable} names, answered {status} for {url.authority}"
        fix = None
        if status == _AUTHENTICATE:
            fix = f"Put your user name and password into it: {self.variable}=http://USER:PASSWORD@{self.url.authority}"
        raise FetchError("PROXY_REFUSED", message, place=SourceLocation(str(url)), fix=fix)


def find_proxy(url: Url, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """Return the proxy for a request to ``url``, None to connect directly. Raises UsageError (``PROXY_VARIABLE``)."""
    own = [f"{url.scheme}_proxy", f"{url.scheme.upper()}_PROXY"]
    if url.scheme == "http" and "REQUEST_METHOD" in environment:
        del own[1]
    variable = next((name for name in (*own, "all_proxy", "ALL_PROXY") if environment.get(name)), None)
    if variable is None or _is_direct(url, environment.get("no_proxy") or environment.get("NO_PROXY") or ""):
        return None
    scheme, mark, rest = environment[variable].strip().partition("://")
    credentials, at, authority = (rest if mark else scheme).rpartition("@")
    try:
        proxy = parse_url(f"{scheme if mark else 'http'}://{authority}")
    except ValidationError:  # its text may hold a password
        proxy = None
    if proxy is None or proxy.scheme != "http":
        raise UsageError("PROXY_VARIABLE", f"{variable} holds no http URL of a proxy", place=SourceLocation(variable))
    if not at:
        return Proxy(variable, proxy)
    plain = _ESCAPED.sub(lambda found: binascii.unhexlify(found[1]), credentials.encode())
    return Proxy(variable, proxy, f"Basic {binascii.b2a_base64(plain, newline=False).decode()}")


def check_peer(policy: AddressPolicy, url: Url, proxy: Proxy | None, address: str) -> None:
    """Check the address that a request to ``url`` is about to connect to; raises as the policy does."""
    if proxy is None:
        policy.check_address(url, address)
    else:
        policy.check_proxy(proxy.url, address)


def _is_direct(url: Url, no_proxy: str) -> bool:
    """Whether ``url`` needs no proxy: by its host, or by an entry of ``NO_PROXY``."""
    address = read_address(url.host) if ":" in url.host or is_ipv4(url.host) else None
    if address is None and (is_localhost(url.host) or url.host.endswith(".local")):
        return True
    if address is not None and classify(address) is not AddressScope.PUBLIC:
        return True
    for entry in _SEPARATOR.split(no_proxy.lower()):
        name, mark, port = entry.rpartition(":") if entry.count(":") == 1 or "]:" in entry else (entry, "", "")
        name = name.strip("[]").removeprefix("*.").removeprefix(".")
        if mark and port != str(url.port):
            continue
        if name == "*" or (address is None and (url.host == name or url.host.endswith(f".{name}"))):
            return True
        if address is not None:
            try:
                if read_network(name).covers(address):
                    return True
            except ValidationError:  # a name, which no address has
                continue
    return False
