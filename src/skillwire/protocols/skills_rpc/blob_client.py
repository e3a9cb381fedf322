"""Blobs that are too large for a request or an answer, as they are: ``/blobs`` beside the endpoint **[ours]**.

A server that does not have it answers as to any address that it does not know, and that is told. Spec: specs §4, what
docs/reference/protocols/skills-rpc.md says of ``/blobs``. Trust: every answer is hostile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, Place
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.skills_rpc.results import decode_created
from skillwire.trust.guarded_json import load_json
from skillwire.trust.told_reason import told_reason
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import expect_json, fetch

if TYPE_CHECKING:
    from skillwire.protocols.skills_rpc.messages import CreatedBlob
    from skillwire.wire.exchange import Exchange, HttpResponse

#: The largest blob that is sent in a request of JSON-RPC: its base64 and escapes fit there. **[ours]**
INLINE_BYTES: Final = limits.RPC_REQUEST_BYTES // 2
_ANSWER_BYTES: Final = 64 * limits.KIB
_OK: Final = frozenset({200, 201})
_DENIED: Final = {401: "AUTH_REQUIRED", 403: "PERMISSION_DENIED"}
_TOO_LARGE: Final = 413


def send_blob(endpoint: str, content: bytes, kind: str, *, authorization: str | None = None) -> Exchange[CreatedBlob]:
    """Make a blob of ``content``, of the media type ``kind``.

    Raises:
        FetchError, TrustError: from the driver; ``AUTH_REQUIRED``, ``PERMISSION_DENIED``, ``HTTP_STATUS``.
        DecodeError: ``LIMIT_SIZE`` when that is too large there, or there is no such place.
        ValidationError: ``RPC_ANSWER``.
    """
    url = str(resolve_url(parse_url(endpoint), "blobs"))
    headers = {"Accept": "application/json", "Content-Type": kind, **_credential(authorization)}
    request = HttpRequest(
        url, "POST", headers, content, max_bytes=_ANSWER_BYTES, timeout=float(limits.CALL_ANSWER_SECONDS)
    )
    response = yield from fetch(request)
    if response.status not in _OK:
        raise _refused(response, f"a blob of {len(content):,} bytes is too large for the endpoint")
    expect_json(response)
    return decode_created(load_json(response.body, max_bytes=_ANSWER_BYTES, source=url), url)


def fetch_blob(endpoint: str, blob_id: str, *, authorization: str | None = None) -> Exchange[bytes]:
    """Return the bytes of a blob.

    Raises:
        FetchError, TrustError: from the driver; as :func:`send_blob`.
        DecodeError: ``LIMIT_SIZE`` when there is no such place, or the blob is larger than is read.
    """
    url = str(resolve_url(parse_url(endpoint), f"blobs/{quote(blob_id, safe='')}"))
    headers = {"Accept": "*/*", **_credential(authorization)}
    request = HttpRequest(
        url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES, timeout=float(limits.CALL_ANSWER_SECONDS)
    )
    response = yield from fetch(request)
    if response.status not in _OK:
        raise _refused(response, "the blob is larger than an answer of the endpoint")
    return response.body


def _credential(authorization: str | None) -> dict[str, str]:
    return {} if authorization is None else {"Authorization": authorization}


def _refused(response: HttpResponse, why: str) -> FetchError | DecodeError:
    place = Place(response.url)
    if response.status in _DENIED:
        reason = told_reason(response.body) or f"the endpoint answered {response.status}"
        return FetchError(_DENIED[response.status], reason, place=place)
    if response.status in {404, 405, 410, 501, _TOO_LARGE}:
        fix = "Take a smaller one; or ask the endpoint's owner how large ones are passed on."
        return DecodeError("LIMIT_SIZE", f"{why}, which answered {response.status}", place=place, fix=fix)
    return FetchError("HTTP_STATUS", f"the endpoint answered {response.status}", place=place)
