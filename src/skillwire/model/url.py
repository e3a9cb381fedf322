"""URLs, read strictly: one text means one host, to this and to every other reader.

Most attacks through URLs use two readers that disagree: one sees ``example.com``, the other connects to ``127.0.0.1``.
So every ambiguous form is refused and never repaired: user names, backslashes, control characters, spaces, characters
outside of RFC 3986, hosts that change under Unicode normalisation, and unusual spellings of IPv4 addresses (``127.1``,
``0x7f.1`` and ``2130706433`` are all loopback to a resolver). The result has one written form: scheme and host in lower
case, the host in ASCII, the port a number, dot segments removed, no fragment.

A network interface (``[fe80::1%eth0]``, or ``%25eth0`` as in RFC 6874) may follow link-local addresses only. It is
local information, so no ``Host`` header contains it.

The module is on the command line's install path, so it imports only ``re``: ``urllib.parse`` costs more to import than
a whole request. Spec: RFC 3986 §3 and §5; ASD URL Structure.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NewType, NoReturn

from skillwire import limits
from skillwire.errors import ValidationError

#: Scheme, host and, unless it is the scheme's default, port: ``https://example.com``, ``http://[::1]:8000``.
Origin = NewType("Origin", str)

DEFAULT_PORTS: Final = {"https": 443, "http": 80}

_URL: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.ASCII | re.IGNORECASE)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.ASCII | re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([1-9][0-9]{0,4}))?", re.ASCII)
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4: Final = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
#: Interfaces as systems name them. One that begins with ``25`` reads as another after ``%25``, so it is refused.
_ZONE: Final = re.compile(r"(?!25)[A-Za-z0-9._-]{1,32}", re.ASCII)
_LINK_LOCAL: Final = re.compile(r"fe[89ab][0-9a-f]:", re.ASCII)
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
_PATH: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_QUERY: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*", re.ASCII)

_HOST_LENGTH: Final = 253  # what DNS can carry in text
_PORT_MAX: Final = 65_535


class Url(NamedTuple):
    """An absolute ``http`` or ``https`` URL in its one written form."""

    scheme: str
    host: str  # ASCII, lower case; an IPv6 address without brackets, with "%" and its interface if one was given
    port: int  # the scheme's default included
    path: str = "/"  # percent-encoding is unchanged
    query: str | None = None

    @property
    def origin(self) -> Origin:
        """Scheme, host and port, the port only when it is not the scheme's default."""
        return Origin(f"{self.scheme}://{self.authority}")

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Host and port for a ``Host`` header, without the interface. Spec: RFC 6874 §4."""
        return self._replace(host=self.name).authority

    @property
    def name(self) -> str:
        """The host without the interface of this machine."""
        return self.host.partition("%")[0]

    @property
    def target(self) -> str:
        """Path and query, as in a request line."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """Return ``text`` as a URL. Raises ValidationError (``URL``) unless it is absolute, http or https, and unambiguous.

    Trust: ``text`` is hostile. A valid URL may lead anywhere: see :mod:`skillwire.trust.address`.
    """
    _check_text(text)
    match = _URL.fullmatch(text)
    if match is None:
        _refuse(text, "is not an absolute http or https URL", "Write it like https://example.com/path.")
    scheme, authority, path, query = match.groups()
    host, port = _read_authority(text, authority)
    return Url(scheme.lower(), host, port or DEFAULT_PORTS[scheme.lower()], *_read_target(text, path, query))


def resolve_url(base: Url, reference: str) -> Url:
    """Return the URL of ``reference``, of any form of RFC 3986 §5.2, in a document found at ``base``.

    Raises as :func:`parse_url`. Trust: ``reference`` is hostile; the result may have another origin.
    """
    if _SCHEME.match(reference):
        return parse_url(reached_from(base, reference))
    if reference.startswith("//"):
        return parse_url(reached_from(base, f"{base.scheme}:{reference}"))
    _check_text(reference)
    path, mark, rest = reference.partition("#")[0].partition("?")
    query = rest if mark else None
    if not path:
        path, query = base.path, base.query if query is None else query
    elif not path.startswith("/"):
        path = base.path[: base.path.rindex("/") + 1] + path
    url = Url(base.scheme, base.host, base.port, *_read_target(reference, path, query))
    _check_length(str(url))
    return url


def reached_from(base: Url, text: str) -> str:
    """Return an absolute URL in a document of ``base``, with the interface through which the same host is reached.

    A host cannot know our interface, so its documents contain its address only.
    """
    scheme, mark, rest = text.partition("://")
    bare = f"[{base.name}]"
    if "%" not in base.host or not rest.startswith(bare):
        return text
    return f"{scheme}{mark}[{base.host}]{rest.removeprefix(bare)}"


def is_ipv4(text: str) -> bool:
    """Whether ``text`` is an IPv4 address in its usual form: four decimal numbers without leading zeros."""
    return _IPV4.fullmatch(text) is not None


def without_zone(host: str) -> str:
    """Return a host without the interface of this machine."""
    return host.partition("%")[0]


def _check_length(text: str) -> None:
    if len(text) > limits.URL_LENGTH:
        raise ValidationError("URL", f"a URL of {len(text)} characters is longer than {int(limits.URL_LENGTH)}")


def _check_text(text: str) -> None:
    _check_length(text)
    if _FORBIDDEN.search(text):
        _refuse(text, "holds a control character, a space or a backslash", "Percent-encode it.")


def _read_authority(text: str, authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise ValidationError(  # the text is not shown: it may contain a password
            "URL",
            "the URL carries a user name or a password",
            fix="Remove the part before the @; give credentials with --token or in ~/.netrc.",
        )
    match = _AUTHORITY.fullmatch(authority)
    if match is None or int(match[2] or 0) > _PORT_MAX:
        _refuse(text, "has no host, or a port that is not a number from 1 to 65535")
    host, port = match.groups()
    return (_read_ipv6(text, host[1:-1]) if host.startswith("[") else _read_host(text, host)), int(port or 0) or None


def _read_host(text: str, host: str) -> str:
    if len(host) > _HOST_LENGTH:
        _refuse(text, f"has a host of more than {_HOST_LENGTH} characters")
    host = host.lower() if host.isascii() else _to_ascii(text, host)
    if len(host) > _HOST_LENGTH or not _HOST.fullmatch(host):
        _refuse(text, "has a host that is neither a DNS name nor an address", "Write the host as DNS knows it.")
    if _NUMERIC.fullmatch(host) and not is_ipv4(host):
        _refuse(text, "writes an IPv4 address in an unusual form", "Write four decimal numbers, like 192.0.2.1.")
    return host


def _to_ascii(text: str, host: str) -> str:
    """Return an international host in ASCII, or refuse it when conversion changes its letters.

    Converting the result back must give the input: this refuses full-width and circled letters and digits, ideographic
    full stops, invisible characters, and characters that two versions of IDNA read differently.
    """
    import unicodedata  # noqa: PLC0415 - needed by international hosts only

    written = unicodedata.normalize("NFC", host.lower())
    try:
        encoded = written.encode("idna")
        unchanged = encoded.decode("idna") == written
    except UnicodeError:
        _refuse(text, "has a host that is not an international domain name")
    if not unchanged:
        _refuse(text, "has a host with characters that stand for others", "Write the host as DNS knows it (xn--…).")
    return encoded.decode("ascii")


def _read_ipv6(text: str, address: str) -> str:
    import ipaddress  # noqa: PLC0415 - needed by IPv6 literals only

    bare, mark, zone = address.partition("%")
    try:
        host = ipaddress.IPv6Address(bare).compressed
    except ValueError:
        _refuse(text, "has something else than an IPv6 address in its brackets")
    if not mark:
        return host
    if not _LINK_LOCAL.match(host):
        _refuse(text, "names a network interface in an IPv6 address that is not link-local", "Leave out the % part.")
    zone = zone.removeprefix("25")
    if not _ZONE.fullmatch(zone):
        _refuse(text, "names no network interface behind the %", "Write it like [fe80::1%eth0].")
    return f"{host}%{zone}"


def _read_target(text: str, path: str, query: str | None) -> tuple[str, str | None]:
    if not _PATH.fullmatch(path) or (query is not None and not _QUERY.fullmatch(query)):
        _refuse(text, "holds a character that a URL cannot", "Percent-encode it.")
    return _remove_dot_segments(path) or "/", query


def _remove_dot_segments(path: str) -> str:
    """Spec: RFC 3986 §5.2.4, for a path that is empty or begins with ``/``."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


def _refuse(text: str, why: str, fix: str | None = None) -> NoReturn:
    raise ValidationError("URL", f"{text[:80]!r} {why}", fix=fix)


def check_base_url(base_url: str | None) -> str:
    """Return ``base_url`` in its one form without a final slash, or an empty text. Raises ValidationError (``URL``)."""
    if not base_url:
        return ""
    url = parse_url(base_url)
    if url.query is not None:
        raise ValidationError("URL", "a base URL has no query", fix="Write it like https://example.com/skills.")
    return str(url).rstrip("/")
