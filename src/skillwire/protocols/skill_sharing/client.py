"""The client's requests: an index, a registry, a document; each is a flow.

They return unread bytes for :mod:`~skillwire.protocols.skill_sharing.codec`. The module is on the install path, so it
imports nothing heavy. The caller chooses the credential; it is sent to the URL's origin only.
Spec: SSP §4.2; SSB §5.2 to §5.4. Trust: every response is hostile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import FetchError, SourceLocation
from skillwire.protocols.skill_sharing.paths import REGISTRY, WELL_KNOWN
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import conditional_headers, expect_json, fetch

if TYPE_CHECKING:
    from skillwire.model.install import CachedResponse
    from skillwire.wire.exchange import Flow, HttpResponse

_ABSENT: Final = frozenset({404, 410})
_DENIED: Final = frozenset({401, 403})
_OK: Final = 200
_NOT_MODIFIED: Final = 304


def index_url(base: str, capability_type: str | None = None) -> str:
    """Return the URL of the index of ``base``, an origin. Spec: SSP §4.3.1; SSB §5.6."""
    return f"{base}{WELL_KNOWN}{_query(capability_type)}"


def registry_url(base: str, capability_type: str | None = None) -> str:
    """Return the URL at which the registry ``base`` is asked. Spec: SSP §4.2."""
    return f"{base}{REGISTRY}{_query(capability_type)}"


def fetch_index(
    base: str,
    capability_type: str | None = None,
    *,
    cached: CachedResponse | None = None,
    authorization: str | None = None,
) -> Flow[HttpResponse | None]:
    """Ask for the index of ``base``, of one capability type or of all; otherwise as :func:`fetch_document`."""
    url = index_url(base, capability_type)
    return fetch_document(url, cached=cached, authorization=authorization)


def query_registry(
    base: str,
    capability_type: str | None = None,
    *,
    cached: CachedResponse | None = None,
    authorization: str | None = None,
) -> Flow[HttpResponse | None]:
    """Ask the registry ``base`` for its skills, of one capability type or of all; as :func:`fetch_document`."""
    url = registry_url(base, capability_type)
    return fetch_document(url, cached=cached, authorization=authorization)


def fetch_descriptor(
    url: str, *, cached: CachedResponse | None = None, authorization: str | None = None
) -> Flow[HttpResponse | None]:
    """Ask for a descriptor; otherwise as :func:`fetch_document`."""
    return fetch_document(url, cached=cached, authorization=authorization, max_bytes=limits.DESCRIPTOR_BYTES)


def fetch_document(
    url: str,
    *,
    cached: CachedResponse | None = None,
    authorization: str | None = None,
    max_bytes: int = limits.INDEX_BYTES,
) -> Flow[HttpResponse | None]:
    """Fetch a Skill Sharing document of any kind; None when it does not exist.

    Args:
        url: of the document.
        cached: an earlier response, whose validators make the request conditional; a 304 confirms it.
        authorization: value of the ``Authorization`` header; sent to this origin only.
        max_bytes: size limit.

    Raises:
        FetchError, TrustError: from the driver; ``HTTP_STATUS``; ``CONTENT_TYPE``; ``AUTH_REQUIRED`` and
            ``PERMISSION_DENIED`` with the provider's message.
    """
    headers = {"Accept": "application/json", **conditional_headers(cached.headers if cached else {})}
    if authorization is not None:
        headers["Authorization"] = authorization
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=max_bytes))
    if response.status in _ABSENT:
        return None
    if response.status == _NOT_MODIFIED:
        return response
    if response.status in _DENIED:
        from skillwire.protocols.skill_sharing.errors import decode_error  # noqa: PLC0415  # heavy, and rarely needed

        raise decode_error(response.body, status=response.status, source=response.url)
    if response.status != _OK:
        raise FetchError("HTTP_STATUS", f"the origin answered {response.status}", place=SourceLocation(response.url))
    expect_json(response)
    return response


def _query(capability_type: str | None) -> str:
    return "" if capability_type is None else f"?type={capability_type}"
