"""What both drivers share: proxies, connections with deadlines, idle ones, name resolution, TLS, and when to repeat.

``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` are read as curl reads them, lower case first. Under CGI
a client can set ``HTTP_PROXY`` with a ``Proxy`` header, so only ``http_proxy`` counts there. ``NO_PROXY`` also takes
networks. ``urllib.request`` reads the same variables without networks, and costs 20 ms to import. An https request goes
through a ``CONNECT`` tunnel; an http request goes to the proxy itself. This machine, addresses that are not public and
names of multicast DNS are connected to directly, since a proxy seldom reaches them. A proxy resolves all other names.
Its credentials are sent to it alone and appear in no message.

A socket's timeout starts again with each byte. So every operation here gets the remaining time of the whole request,
and a server that sends one byte a second is cut off when that time is over.

Names are resolved by the system, so ``/etc/hosts``, search domains and multicast DNS work as in other programs. Literal
addresses, ``localhost`` and names under it (RFC 6761 §6.3) need no lookup. A test or user may pass another
:data:`Resolver`; every address must pass the policy either way.

TLS is at least 1.2 and always verified, against the system's certificate authorities, or those that ``SSL_CERT_FILE``
and ``SSL_CERT_DIR`` name, as for every program on OpenSSL. Verification cannot be turned off.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from skillwire import limits
from skillwire.errors import (
    FetchError,
    SkillwireError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
    in_seconds,
)
from skillwire.model.url import Origin, Url, is_ipv4, parse_url
from skillwire.trust.address import AddressPolicy, AddressScope, classify, is_localhost, read_address, read_network
from skillwire.version import VERSION
from skillwire.wire.exchange import HttpRequest, HttpResponse
from skillwire.wire.http1 import ResponseReader, encode_request

if TYPE_CHECKING:
    import ssl


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


USER_AGENT: Final = f"skillwire/{VERSION}"

_REPEATABLE: Final = frozenset({"GET", "HEAD"})


def timeout_error(request: HttpRequest) -> FetchError:
    """Return the error for a request that exceeded its time."""
    return FetchError(
        "TIMEOUT", f"no whole answer within {in_seconds(request.timeout)}", place=SourceLocation(request.url)
    )


def may_repeat(request: HttpRequest, reader: ResponseReader, error: FetchError) -> bool:
    """Whether a request may be sent again: its idle connection closed before it arrived (RFC 9112 §9.3.1)."""
    return error.code == "CONNECTION_LOST" and not reader.started and request.method in _REPEATABLE


def more_serious(first: SkillwireError | None, second: SkillwireError) -> SkillwireError:
    """Return which of two addresses' failures to report: the first one, but a refusal before anything else."""
    return second if first is None or (isinstance(second, TrustError) and not isinstance(first, TrustError)) else first


def no_address_error(url: Url) -> FetchError:
    """Return the error for a name without addresses."""
    return FetchError("HOST_NOT_FOUND", f"no address for {url.host}", place=SourceLocation(str(url)))


#: Returns the addresses of a name, best first; raises ``FetchError`` ``HOST_NOT_FOUND``. May block.
Resolver = Callable[[str], Sequence[str]]


def known_addresses(host: str) -> tuple[str, ...] | None:
    """Return the addresses of a host that needs no lookup, None for any other."""
    if ":" in host or is_ipv4(host):
        return (host,)
    return ("127.0.0.1", "::1") if is_localhost(host) else None


def look_up(resolve: Resolver, host: str, proxy: Proxy | None) -> Sequence[str]:
    """Return the addresses of a host, or of the proxy of that name; the error about a proxy states its variable."""
    try:
        return resolve(host)
    except FetchError as error:
        if proxy is not None:
            error.message += f"; it is the proxy that {proxy.variable} names"
            error.fix = f"Correct {proxy.variable}, unset it, or exempt the host with NO_PROXY."
        raise


def socket_address(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return the address tuple for a socket, with the interface's number. Raises OSError for an unknown interface."""
    host, mark, zone = address.partition("%")
    if not mark:
        return address, port
    try:
        return host, port, 0, int(zone) if zone.isdigit() else socket.if_nametoindex(zone)
    except OSError as error:
        raise OSError(error.errno, f"this machine has no interface {zone}") from error


def resolve_host(host: str) -> Sequence[str]:
    """Ask the system for the addresses of a name; blocks. Raises FetchError (``HOST_NOT_FOUND``)."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchError("HOST_NOT_FOUND", f"no address for {host}: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def find_txt_records(name: str) -> Sequence[str]:
    """Ask the name servers of this machine for the TXT records of a name; none for a name without any; blocks.

    Raises FetchError (``HOST_NOT_FOUND``), also where the domain above the name does not exist.
    """
    import dns.resolver  # noqa: PLC0415  # takes 0.1 s, and few servers prove a namespace

    try:
        answer = dns.resolver.resolve(
            f"{name}.", "TXT", lifetime=limits.REGISTRY_PROOF_SECONDS, raise_on_no_answer=False
        )
        return [b"".join(record.strings).decode("utf-8", "replace") for record in answer]
    except dns.resolver.NXDOMAIN:
        domain = name.partition(".")[2]
        with contextlib.suppress(dns.exception.DNSException):  # then it may be there
            try:
                dns.resolver.resolve(f"{domain}.", "SOA", lifetime=limits.REGISTRY_PROOF_SECONDS)
            except dns.resolver.NXDOMAIN as error:
                advice = "Check how the domain is written."
                raise FetchError("HOST_NOT_FOUND", f"the domain {domain} does not exist", fix=advice) from error
        return []
    except dns.exception.DNSException as error:
        reason = type(error).__name__  # its text names the resolver of this network
        raise FetchError("HOST_NOT_FOUND", f"{name} cannot be looked up ({reason})") from error


class IdleConnection(Protocol):
    """A connection to an ``address`` that passed the address policy."""

    address: str

    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer."""

    def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=IdleConnection)


class ConnectionPool(Generic[C]):
    """Idle connections by origin, the oldest closed when there are too many. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[Origin, C]] = []  # oldest first

    def take(self, policy: AddressPolicy, url: Url, proxy: Proxy | None = None) -> C | None:
        """Return the newest usable connection for the origin of ``url``; ``policy`` may have changed."""
        while (connection := self._newest(url.origin)) is not None:
            with contextlib.suppress(TrustError):  # the next connection reports the reason
                check_peer(policy, url, proxy, connection.address)
                if connection.is_quiet():
                    return connection
            connection.close()
        return None

    def _newest(self, origin: Origin) -> C | None:
        with self._lock:
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index][0] == origin:
                    return self._idle.pop(index)[1]
        return None

    def keep(self, origin: Origin, connection: C) -> None:
        """Keep ``connection``."""
        with self._lock:
            self._idle.append((origin, connection))
            over, self._idle = self._idle[: -limits.HTTP_KEPT], self._idle[-limits.HTTP_KEPT :]
        for _, oldest in over:
            oldest.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


class HttpDriver(Generic[C]):
    """What both drivers are made of."""

    #: What responses may be compressed with.
    _codings: Sequence[str] = ("gzip",)

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        user_agent: str = USER_AGENT,
        resolve: Resolver = resolve_host,
        proxy_for: Callable[[Url], Proxy | None] = find_proxy,
    ) -> None:
        #: Where connections may lead; may be replaced at any time.
        self.policy = policy
        #: Called with a host and 0 for each request, and with the size of each received piece.
        self.on_traffic: Callable[[str, int], object] = lambda *_: None
        self._defaults = {"user-agent": user_agent, "accept-encoding": ", ".join(self._codings)}
        self._resolve = resolve
        self._proxy_for = proxy_for
        self._kept: ConnectionPool[C] = ConnectionPool()
        self._context_lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def _prepare(self, request: HttpRequest) -> tuple[Url, Proxy | None, bytes]:
        """Return the URL of a request that the policy allows, its proxy, and the message to send."""
        url = parse_url(request.url)
        self.policy.check_url(url)
        self.on_traffic(url.authority, 0)
        proxy = self._proxy_for(url)
        headers = proxy.headers if proxy is not None and url.scheme == "http" else None
        return url, proxy, encode_request(request, url, self._defaults, headers)


RECEIVE_BYTES: Final = 64 * 1024  # a larger buffer costs more to allocate than it saves in calls


class Deadline:
    """The moment by which ``request`` must be answered, last byte included."""

    def __init__(self, request: HttpRequest) -> None:
        self._end = time.monotonic() + request.timeout
        self._request = request

    def remaining(self) -> float:
        """Return the remaining seconds, more than 0. Raises FetchError (``TIMEOUT``)."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise self.passed()
        return seconds

    def passed(self) -> FetchError:
        """Return the error for an exceeded deadline."""
        return timeout_error(self._request)


def is_quiet(descriptor: int) -> bool:
    """Whether a socket has nothing to read: neither its end nor unexpected bytes."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return not poll.poll(0)


class Connection:
    """A connected socket, after its TLS handshake if any, to an ``address`` that passed the policy."""

    def __init__(self, address: str, sock: socket.socket) -> None:
        self.address = address
        self._socket = sock

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of ``data``."""
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(deadline.remaining())
            rest = rest[self._socket.send(rest) :]

    def receive(self, deadline: Deadline) -> bytes:
        """Return at least one byte; empty when the peer has ended the connection."""
        self._socket.settimeout(deadline.remaining())
        return self._socket.recv(RECEIVE_BYTES)

    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer."""
        return is_quiet(self._socket.fileno())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def tunnel_reader(proxy: Proxy) -> ResponseReader:
    """Return the reader of the proxy's answer to ``CONNECT``."""
    return ResponseReader(HttpRequest(str(proxy.url), method="CONNECT"))


def open_connection(
    url: Url, address: str, seconds: float, context: ssl.SSLContext | None, proxy: Proxy | None
) -> Connection:
    """Connect to ``address``, of the host or the proxy, which the policy allowed; with TLS to the host for https.

    ``seconds`` covers connection, tunnel and handshake. Raises FetchError (``CONNECT_FAILED``, ``TLS_FAILED``,
    ``PROXY_REFUSED``).
    """
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    end = time.monotonic() + seconds
    try:
        sock.settimeout(seconds)
        sock.connect(socket_address(address, (proxy.url if proxy else url).port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy is not None and context is not None:
            sock.sendall(proxy.connect_message(url))
            reader, response = tunnel_reader(proxy), None
            while response is None:
                sock.settimeout(max(end - time.monotonic(), 0.001))
                response = reader.feed(data) if (data := sock.recv(RECEIVE_BYTES)) else reader.end()
            proxy.check(response, url, is_tunnel=True)
        sock.settimeout(max(end - time.monotonic(), 0.001))
        if context is not None:
            # A TLS stream that ends without a close message was cut; without this it would pass for an end.
            sock = context.wrap_socket(sock, server_hostname=url.name, suppress_ragged_eofs=False)
        return Connection(address, sock)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise connect_error(url, address, error, str(error.strerror or error), proxy) from error
        raise


def connect_error(url: Url, address: str, error: OSError, reason: str, proxy: Proxy | None) -> FetchError:
    """Return the error of a failed connection, in the handshake too."""
    if "ssl" in sys.modules and (failure := tls_failure(url, error)) is not None:  # else no TLS was tried
        return failure
    host, port = url.host, url.port
    if proxy is not None:
        host, port = f"the proxy {proxy.url.host}, which {proxy.variable} names", proxy.url.port
    message = f"cannot connect to {host} ({address}, port {port}): {reason}"
    return FetchError("CONNECT_FAILED", message, place=SourceLocation(str(url)))


def client_context() -> ssl.SSLContext:
    """Return the context that connections are made with; loads the certificate authorities."""
    import ssl  # noqa: PLC0415  # takes milliseconds, and http needs none

    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python before 3.11.4 sets it, and a stream that was cut would pass for one that ended.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    context.set_alpn_protocols(["http/1.1"])
    return context


def tls_failure(url: Url, error: OSError) -> FetchError | None:
    """Return the error of a failed handshake; None for any other error."""
    import ssl  # noqa: PLC0415  # takes milliseconds, and http needs none

    fix: str | None = None
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {url.host} is not valid: {error.verify_message}"
        if path := os.environ.get("SSL_CERT_FILE"):
            try:
                ssl.create_default_context(cafile=path)
            except OSError as unread:  # which OpenSSL ignores silently
                message += f"; SSL_CERT_FILE is {path}, which cannot be read as certificates: "
                message += unread.strerror or str(unread)
                fix = "Set SSL_CERT_FILE to a PEM file with certificates."
    elif isinstance(error, ssl.SSLError):
        message = f"no TLS with {url.host}: {error.reason or error}"
        if error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
            message, fix = f"port {url.port} of {url.host} does not speak TLS", f"Write http://{url.authority}."
    else:
        return None
    return FetchError("TLS_FAILED", message, place=SourceLocation(str(url)), fix=fix)
