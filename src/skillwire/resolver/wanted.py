"""What an origin wants of those who log in, as far as it says so.

It says so in the descriptors of Skill Sharing (``auth``), in the details of a 401, and in the metadata of a protected
resource. What is private hides its descriptors, so the refusal itself is read first, and descriptors of skills that
are not public before others. An origin that says nothing usually takes a token as a bearer; the user knows.

Spec: SSP §3.5.5, §7.2, §7.4; RFC 9728 §3, §5. Trust: all of it is a stranger's word. It decides what the user is asked
and shown, and never where a secret goes without the user's consent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError
from skillwire.model.access import Access
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.oauth.client import fetch_resource
from skillwire.protocols.oauth.codec import resource_metadata_url
from skillwire.protocols.skill_sharing.codec import decode_descriptor, decode_index
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.protocols.skill_sharing.messages import SkillIndexEntry
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Exchange, HttpResponse

WantedKind = Literal["api_key", "oauth2", "custom", "none", "unknown"]

_OK: Final = 200
_REFUSED: Final = frozenset({401, 403})
_PLACES: Final = ("/.well-known/skill-sharing", "/.well-known/agent-skills/index.json")
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_JSON: Final = {"Accept": "application/json"}
_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an origin wants.

    Args:
        kind: ``none`` when it says that nothing is needed, ``unknown`` when it says nothing.
        said_by: the URL that said so; empty for ``unknown``.
        header: the field of an API key.
        advice: for people, one line, without hidden characters.
        authorization_url, token_url: of ``oauth2``, when a descriptor says them.
        issuer: of ``oauth2``, when a resource's metadata says it.
        scopes: that exist there.
        refused_at: a URL of the origin itself that wanted a credential, to try the new one at.
        doubts: what could not be read on the way.
    """

    kind: WantedKind
    said_by: str = ""
    header: str = "Authorization"
    advice: str = ""
    authorization_url: str | None = None
    token_url: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    refused_at: str | None = None
    doubts: tuple[SkillwireError, ...] = ()


class _Search:
    """One search, and what it saw."""

    def __init__(self, origin: str, addresses: AddressPolicy) -> None:
        self.origin = origin
        self.addresses = addresses
        self.refused_at: str | None = None
        self.doubts: list[SkillwireError] = []

    def found(self, kind: WantedKind, **fields: Any) -> Wanted:
        return Wanted(kind, refused_at=self.refused_at, doubts=tuple(self.doubts), **fields)


def find_wanted(origin: str, addresses: AddressPolicy) -> Exchange[Wanted]:
    """Find out what ``origin`` wants.

    Args:
        origin: ``https://example.com``, which the user has typed.
        addresses: where it may send us for that.

    Raises:
        FetchError, TrustError: the origin itself cannot be asked. What it says wrongly is in ``doubts``.
    """
    search = _Search(origin, addresses)
    nothing_needed: str | None = None
    for place in _PLACES:
        url = f"{origin}{place}"
        response = yield from fetch(HttpRequest(url, headers=_JSON))
        if response.status in _REFUSED:
            wanted = yield from _read_refusal(response, search)
        elif response.status == _OK and place == _PLACES[0]:
            wanted = yield from _read_index(response, search)
        else:
            continue
        if wanted is not None and wanted.kind != "none":
            return wanted
        nothing_needed = nothing_needed or (wanted.said_by if wanted else None)
    resource = yield from _read_resource(f"{origin}{_RESOURCE}", search)
    if resource is not None:
        return resource
    return search.found("none", said_by=nothing_needed) if nothing_needed else search.found("unknown")


def _read_index(response: HttpResponse, search: _Search) -> Exchange[Wanted | None]:
    try:
        index = decode_index(response.body, response.url, addresses=search.addresses)
    except SkillwireError as error:
        search.doubts.append(error)
        return None
    entries = sorted(index.entries.values(), key=lambda entry: entry.access is Access.PUBLIC)
    open_one: Wanted | None = None
    for entry in entries[: limits.LOGIN_DESCRIPTORS]:
        wanted = yield from _read_entry(entry, search)
        if wanted is not None and wanted.kind != "none":
            return wanted
        open_one = open_one or wanted
    return open_one


def _read_entry(entry: SkillIndexEntry, search: _Search) -> Exchange[Wanted | None]:
    try:
        request = HttpRequest(entry.descriptor_url, headers=_JSON, max_bytes=limits.DESCRIPTOR_BYTES)
        response = yield from fetch(request)
        if response.status in _REFUSED:
            return (yield from _read_refusal(response, search))
        if response.status != _OK:
            return None
        descriptor = decode_descriptor(response.body, response.url, addresses=search.addresses, expected_id=entry.id)
    except SkillwireError as error:
        search.doubts.append(error)
        return None
    return _from_auth(descriptor.auth, response.url, search)


def _read_refusal(response: HttpResponse, search: _Search) -> Exchange[Wanted | None]:
    """Read what a 401 or 403 says: whose metadata to read, or the ``auth`` of a descriptor in its details."""
    if parse_url(response.url).origin == search.origin:  # a key is tried where it belongs, wherever we were sent
        search.refused_at = search.refused_at or response.url
    named = resource_metadata_url(response)
    if named is not None:
        try:
            url = str(resolve_url(parse_url(response.url), named))
        except SkillwireError as error:
            search.doubts.append(error)
        else:
            if (wanted := (yield from _read_resource(url, search))) is not None:
                return wanted
    auth = _auth_of(response)
    return _from_auth(auth, response.url, search) if auth is not None else None


def _read_resource(url: str, search: _Search) -> Exchange[Wanted | None]:
    """Read the metadata of the resource, which has to lie on the origin itself."""
    if parse_url(url).origin != search.origin:
        return None
    try:
        resource = yield from fetch_resource(url)
    except SkillwireError as error:
        search.doubts.append(error)
        return None
    if resource is None or not resource.issuers:
        return None
    return search.found("oauth2", said_by=url, issuer=resource.issuers[0], scopes=resource.scopes)


def _auth_of(response: HttpResponse) -> AuthConfig | None:
    try:
        document: Any = load_json(response.body, max_bytes=limits.DESCRIPTOR_BYTES, source=response.url)
        details = document["error"]["details"]
        return msgspec.convert(details.get("auth", details), AuthConfig)
    except (DecodeError, LookupError, TypeError, AttributeError, msgspec.ValidationError):
        return None  # a page, or an error of another form: it says nothing about a login


def _from_auth(auth: AuthConfig, url: str, search: _Search) -> Wanted:
    advice = auth.custom.instructions if auth.custom else auth.description or ""
    fields: dict[str, Any] = {"said_by": url, "advice": neutralise(advice[:_SHOWN])}
    if auth.type is AuthType.API_KEY:
        return search.found("api_key", header=auth.header or "Authorization", **fields)
    if auth.type is AuthType.OAUTH2 and auth.oauth2 is not UNSET:
        scopes = tuple(auth.oauth2.scopes)
        urls = {"authorization_url": auth.oauth2.authorization_url, "token_url": auth.oauth2.token_url}
        return search.found("oauth2", scopes=scopes, **urls, **fields)
    return search.found("custom" if auth.type is AuthType.CUSTOM else "none", **fields)


def issuers_near(wanted: Wanted) -> Sequence[str]:
    """Return the issuers whose metadata may tell more of the server of ``wanted``: the one it names, or its origin."""
    if wanted.issuer is not None:
        return (wanted.issuer,)
    return (str(parse_url(wanted.token_url).origin),) if wanted.token_url else ()
