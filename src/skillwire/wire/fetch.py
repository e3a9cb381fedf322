"""Fetching: redirects, conditional requests, content types and interrupted downloads, without IO.

:func:`fetch` follows redirects by these rules:

- at most five, none twice (a server that needs a cookie would loop);
- never from https to http;
- to another origin only with headers from a short list, since any other one may be a secret: an origin that requires a
  credential redirects to its CDN, whose URL needs none. A body is never sent to another origin;
- a ``POST`` is repeated by 307 and 308 only; 303 becomes a ``GET``; 301 and 302 would lose the body and are refused.

The driver's address policy decides on each target. No status is retried.

:func:`expect_json` and :func:`expect_archive` judge content types. Servers label files carelessly, so vague types
(``application/octet-stream``, ``text/plain``, none) pass, and types of something else do not. A web page in place of a
document (a login form, a captive portal) gets a message of its own. Spec: RFC 9110 §15.4, §13; ASD HTTP (clients MUST
follow redirects).

:func:`download` asks again when a connection breaks or times out, and continues after the bytes of its sink, from this
run or an earlier one. The caller checks the digest of the whole, so no validator is sent with the range: servers of one
origin often disagree on ``ETag``, and bytes that do not fit show in the digest. A server that ignores ranges answers
200 and the download begins anew, as it does after a 416 and after a wrong part. Tries without progress, requests and
time are bounded. 429, 502, 503 and 504 are asked again after ``Retry-After``, or a growing time with jitter; a longer
``Retry-After`` ends the download. Spec: RFC 9110 §14, §10.2.3.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation, TrustError, ValidationError
from skillwire.model.ref import CachedResponse
from skillwire.model.url import Url, parse_url, resolve_url
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, Sink, Sleep

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD: Final = frozenset({307, 308})
_SEE_OTHER: Final = 303
_NOT_MODIFIED: Final = 304
OK: Final = 200
ABSENT: Final = frozenset({404, 410})
DENIED: Final = frozenset({401, 403})
_PARTIAL: Final = 206
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_HARMLESS_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "accept-language", "cache-control", "if-modified-since", "if-none-match", "range"}
)

_VAGUE: Final = frozenset({"", "application/octet-stream", "binary/octet-stream", "text/plain"})
_JSON: Final = frozenset({"application/json", "text/json"})
#: Characters of a media type. Spec: RFC 6838 §4.2.
_OF_TYPES: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&^_.+-/")
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_GZIP: Final = frozenset({"application/gzip", "application/x-gzip", "application/x-tar", "application/x-gtar"})
_ZIP: Final = frozenset({"application/zip", "application/x-zip-compressed", "application/x-zip"})
#: Types, endings of paths, the first bytes, and the name of each format.
_ARCHIVES: Final = ((_GZIP, (".tar.gz", ".tgz"), b"\x1f\x8b", "gzip"), (_ZIP, (".zip",), b"PK", "zip"))


def fetch(request: HttpRequest, *, max_redirects: int = limits.HTTP_REDIRECTS) -> Flow[HttpResponse]:
    """Make a request and follow its redirects; return the answer with any other status.

    Raises:
        FetchError: ``REDIRECT_LIMIT``, ``REDIRECT_BROKEN``; ``ANSWER_UNASKED`` for an unrequested 304 or 206.
        TrustError: ``REDIRECT_REFUSED``. Both also from the driver.
    """
    asked = {(request.method, request.url)}
    while True:
        response: HttpResponse = yield request
        _check_asked(request, response)
        if response.status not in _REDIRECTS:
            return response
        request = redirect(request, response)
        if (request.method, request.url) in asked:
            raise FetchError("REDIRECT_LIMIT", "the redirects go in a circle", place=SourceLocation(request.url))
        if len(asked) > max_redirects:
            raise FetchError(
                "REDIRECT_LIMIT", f"more than {max_redirects} redirects", place=SourceLocation(request.url)
            )
        asked.add((request.method, request.url))


def redirect(request: HttpRequest, response: HttpResponse) -> HttpRequest:
    """Return the request of a redirect. Trust: ``response`` and its target are untrusted."""
    source, place = parse_url(request.url), SourceLocation(request.url)
    location = response.headers.get("location")
    if not location:
        raise FetchError("REDIRECT_BROKEN", f"{response.status} without a Location", place=place)
    try:
        target = resolve_url(source, location)
    except ValidationError as error:
        raise TrustError("REDIRECT_REFUSED", f"the redirect is unreadable: {error.message}", place=place) from error
    if request.method not in _SAFE_METHODS and response.status not in _KEEPS_METHOD:
        if response.status != _SEE_OTHER:
            message = f"{response.status} to a {request.method} would lose what was sent"
            raise FetchError("REDIRECT_BROKEN", message, place=place)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-type"}
        request = request._replace(method="GET", headers=headers, body=None)
    if source.scheme == "https" and target.scheme == "http":
        raise _refused(request, target, "leads from https to http")
    if target.origin != source.origin:
        if request.body is not None:
            raise _refused(request, target, "would carry a body to another origin")
        headers = {name: value for name, value in request.headers.items() if name.lower() in _HARMLESS_HEADERS}
        request = request._replace(headers=headers)
    return request._replace(url=str(target))


def fetch_document(
    url: str,
    cached: CachedResponse | None,
    authorization: str | None,
    max_bytes: int,
    refused: Callable[[HttpResponse], SkillwireError],
) -> Flow[HttpResponse | None]:
    """Fetch a JSON document; None when it does not exist. A 304 confirms ``cached``; ``refused`` reads other answers.

    Raises FetchError (``HTTP_STATUS``, ``CONTENT_TYPE``) and as :func:`fetch`.
    """
    headers = {"Accept": "application/json", **conditional_headers(cached.headers if cached else {})}
    if authorization is not None:
        headers["Authorization"] = authorization  # it is sent to this origin only
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=max_bytes))
    if response.status in ABSENT:
        return None
    if response.status == _NOT_MODIFIED:
        return response
    if response.status != OK:
        raise refused(response)
    expect_json(response)
    return response


def conditional_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request that is conditional on a cached answer's headers. Spec: RFC 9110 §13."""
    conditions = {"If-None-Match": headers.get("etag"), "If-Modified-Since": headers.get("last-modified")}
    return {name: value for name, value in conditions.items() if value}


def content_type(response: HttpResponse) -> str:
    """Return the media type in lower case, without parameters; empty when there is none."""
    return media_type(response.headers.get("content-type", ""))


def media_type(text: str) -> str:
    """Return a ``Content-Type`` in lower case, without parameters. Spec: RFC 9110 §8.3.1."""
    return text.partition(";")[0].strip().lower()


def is_json(text: str) -> bool:
    """Whether a ``Content-Type`` is JSON. Spec: RFC 6839 §3.1."""
    found = media_type(text)
    return found in _JSON or (found.endswith("+json") and found.count("/") == 1 and _OF_TYPES.issuperset(found))


def expect_json(response: HttpResponse) -> None:
    """Raise ``CONTENT_TYPE`` for an answer that cannot be JSON."""
    found = content_type(response)
    if found not in _VAGUE and not is_json(found):
        raise _unexpected(response, "JSON", found)


def expect_archive(response: HttpResponse) -> None:
    """Raise ``CONTENT_TYPE`` for an answer that is no archive, or not of the format that its type states.

    A vague type leaves the format to the path's ending (``ARCHIVE_FORMAT_MISMATCH``). Spec: ASD Archive Format.
    """
    found, path, place = content_type(response), parse_url(response.url).path.lower(), SourceLocation(response.url)
    for types, endings, magic, name in _ARCHIVES:
        if response.in_sink or response.body.startswith(magic):
            continue
        if found in types:
            raise FetchError("CONTENT_TYPE", f"the answer says that it is {name} and is not", place=place)
        if found in _VAGUE and path.endswith(endings):
            raise TrustError("ARCHIVE_FORMAT_MISMATCH", f"the archive is called {name} and is not", place=place)
    if found not in _VAGUE and not any(found in types for types, *_ in _ARCHIVES):
        raise _unexpected(response, "an archive", found)


def _check_asked(request: HttpRequest, response: HttpResponse) -> None:
    if response.status == _NOT_MODIFIED:
        asked = request.header("if-none-match") or request.header("if-modified-since")
    elif response.status == _PARTIAL:
        asked = request.header("range")
    else:
        return
    if not asked:
        raise FetchError(
            "ANSWER_UNASKED", f"{response.status}, which was not asked for", place=SourceLocation(request.url)
        )


def _refused(request: HttpRequest, target: Url, why: str) -> TrustError:
    details = {"from": request.url, "to": str(target)}
    return TrustError(
        "REDIRECT_REFUSED", f"the redirect to {target.origin} {why}", place=SourceLocation(request.url), details=details
    )


def _unexpected(response: HttpResponse, wanted: str, found: str) -> FetchError:
    if found in _HTML:
        return FetchError(
            "CONTENT_TYPE",
            f"a web page came where {wanted} was expected",
            place=SourceLocation(response.url),
            fix="Check the address in a browser: it may be a login page, or a site that answers every path.",
        )
    return FetchError(
        "CONTENT_TYPE", f"{found[:80]} came where {wanted} was expected", place=SourceLocation(response.url)
    )


_FIRST_WAIT: Final = 0.25  # seconds; doubled with each try without progress
_BUSY: Final = frozenset({429, 502, 503, 504})
_UNFIT: Final = frozenset({"HTTP_SYNTAX", "CONTENT_ENCODING"})
_UNSATISFIABLE: Final = 416


def download(
    request: HttpRequest, sink: Sink | None, *, end: float, clock: Callable[[], float] = time.monotonic
) -> Flow[HttpResponse]:
    """Make a request, and more within the bounds; return the answer, with any status.

    Args:
        request: a ``GET`` for the whole.
        sink: has the earlier bytes, and receives a large body; None to keep nothing.
        end: of the time, by ``clock``.
        clock: seconds.
    """
    tries = _Tries(end, clock)
    while True:
        before, headers = sink.size if sink is not None else 0, request.headers
        if before:  # a part of a compressed body is useless
            headers = {**headers, "Range": f"bytes={before}-", "Accept-Encoding": "identity"}
        timeout = min(request.timeout, tries.left())
        try:
            asked = request._replace(headers=headers, timeout=timeout, sink=sink)
            if tries.wait:
                yield Sleep(tries.wait)
            response = yield from fetch(asked)
        except FetchError as error:
            came = (sink.size if sink is not None else 0) - before
            is_unfit = error.code in _UNFIT and before > 0
            if is_unfit and sink is not None:
                sink.discard()
                came = 0
            if not (is_unfit or _may_pass(error, came, tries)) or not tries.again(came, None):
                raise
            continue
        is_useless = response.status == _UNSATISFIABLE or (response.status == _PARTIAL and not response.in_sink)
        if sink is not None and before and is_useless:
            sink.discard()
        elif response.status not in _BUSY:
            return response
        if not tries.again(0, response.headers.get("retry-after")):
            return response


def _may_pass(error: FetchError, came: int, tries: _Tries) -> bool:
    """Whether another try may succeed: a server that never began is not tried twice."""
    return error.code == "CONNECTION_LOST" or (
        error.code in {"TIMEOUT", "CONNECT_FAILED"} and (came > 0 or tries.made > 0)
    )


class _Tries:
    """The rest of the bounds, and the time until the next request."""

    def __init__(self, end: float, clock: Callable[[], float]) -> None:
        self.wait = 0.0
        self.made = 0
        self._in_vain = 0
        self._end = end
        self._clock = clock

    def left(self) -> float:
        """Return the seconds for the next request; more than 0, so that the request itself times out."""
        return max(self._end - self._clock() - self.wait, 0.001)

    def again(self, came: int, retry_after: str | None) -> bool:
        """Whether another request is within the bounds, after one that brought ``came`` bytes."""
        self.made += 1
        self._in_vain = 0 if came > 0 else self._in_vain + 1
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            self.wait = float(retry_after[:9])
        else:  # a date is ignored: it needs two clocks that agree
            self.wait = _FIRST_WAIT * 2**self._in_vain * (0.5 + os.urandom(1)[0] / 510)
        return (
            self._in_vain < limits.DOWNLOAD_TRIES
            and self.made < limits.DOWNLOAD_REQUESTS
            and self.wait <= limits.DOWNLOAD_WAIT_SECONDS
            and self._clock() + self.wait < self._end
        )
