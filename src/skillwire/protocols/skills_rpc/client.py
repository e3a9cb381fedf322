"""What a consumer asks of an endpoint of the Skills Protocol: one call, as an exchange.

:func:`call` makes any call; :mod:`~skillwire.protocols.skills_rpc.results` reads what the methods give. The credential
goes to the origin of the endpoint alone, and a redirect to another origin is refused (:mod:`skillwire.wire.fetch`),
since the request has a body.

Spec: SKP; JSON-RPC 2.0. Trust: every answer is hostile until it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import FetchError, Place, SkillwireError
from skillwire.protocols.skills_rpc.json_rpc import decode_answer, encode_request
from skillwire.trust.told_reason import told_reason
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import expect_json, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.protocols.skills_rpc.messages import Params
    from skillwire.wire.exchange import Exchange, HttpResponse

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
) -> Exchange[Any]:
    """Call ``method`` at ``endpoint``; return its result, a JSON value.

    Args:
        endpoint: the URL, such as ``https://example.com/rpc``.
        method: its name.
        params: its parameters, by name.
        authorization: value of the ``Authorization`` header; sent to this origin only.
        timeout: seconds for the answer. An execution is answered when it has ended.
        max_bytes: how large the answer may be.

    Raises:
        FetchError, TrustError: from the driver; ``HTTP_STATUS``, ``CONTENT_TYPE``; ``AUTH_REQUIRED`` and
            ``PERMISSION_DENIED``.
        SkillwireError: the error that the endpoint tells.
        DecodeError, ValidationError: ``RPC_ANSWER`` and others for an answer that is none.
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
    place = Place(response.url)
    if response.status == _UNAUTHORIZED:
        reason = told_reason(response.body) or "the endpoint wants to know who asks"
        raise FetchError("AUTH_REQUIRED", reason, place=place)
    if response.status == _FORBIDDEN:
        reason = told_reason(response.body) or "the endpoint refuses this credential"
        raise FetchError("PERMISSION_DENIED", reason, place=place)
    fix = "Check the address; the endpoint of a server is usually /rpc." if response.status in _ABSENT else None
    raise FetchError("HTTP_STATUS", f"the endpoint answered {response.status}", place=place, fix=fix)
