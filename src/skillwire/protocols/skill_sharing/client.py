"""The client's requests: an index, a registry, a document; each is a flow.

They return unread bytes for :mod:`~skillwire.protocols.skill_sharing.codec`. The module is on the install path, so it
imports nothing heavy. The caller chooses the credential; it is sent to the URL's origin only.
Spec: SSP §4.2; SSB §5.2 to §5.4. Trust: every response is hostile.
"""

from __future__ import annotations

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation
from skillwire.model.ref import CachedResponse
from skillwire.protocols.skill_sharing import REGISTRY, WELL_KNOWN
from skillwire.trust.guarded_json import server_message
from skillwire.wire import fetch
from skillwire.wire.exchange import Flow, HttpResponse


def index_url(base: str, capability_type: str | None = None) -> str:
    """Return the URL of the index of ``base``, an origin. Spec: SSP §4.3.1; SSB §5.6."""
    return base + WELL_KNOWN + ("" if capability_type is None else f"?type={capability_type}")


def registry_url(base: str, capability_type: str | None = None) -> str:
    """Return the URL at which the registry ``base`` is searched. Spec: SSP §4.2."""
    return base + REGISTRY + ("" if capability_type is None else f"?type={capability_type}")


def fetch_document(
    url: str,
    *,
    cached: CachedResponse | None = None,
    authorization: str | None = None,
    max_bytes: int = limits.INDEX_BYTES,
) -> Flow[HttpResponse | None]:
    """Fetch an index, a registry's list or a descriptor; None when it does not exist. A 304 confirms ``cached``.

    Raises as :func:`skillwire.wire.fetch.fetch_document`; ``AUTH_REQUIRED`` and ``PERMISSION_DENIED`` have the
    provider's message.
    """
    return fetch.fetch_document(url, cached, authorization, max_bytes, _refused)


def _refused(response: HttpResponse) -> SkillwireError:
    if response.status not in fetch.DENIED:
        reason = server_message(response.body)
        message = f"the origin answered {response.status}" + (f": {reason}" if reason else "")
        return FetchError("HTTP_STATUS", message, place=SourceLocation(response.url))
    from skillwire.protocols.skill_sharing.errors import decode_error  # noqa: PLC0415  # heavy, and rarely needed

    return decode_error(response.body, status=response.status, source=response.url)
