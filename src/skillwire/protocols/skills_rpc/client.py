"""The client's requests to a Skills Protocol endpoint: any call, and blobs that are too large for one.

:mod:`~skillwire.protocols.skills_rpc.codec` reads the results. A credential is sent to the endpoint's origin only, and
a redirect elsewhere is refused (:mod:`skillwire.wire.fetch`). Large blobs go to ``/blobs`` beside the endpoint
**[ours]**; a server without it answers as for any unknown path, and the error explains it. Spec: SKP; JSON-RPC 2.0;
specs §4. Trust: every response is hostile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SkillwireError, SourceLocation
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.skills_rpc.codec import decode_answer, decode_created, encode_request
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import expect_json, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.protocols.skills_rpc.messages import CreatedBlob, Params
    from skillwire.wire.exchange import Flow, HttpResponse


_REQUEST_ID: Final = 1
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_ABSENT: Final = frozenset({404, 405, 410, 501})


def call(
    endpoint: str,
    method: str,
    params: Params | Mapping[str, Any],
    *,
    authorization: str | None = None,
    timeout: float = limits.HTTP_REQUEST_SECONDS,
    max_bytes: int = limits.RPC_ANSWER_BYTES,
) -> Flow[Any]:
    """Call ``method`` at ``endpoint``; return its result, a JSON value.

    Args:
        endpoint: the URL, such as ``https://example.com/rpc``.
        method: its name.
        params: by name.
        authorization: value of the ``Authorization`` header; sent to this origin only.
        timeout: seconds for the response, which for an execution comes at its end.
        max_bytes: size limit of the response.

    Raises:
        FetchError, TrustError: from the driver; ``HTTP_STATUS``, ``CONTENT_TYPE``; ``AUTH_REQUIRED``,
            ``PERMISSION_DENIED``.
        SkillwireError: the endpoint's error.
        DecodeError, ValidationError: ``RPC_ANSWER`` and others for an invalid response.
    """
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if authorization is not None:
        headers["Authorization"] = authorization
    body = encode_request(method, params, _REQUEST_ID)
    request = HttpRequest(endpoint, "POST", headers, body, max_bytes=max_bytes, timeout=timeout)
    response = yield from fetch(request)
    return _result(response, max_bytes)


def _result(response: HttpResponse, max_bytes: int) -> Any:
    if response.status == _OK:
        expect_json(response)
        return decode_answer(response.body, _REQUEST_ID, source=response.url, max_bytes=max_bytes)
    try:  # some servers tell an error of JSON-RPC with a status of its own
        decode_answer(response.body, _REQUEST_ID, source=response.url, max_bytes=max_bytes)
    except SkillwireError as error:
        if "rpc_code" in error.details:
            raise
    place = SourceLocation(response.url)
    if response.status == _UNAUTHORIZED:
        reason = server_message(response.body) or "the endpoint wants to know who asks"
        raise FetchError("AUTH_REQUIRED", reason, place=place)
    if response.status == _FORBIDDEN:
        reason = server_message(response.body) or "the endpoint refuses this credential"
        raise FetchError("PERMISSION_DENIED", reason, place=place)
    fix = "Check the address; the endpoint of a server is usually /rpc." if response.status in _ABSENT else None
    raise FetchError("HTTP_STATUS", f"the endpoint answered {response.status}", place=place, fix=fix)


#: The largest blob that is sent in a request of JSON-RPC: its base64 and escapes fit there. **[ours]**
INLINE_BYTES: Final = limits.RPC_REQUEST_BYTES // 2
_ANSWER_BYTES: Final = 64 * limits.KIB
_SUCCESS: Final = frozenset({200, 201})
_DENIED: Final = {401: "AUTH_REQUIRED", 403: "PERMISSION_DENIED"}
_TOO_LARGE: Final = 413


def send_blob(endpoint: str, content: bytes, kind: str, *, authorization: str | None = None) -> Flow[CreatedBlob]:
    """Create a blob of ``content`` with the media type ``kind``.

    Raises:
        FetchError, TrustError: from the driver; ``AUTH_REQUIRED``, ``PERMISSION_DENIED``, ``HTTP_STATUS``.
        DecodeError: ``LIMIT_SIZE`` when it is too large, or the server has no ``/blobs``.
        ValidationError: ``RPC_ANSWER``.
    """
    url = str(resolve_url(parse_url(endpoint), "blobs"))
    headers = {"Accept": "application/json", "Content-Type": kind, **_credential(authorization)}
    request = HttpRequest(
        url, "POST", headers, content, max_bytes=_ANSWER_BYTES, timeout=float(limits.CALL_ANSWER_SECONDS)
    )
    response = yield from fetch(request)
    if response.status not in _SUCCESS:
        raise _refused(response, f"a blob of {len(content):,} bytes is too large for the endpoint")
    expect_json(response)
    return decode_created(load_json(response.body, max_bytes=_ANSWER_BYTES, source=url), url)


def fetch_blob(endpoint: str, blob_id: str, *, authorization: str | None = None) -> Flow[bytes]:
    """Return the bytes of a blob; raises as :func:`send_blob`."""
    url = str(resolve_url(parse_url(endpoint), f"blobs/{quote(blob_id, safe='')}"))
    headers = {"Accept": "*/*", **_credential(authorization)}
    request = HttpRequest(
        url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES, timeout=float(limits.CALL_ANSWER_SECONDS)
    )
    response = yield from fetch(request)
    if response.status not in _SUCCESS:
        raise _refused(response, "the blob is larger than an answer of the endpoint")
    return response.body


def _credential(authorization: str | None) -> dict[str, str]:
    return {} if authorization is None else {"Authorization": authorization}


def _refused(response: HttpResponse, why: str) -> FetchError | DecodeError:
    place = SourceLocation(response.url)
    if response.status in _DENIED:
        reason = server_message(response.body) or f"the endpoint answered {response.status}"
        return FetchError(_DENIED[response.status], reason, place=place)
    if response.status in {404, 405, 410, 501, _TOO_LARGE}:
        fix = "Take a smaller one; or ask the endpoint's owner how large ones are passed on."
        return DecodeError("LIMIT_SIZE", f"{why}, which answered {response.status}", place=place, fix=fix)
    return FetchError("HTTP_STATUS", f"the endpoint answered {response.status}", place=place)
