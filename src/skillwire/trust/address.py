"""The address policy: where a connection may lead. Every connection of this package obeys it.

An index is hostile text full of URLs. Without a rule, ``https://127.0.0.1:9200/``, a redirect to a router's console, or
a DNS name whose second answer is ``10.0.0.1`` would let its author act inside this machine's network. So a driver asks
twice: :meth:`AddressPolicy.check_url` before a name is resolved, and :meth:`AddressPolicy.check_address` with the
address that it is about to connect to. It connects to exactly that address, so a later lookup cannot change it.

Allowed is https to public addresses on port 443. The user must *name* everything else: by typing or configuring an
origin (:meth:`AddressPolicy.naming`), or in the setting ``allow``:

==================================  ============================================================================
the user named                      which opens
==================================  ============================================================================
``http://127.0.0.1:8000``           that address, that port, plain http
``localhost``, ``a.localhost``      loopback, plain http
``intranet``, ``skills.internal``   this machine and private networks, plain http (:func:`is_local_name`)
``https://example.com:8443``        that port. Never a private address: the owner of a public name could
                                    choose which
``allow = ["10.0.0.0/8"]``          these addresses, whatever the name
``allow = ["skills.example.com"]``  this machine and private networks through this name, plain http
``allow = ["https://x.y:8443"]``    the same, with this scheme and port alone
==================================  ============================================================================

An origin opens with its scheme, host and port: other ports of the same host may be services of other people. A typed
``http://HOST`` also opens ``https://HOST``, to which such a host redirects.

Metadata services, which provide a cloud machine's credentials, open through ``allow`` only; multicast and the
unspecified address never.

The table of ranges follows the IANA special-purpose registries. ``ipaddress.is_global`` answers whether an address is
routed, not where its packets end, and changes between patch releases of Python. IPv6 addresses that embed an IPv4
address are never public, because a gateway decides where they lead. Each family's rows cover every address; the first
match wins. Spec: ASD Security Considerations.
"""

from __future__ import annotations

import functools
import re
from enum import StrEnum
from typing import Final, NamedTuple

from skillwire.errors import SourceLocation, TrustError, UsageError, ValidationError
from skillwire.model.url import DEFAULT_PORTS, Origin, Url, is_ipv4, parse_url


class AddressScope(StrEnum):
    """The kind of an address."""

    PUBLIC = "a public address"
    LOOPBACK = "a loopback address (this machine)"
    PRIVATE = "a private address (the local network)"
    LINK_LOCAL = "a link-local address (the local network)"
    METADATA = "the address of a cloud metadata service"
    SPECIAL = "a special-purpose address"
    NOWHERE = "not the address of a host"


class Network(NamedTuple):
    """A range of addresses of one IP version, as whole numbers, both ends included."""

    version: int
    first: int
    last: int

    def covers(self, address: Address) -> bool:
        """Whether ``address`` lies in the range."""
        return address.version == self.version and self.first <= address.number <= self.last


class Address(NamedTuple):
    """An IP address as a whole number."""

    version: int
    number: int


_RANGES_V4: Final = (
    ("169.254.169.254/32", AddressScope.METADATA),  # AWS, Azure, Google and most others
    ("169.254.170.2/32", AddressScope.METADATA),  # AWS containers
    ("169.254.170.23/32", AddressScope.METADATA),  # AWS pods
    ("168.63.129.16/32", AddressScope.METADATA),  # Azure hosts; a public range, but answered by the machine's own host
    ("169.254.42.42/32", AddressScope.METADATA),  # Scaleway
    ("169.254.0.23/32", AddressScope.METADATA),  # Tencent
    ("100.100.100.200/32", AddressScope.METADATA),  # Alibaba
    ("192.0.0.192/32", AddressScope.METADATA),  # Oracle
    ("127.0.0.0/8", AddressScope.LOOPBACK),
    ("10.0.0.0/8", AddressScope.PRIVATE),
    ("172.16.0.0/12", AddressScope.PRIVATE),
    ("192.168.0.0/16", AddressScope.PRIVATE),
    ("100.64.0.0/10", AddressScope.PRIVATE),  # shared space: carriers and overlay networks
    ("169.254.0.0/16", AddressScope.LINK_LOCAL),
    ("0.0.0.0/32", AddressScope.NOWHERE),  # unspecified; Linux takes it for loopback
    ("0.0.0.0/8", AddressScope.SPECIAL),  # "this network"
    ("192.0.0.0/24", AddressScope.SPECIAL),  # protocol assignments
    ("192.0.2.0/24", AddressScope.SPECIAL),  # documentation
    ("192.88.99.0/24", AddressScope.SPECIAL),  # 6to4 relays
    ("198.18.0.0/15", AddressScope.SPECIAL),  # benchmarks
    ("198.51.100.0/24", AddressScope.SPECIAL),  # documentation
    ("203.0.113.0/24", AddressScope.SPECIAL),  # documentation
    ("224.0.0.0/4", AddressScope.NOWHERE),  # multicast
    ("255.255.255.255/32", AddressScope.NOWHERE),  # broadcast
    ("240.0.0.0/4", AddressScope.SPECIAL),  # reserved
    ("0.0.0.0/0", AddressScope.PUBLIC),
)

_RANGES_V6: Final = (
    ("fd00:ec2::/32", AddressScope.METADATA),  # AWS: machines (::254), pods (::23)
    ("fd20:ce::254/128", AddressScope.METADATA),  # Google
    ("fd00:c1::a9fe:a9fe/128", AddressScope.METADATA),  # Oracle
    ("fd00:100::100:200/128", AddressScope.METADATA),  # Alibaba
    ("fd00:42::42/128", AddressScope.METADATA),  # Scaleway
    ("::1/128", AddressScope.LOOPBACK),
    ("fc00::/7", AddressScope.PRIVATE),
    ("fe80::/10", AddressScope.LINK_LOCAL),
    ("2001::/23", AddressScope.SPECIAL),  # protocol assignments; Teredo carries an IPv4 address
    ("2001:db8::/32", AddressScope.SPECIAL),  # documentation
    ("2002::/16", AddressScope.SPECIAL),  # 6to4 carries an IPv4 address
    ("3fff::/20", AddressScope.SPECIAL),  # documentation
    ("2000::/3", AddressScope.PUBLIC),
    ("::/128", AddressScope.NOWHERE),  # unspecified
    ("ff00::/8", AddressScope.NOWHERE),  # multicast
    ("::/0", AddressScope.SPECIAL),  # IPv4-mapped, translated (64:ff9b::/96), site-local, unassigned
)

_PREFIX: Final = re.compile(r"[0-9]{1,3}", re.ASCII)


def read_address(text: str) -> Address:
    """Return ``text`` as an address, without its zone (``%eth0``). Raises ValidationError (``URL``)."""
    if is_ipv4(text):
        a, b, c, d = text.split(".")
        return Address(4, (int(a) << 24) | (int(b) << 16) | (int(c) << 8) | int(d))
    import ipaddress  # noqa: PLC0415 - costs milliseconds, which only IPv6 needs to pay

    try:
        return Address(6, int(ipaddress.IPv6Address(text)))
    except ValueError:
        raise ValidationError("URL", f"not an IP address: {text[:80]!r}") from None


def read_network(text: str) -> Network:
    """Return ``10.0.0.0/8``, or a single address, as a range. Raises ValidationError (``URL``), also for host bits."""
    base, slash, prefix = text.partition("/")
    version, first = read_address(base)
    width = 32 if version == 4 else 128  # noqa: PLR2004 - the IP version, and the bits of its addresses
    if slash and not (_PREFIX.fullmatch(prefix) and int(prefix) <= width):
        raise ValidationError("URL", f"not a network: {text[:80]!r}")
    hosts = (1 << (width - int(prefix) if slash else 0)) - 1
    if first & hosts:
        raise ValidationError("URL", f"a network with bits set behind its prefix: {text[:80]!r}")
    return Network(version, first, first | hosts)


def classify(address: Address) -> AddressScope:
    """Return the kind of ``address``."""
    return next(reach for network, reach in _table(address.version) if network.covers(address))


@functools.cache
def _table(version: int) -> tuple[tuple[Network, AddressScope], ...]:
    rows = _RANGES_V4 if version == 4 else _RANGES_V6  # noqa: PLR2004 - the IP version
    return tuple((read_network(text), reach) for text, reach in rows)


#: The codes of what the policy refuses.
REFUSED_ADDRESS: Final = frozenset({"ADDRESS_REFUSED", "PORT_REFUSED", "PLAIN_HTTP_REFUSED"})

_HOST_AND_PORT: Final = re.compile(r"(?:\[[^]]+\]|[^\[\]:/*]+):[0-9]+", re.ASCII)
_LOCALHOST: Final = re.compile(r"(?:.*\.)?localhost", re.ASCII)
_LOCAL_NAME: Final = re.compile(
    r"[^.:]+|.*\.(?:localhost|local|localdomain|internal|intranet|private|corp|home|lan|test|home\.arpa)", re.ASCII
)

_TYPED_ADDRESS: Final = frozenset({AddressScope.LOOPBACK, AddressScope.PRIVATE, AddressScope.LINK_LOCAL})
_LOCAL_HOST: Final = frozenset({AddressScope.LOOPBACK, AddressScope.PRIVATE})

_ALLOW_FIX: Final = 'put allow = ["{0}"] in your own skillwire.toml, or set SKILLWIRE_ALLOW={0}.'
_PORT_FIX: Final = (
    "If you trust it, name {0} yourself, or add {0} to allow in your own skillwire.toml, or to SKILLWIRE_ALLOW."
)
_NAMING_FIX: Final = f"Naming it is not enough: if you trust it, {_ALLOW_FIX}"
_FIXES: Final = {
    AddressScope.METADATA: _NAMING_FIX,
    AddressScope.SPECIAL: _NAMING_FIX,
    AddressScope.NOWHERE: "Nothing opens it. For this machine write 127.0.0.1 or localhost.",
}


def is_localhost(host: str) -> bool:
    """Whether ``host`` means this machine, without a DNS lookup. Spec: RFC 6761 §6.3."""
    return _LOCALHOST.fullmatch(host) is not None


def is_local_name(host: str) -> bool:
    """Whether ``host`` is a name of a local network, such as ``nas.local``. Spec: RFC 6761, 6762, 8375."""
    return _LOCAL_NAME.fullmatch(host) is not None


def is_local_host(host: str) -> bool:
    """Whether ``host`` is a local name or address, where http is usual."""
    return classify(read_address(host)) in _TYPED_ADDRESS if _is_address(host) else is_local_name(host)


def scheme_of(text: str) -> str:
    """Return the scheme of an address that is typed without one: http for this machine and the LAN, else https."""
    host = parse_url(f"https://{text}").host
    return "http" if is_localhost(host) or (_is_address(host) and is_local_host(host)) else "https"


class AddressPolicy:
    """Where connections may lead. Raises UsageError (``ALLOW_ENTRY``) for an invalid entry of ``allow``.

    Args:
        named: origins that the user typed or configured.
        allow: the setting ``allow``: networks, addresses, hosts, ``*.host``, or origins with their port, also without
            their scheme, as users type them.
    """

    def __init__(self, named: frozenset[Origin] = frozenset(), allow: tuple[str, ...] = ()) -> None:
        self.named = named
        self.allow = allow
        self._networks: list[Network] = []
        self._hosts: set[str] = set()
        self._endings: tuple[str, ...] = ()  # of ``*.example.com``: ``.example.com``
        self._origins: set[Origin] = set()
        for entry in allow:
            try:
                if "://" in entry:
                    self._origins.add(_read_origin(entry))
                elif _HOST_AND_PORT.fullmatch(entry):
                    self._origins.add(_read_origin(f"{scheme_of(entry)}://{entry}"))
                elif "/" in entry or _is_address(entry):
                    self._networks.append(read_network(entry))
                elif entry.startswith("*."):
                    self._endings += ("." + parse_url(f"https://{entry[2:]}").host,)
                else:
                    self._hosts.add(parse_url(f"https://{entry}").host)
            except ValidationError as error:
                raise UsageError("ALLOW_ENTRY", f"allow has the entry {entry[:80]!r}: {error.message}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressPolicy) and (self.named, self.allow) == (other.named, other.allow)

    def __hash__(self) -> int:
        return hash((self.named, self.allow))

    def naming(self, url: Url) -> AddressPolicy:
        """Return this policy with the origin of ``url`` named. Only for origins that the user typed or configured."""
        return self if url.origin in self.named else AddressPolicy(self.named | {url.origin}, self.allow)

    def check_url(self, url: Url) -> None:
        """Check what is known before a name is resolved.

        Raises TrustError (``ADDRESS_REFUSED``, ``PLAIN_HTTP_REFUSED``, ``PORT_REFUSED``).
        """
        if _is_address(url.host):
            self.check_address(url, url.host)
        elif is_local_name(url.host):
            if not self._is_vouched(url):
                raise self._other_port(url) or _refusal(url, f"{url.host} is a local name")
        elif url.scheme == "http" and not self._is_listed(url):
            raise _plain_http(url)
        if url.port != DEFAULT_PORTS[url.scheme] and url.origin not in self.named | self._origins:
            raise _unnamed_port(url)

    def check_address(self, url: Url, address: str) -> None:
        """Check the address that the host of ``url`` is about to be connected as.

        Raises TrustError (``ADDRESS_REFUSED``, or ``PLAIN_HTTP_REFUSED`` for http to a public address).
        """
        number = read_address(address)
        reach = classify(number)
        if reach is AddressScope.PUBLIC:
            if url.scheme == "http":
                raise _plain_http(url)
        elif reach is AddressScope.NOWHERE or not (
            any(network.covers(number) for network in self._networks) or reach in self._opened(url, number)
        ):
            lead = "" if address == url.host else f"{url.host} leads to "
            fix = _FIXES[reach].format(address) if reach in _FIXES else None
            if fix is None and (error := self._other_port(url)) is not None:
                raise error
            if fix is None and self._is_vouched(url) and not _is_address(url.host):
                fix = f"If that is right, {_ALLOW_FIX.format(url.host)}"
            raise _refusal(url, f"{lead}{address}, {reach.value}", fix=fix, address=address)

    def check_proxy(self, proxy: Url, address: str) -> None:
        """Check the address of a proxy, which the environment names as ``allow`` would; its tunnels may cross http.

        Raises TrustError (``ADDRESS_REFUSED``).
        """
        if classify(read_address(address)) is not AddressScope.PUBLIC:
            AddressPolicy(self.named, (*self.allow, proxy.origin)).check_address(proxy, address)

    def _is_listed(self, url: Url) -> bool:
        return url.host in self._hosts or url.host.endswith(self._endings) or url.origin in self._origins

    def _is_vouched(self, url: Url) -> bool:
        is_https = (url.scheme, url.port) == ("https", 443)
        is_secured = is_https and url._replace(scheme="http", port=80).origin in self.named
        return url.origin in self.named or is_secured or self._is_listed(url)

    def _other_port(self, url: Url) -> TrustError | None:
        """Return the refusal of a local host when only another of its origins was named."""
        is_other = not self._is_vouched(url) and any(
            parse_url(origin).host == url.host for origin in self.named | self._origins
        )
        return _unnamed_port(url) if is_other and is_local_host(url.host) else None

    def _opened(self, url: Url, address: Address) -> frozenset[AddressScope]:
        """Return the kinds of addresses that the user opened for the origin of ``url``."""
        host = url.host
        if not self._is_vouched(url):
            return frozenset()
        if _is_address(host):
            return _TYPED_ADDRESS if read_address(host) == address else frozenset()
        if is_localhost(host):
            return frozenset({AddressScope.LOOPBACK})
        return _LOCAL_HOST if is_local_name(host) or self._is_listed(url) else frozenset()


def _read_origin(entry: str) -> Origin:
    url = parse_url(entry)
    if url.target != "/":
        message = f"allow has the entry {entry[:80]!r}: an origin has no path"
        raise UsageError("ALLOW_ENTRY", message, fix="Remove the path: an origin opens whole.")
    return url.origin


def _is_address(host: str) -> bool:
    return ":" in host or is_ipv4(host)


def _refusal(
    url: Url, what: str, code: str = "ADDRESS_REFUSED", *, fix: str | None = None, **details: object
) -> TrustError:
    has_other_port = code == "ADDRESS_REFUSED" and url.port != DEFAULT_PORTS[url.scheme]
    if fix is None and (has_other_port or code == "PORT_REFUSED"):
        fix = _PORT_FIX.format(url.origin)  # the host alone would leave the port refused
    return TrustError(code, what, place=SourceLocation(str(url)), fix=fix, details={"host": url.host, **details})


def _unnamed_port(url: Url) -> TrustError:
    what = f"port {url.port} of {url.host} was not named by you"
    return _refusal(url, what, "PORT_REFUSED", port=url.port)


def _plain_http(url: Url) -> TrustError:
    what = f"{url.host} is not a local host that you named, so http is not used with it"
    return _refusal(url, what, "PLAIN_HTTP_REFUSED")
