"""Skills that are an API behind this server: one request, and the outcome of its answer.

The request carries nothing of the caller but the inputs, where the skill's folder puts them, and the trace. Trust: the
answer is untrusted, so it is bounded in bytes and time and decoded strictly; a failure shows the caller a short text
without hidden characters. Redirects are not followed: they would carry the secrets elsewhere. An echoed secret is
removed.

=================================  ================================================  =======================
the upstream                       the execution                                     another attempt may help
=================================  ================================================  =======================
2xx, JSON                          the value, or what ``result`` points to in it
2xx, ``text/*``                    the text
2xx, nothing                       null
2xx, anything else                 ``{"content_type", "base64"}``
429                                ``EXECUTION_FAILED``, with its ``Retry-After``    yes
502, 503, no connection            ``ENDPOINT_UNREACHABLE``                          yes
504, too slow                      ``INVOCATION_TIMEOUT``                            yes
any other status                   ``EXECUTION_FAILED``, with status and excerpt     no
an address that policy refuses     ``ENDPOINT_UNREACHABLE``                          no
=================================  ================================================  =======================
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from skillwire import limits
from skillwire.adapters.executors.secrets import SecretMask
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.errors import DecodeError, FetchError, SkillwireError, TrustError, ValidationError
from skillwire.folder.executors import (
    BODILESS,
    Upstream,
    fill,
    fill_secrets,
    point,
    query_pairs,
    read_upstream,
    secret_names,
)
from skillwire.model.execution import Attempt, Failure, Outcome
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import HttpRequest, HttpResponse
from skillwire.wire.fetch import content_type as content_type_of
from skillwire.wire.fetch import is_json
from skillwire.wire.pacing import retry_after
from skillwire.wire.tracing import read_trace, send_traced

_ACCEPT: Final = "application/json, text/*;q=0.5, */*;q=0.1"
_SECRET: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
#: Shorter secrets are left in outputs: they would be found in what is none.
_REDACTED_LENGTH: Final = 8
_CHARSET: Final = re.compile(r'charset="?([A-Za-z0-9_-]{1,40})', re.IGNORECASE)
#: Those of the web (WHATWG, Encoding) that Python has under the same name.
_CHARSETS: Final = re.compile(
    r"utf-?8|utf-16(?:le|be)?|(?:us-)?ascii|latin1|iso-8859-(?:[1-9]|1[013456])|windows-125[0-8]|koi8-[ru]"
    r"|shift_jis|euc-(?:jp|kr)|iso-2022-jp|gb(?:k|2312|18030)|big5"
)
_MEDIA_TYPE: Final = 128
_READ_APART_BYTES: Final = 64 * 1024  # more than this keeps the loop waiting for a millisecond
#: The methods whose repetition an API recognises by ``Idempotency-Key`` alone.
_UNREPEATABLE: Final = frozenset({"POST", "PATCH"})
#: Statuses after which another attempt may help → the code of the failure.
_PASSING: Final[dict[int, str]] = {
    HTTPStatus.BAD_GATEWAY: "ENDPOINT_UNREACHABLE",
    HTTPStatus.SERVICE_UNAVAILABLE: "ENDPOINT_UNREACHABLE",
    HTTPStatus.GATEWAY_TIMEOUT: "INVOCATION_TIMEOUT",
}
_DISTRUSTED: Final = frozenset({"BODY_TOO_LARGE", "HTTP_SYNTAX", "CONTENT_ENCODING"})


class HttpExecutor:
    """Fills :class:`skillwire.ports.Executor` for ``http`` actions; ``secrets`` is called in a thread."""

    def __init__(self, driver: AsyncDriver, secrets: Callable[[str], str | None]) -> None:
        self._driver = driver
        self._secrets = secrets
        self._log = structlog.get_logger("skillwire")

    async def execute(self, attempt: Attempt) -> Outcome:
        """Call the upstream once."""
        action = attempt.skill.action
        if action is None:
            return Outcome(failure=Failure("unavailable", "The skill is no action any more"))
        upstream = read_upstream(action.settings)
        names = sorted({name for value in upstream.headers.values() for name in secret_names(value)})
        secrets: dict[str, str] = {}
        for name, secret in await asyncio.to_thread(self._find_all, names) if names else ():
            if secret is None or not _SECRET.fullmatch(secret):
                self._log.error("a secret is not set, or cannot be sent", skill=attempt.skill.name, secret=name)
                return Outcome(failure=Failure("unavailable", f"The operator has not set {name}"))
            secrets[name] = secret
        try:
            request = _request(upstream, attempt, secrets)
        except ValidationError as error:
            failure = Failure("upstream", error.message, code="VALIDATION_ERROR", details=dict(error.details))
            return Outcome(failure=failure)
        trace = read_trace(attempt.execution.trace_id)
        try:
            response = await send_traced(self._driver.send, request, trace)
        except SkillwireError as error:
            self._log.warning("an upstream failed", skill=attempt.skill.name, code=error.code, reason=error.message)
            return Outcome(failure=_failure(error))
        known = list(secrets.values())
        if len(response.body) > _READ_APART_BYTES:
            return await asyncio.to_thread(_outcome, response, upstream, known)
        return _outcome(response, upstream, known)

    def _find_all(self, names: list[str]) -> list[tuple[str, str | None]]:
        return [(name, self._secrets(name)) for name in names]


def _request(upstream: Upstream, attempt: Attempt, secrets: Mapping[str, str]) -> HttpRequest:
    target = fill(upstream, attempt.inputs)
    headers = {"accept": _ACCEPT}
    if upstream.method in _UNREPEATABLE:  # hashed: the execution's ID is a secret of its caller
        headers["idempotency-key"] = hashlib.sha256(f"repeat {attempt.execution.execution_id}".encode()).hexdigest()[
            :32
        ]
    headers |= {name.lower(): fill_secrets(value, secrets) for name, value in upstream.headers.items()}
    body = None
    if upstream.method not in BODILESS:
        is_form = upstream.body == "form"
        headers["content-type"] = "application/x-www-form-urlencoded" if is_form else "application/json"
        body = "&".join(query_pairs(target.rest)).encode() if is_form else msgspec.json.encode(target.rest)
    return HttpRequest(
        target.url,
        upstream.method,
        headers,
        body,
        max_bytes=limits.UPSTREAM_BYTES,
        timeout=max(attempt.seconds, 0.001),
    )


def _failure(error: SkillwireError) -> Failure:
    """Return what a caller learns of a request without an answer: no address and no name of this network."""
    if isinstance(error, TrustError):
        return Failure("upstream", "The upstream is not where this server may connect", code="ENDPOINT_UNREACHABLE")
    if error.code == "TIMEOUT":
        return Failure("deadline", "The upstream took too long", code="INVOCATION_TIMEOUT", is_passing=True)
    if error.code in _DISTRUSTED or not isinstance(error, FetchError):
        return Failure("upstream", "The upstream's answer cannot be used", details={"code": error.code})
    return Failure("upstream", "The upstream cannot be reached", code="ENDPOINT_UNREACHABLE", is_passing=True)


def _outcome(response: HttpResponse, upstream: Upstream, secrets: list[str]) -> Outcome:
    if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return Outcome(failure=_refusal(response, secrets))
    try:
        output = _output(response, SecretMask(secret for secret in secrets if len(secret) >= _REDACTED_LENGTH))
    except (DecodeError, UnicodeDecodeError) as error:
        return Outcome(failure=_unreadable(error, bytes(response.body), SecretMask(secrets)))
    if upstream.result is None:
        return Outcome(output)
    try:
        return Outcome(point(output, upstream.result))
    except LookupError:
        return Outcome(failure=Failure("output", f"The upstream's answer has no {upstream.result}"))


def _output(response: HttpResponse, mask: SecretMask) -> Any:
    content_type = response.headers.get("content-type", "")
    media_type = content_type_of(response)
    body = bytes(response.body)
    if not body:
        return None
    if is_json(media_type):
        return mask.value(load_json(body, max_bytes=len(body), source="the upstream's answer"))
    found = _CHARSET.search(content_type)
    charset = found[1].lower() if found else "utf-8"
    if media_type.startswith("text/") and _CHARSETS.fullmatch(charset):
        return mask.text(body.decode(charset))
    return {
        "content_type": neutralise(mask.text(content_type)[:_MEDIA_TYPE]),
        "base64": b64encode(mask.data(body)).decode(),
    }


def _unreadable(error: DecodeError | UnicodeDecodeError, body: bytes, mask: SecretMask) -> Failure:
    """Return which rule an answer breaks, and where; the rule alone where a cut could hide a secret from the mask."""
    message = "The upstream's answer cannot be used"
    if isinstance(error, UnicodeDecodeError):
        return Failure("output", f"{message}: it is not {error.encoding} at byte {error.start}")
    text, place = body.decode(errors="replace"), error.place
    where = f" (line {place.line}, column {place.column})" if place is not None and place.line else ""
    what = neutralise(error.message) if mask.text(text) == text else f"it breaks the rule {error.code}"
    return Failure("output", f"{message}: {what}{where}", details={"code": error.code})


def _refusal(response: HttpResponse, secrets: list[str]) -> Failure:
    status, media_type, message = response.status, content_type_of(response), f"The upstream answered {response.status}"
    details: dict[str, Any] = {"status": status}
    if (seconds := retry_after(response.headers)) is not None:
        details["retry_after"] = min(seconds, float(limits.UPSTREAM_RETRY_SECONDS))
    if status in _PASSING:
        return Failure("upstream", message, _PASSING[status], details, is_passing=True)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Failure("upstream", "The upstream has had too many requests", details=details, is_passing=True)
    if is_json(media_type) or media_type.startswith("text/"):
        text = SecretMask(secrets).text(bytes(response.body).decode("utf-8", "replace").replace("\0", ""))  # UTF-16
        line = neutralise(" ".join(text[: 2 * limits.UPSTREAM_EXCERPT].split()))[: limits.UPSTREAM_EXCERPT]
        details |= {"excerpt": line} if line else {}
    return Failure("upstream", message, details=details)
