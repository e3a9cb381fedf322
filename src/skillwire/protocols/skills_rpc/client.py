"""The client's requests to a Skills Protocol endpoint: any call, and blobs that are too large for one.

:mod:`~skillwire.protocols.skills_rpc.codec` reads the results. A credential is sent to the endpoint's origin only, and
a redirect elsewhere is refused (:mod:`skillwire.wire.fetch`). Large blobs go to ``/blobs`` beside the endpoint
**[extension]**; a server without it answers as for any unknown path, and the error explains it. Spec: SKP; JSON-RPC
2.0; specs §4. Trust: every response is hostile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SkillwireError, SourceLocation
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.skills_rpc.codec import decode_answer, decode_created, encode_request
from skillwire.protocols.skills_rpc.messages import CreatedBlob, Params
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse
from skillwire.wire.fetch import expect_json, fetch

#: The largest blob that is sent in a request of JSON-RPC: its base64 and escapes fit there. **[extension]**
INLINE_BYTES: Final = limits.RPC_REQUEST_BYTES // 2
_REQUEST_ID: Final = 1
_OK: Final = 200
_CREATED: Final = 201
_TOO_LARGE: Final = 413
_ABSENT: Final = frozenset({404, 405, 410, 501})
#: Status → our code, and what it means without a message of the server.
_DENIED: Final = {
    401: ("AUTH_REQUIRED", "the endpoint requires a credential"),
    403: ("PERMISSION_DENIED", "the endpoint refuses this credential"),
}
_ANSWER_BYTES: Final = 64 * limits.KIB


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

    ``timeout`` is in seconds; an execution is answered at its end. Raises the endpoint's error, FetchError
    (``AUTH_REQUIRED``, ``PERMISSION_DENIED``, ``HTTP_STATUS``, ``CONTENT_TYPE``), DecodeError and ValidationError.
    """
    headers = {"Accept": "application/json", "Content-Type": "application/json", **_credential(authorization)}
    body = encode_request(method, params, _REQUEST_ID)
    request = HttpRequest(endpoint, "POST", headers, body, max_bytes=max_bytes, timeout=timeout)
    response = yield from fetch(request)
    if response.status == _OK:
        expect_json(response)
        return decode_answer(response.body, _REQUEST_ID, source=response.url, max_bytes=max_bytes)
    try:  # some servers send an error of JSON-RPC with a status of its own
        decode_answer(response.body, _REQUEST_ID, source=response.url, max_bytes=max_bytes)
    except SkillwireError as error:
        if "rpc_code" in error.details:
            raise
    fix = "Check the address; the endpoint of a server is usually /rpc." if response.status in _ABSENT else None
    raise _refused(response, fix)


def send_blob(endpoint: str, content: bytes, kind: str, *, authorization: str | None = None) -> Flow[CreatedBlob]:
    """Create a blob of ``content`` with the media type ``kind``.

    Raises DecodeError (``LIMIT_SIZE``) when it is too large or the server has no ``/blobs``; otherwise as :func:`call`.
    """
    url = str(resolve_url(parse_url(endpoint), "blobs"))
    headers = {"Accept": "application/json", "Content-Type": kind, **_credential(authorization)}
    timeout = float(limits.CALL_ANSWER_SECONDS)
    response = yield from fetch(HttpRequest(url, "POST", headers, content, max_bytes=_ANSWER_BYTES, timeout=timeout))
    _expect_success(response, f"a blob of {len(content):,} bytes is too large for the endpoint")
    expect_json(response)
    return decode_created(load_json(response.body, max_bytes=_ANSWER_BYTES, source=url), url)


def fetch_blob(endpoint: str, blob_id: str, *, authorization: str | None = None) -> Flow[bytes]:
    """Return the bytes of a blob; raises as :func:`send_blob`."""
    url = str(resolve_url(parse_url(endpoint), f"blobs/{quote(blob_id, safe='')}"))
    headers = {"Accept": "*/*", **_credential(authorization)}
    timeout = float(limits.CALL_ANSWER_SECONDS)
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES, timeout=timeout))
    _expect_success(response, "the blob is larger than an answer of the endpoint")
    return response.body


def _credential(authorization: str | None) -> dict[str, str]:
    return {} if authorization is None else {"Authorization": authorization}


def _expect_success(response: HttpResponse, too_large: str) -> None:
    if response.status in _ABSENT | {_TOO_LARGE}:
        message, place = f"{too_large}, which answered {response.status}", SourceLocation(response.url)
        fix = "Use a smaller blob, or ask the endpoint's owner how to pass on large ones."
        raise DecodeError("LIMIT_SIZE", message, place=place, fix=fix)
    if response.status not in {_OK, _CREATED}:
        raise _refused(response)


def _refused(response: HttpResponse, fix: str | None = None) -> FetchError:
    place = SourceLocation(response.url)
    if response.status in _DENIED:
        code, message = _DENIED[response.status]
        return FetchError(code, server_message(response.body) or message, place=place)
    return FetchError("HTTP_STATUS", f"the endpoint answered {response.status}", place=place, fix=fix)
