"""The client's requests: an index, an artifact, files; each is a flow.

Spec: ASD Client Implementation, Integrity and Verification. Trust: every response is hostile until its digest matches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from skillwire import limits
from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, TrustError
from skillwire.model.digest import Digest
from skillwire.model.ref import CachedResponse, IndexedFile, SkillRef
from skillwire.model.skill import FileContent
from skillwire.protocols.agent_skills.messages import IndexEntry
from skillwire.trust.guarded_json import server_code, server_message
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, Sink, may_store
from skillwire.wire.fetch import ABSENT, DENIED, OK, download, expect_archive, fetch_document

_PARTIAL: Final = 206
_FORBIDDEN: Final = 403


class UnstoredBytes(bytes):
    """An artifact that its origin does not let a cache keep (``no-store``): in memory until its skill is staged.

    An installation fetches eight skills at a time, so at most eight times :data:`skillwire.limits.ARCHIVE_BYTES`.
    """


def fetch_index(
    url: str, *, cached: CachedResponse | None = None, authorization: str | None = None
) -> Flow[HttpResponse | None]:
    """Fetch an index; None when it does not exist. A 304 confirms ``cached``.

    Raises FetchError (``ACCESS_DENIED``), and as :func:`skillwire.wire.fetch.fetch_document`.
    """
    return fetch_document(url, cached, authorization, limits.INDEX_BYTES, _refused)


def fetch_artifact(
    entry: IndexEntry | SkillRef, *, authorization: str | None = None, sink: Sink | None = None
) -> Flow[bytes | None]:
    """Fetch the artifact of ``entry`` and verify it; return its bytes, or None when they are in ``sink``.

    ``sink`` takes a large artifact as it arrives and may already hold its first part. If the digest of the whole is
    wrong, that part may be the cause, so the artifact is fetched once from the start.

    Raises TrustError (``DIGEST_MISMATCH``), NotFoundError. Spec: ASD Verification, "clients MUST NOT use unverified
    content".
    """
    end = time.monotonic() + limits.DOWNLOAD_SECONDS
    if sink is not None and sink.size and sink.digest() == entry.digest:  # an earlier attempt fetched all of it
        return None
    is_archive = entry.artifact_type == "archive"
    headers = {"Accept": "*/*"}
    if is_archive:
        headers["Accept-Encoding"] = "identity"  # it is compressed already, and only plain bytes can be continued
    most = limits.ARCHIVE_BYTES if is_archive else limits.SKILL_MD_BYTES
    request = _request(entry.url, headers, authorization, most)
    response = yield from _fetch(request, sink, end)
    if sink is not None and response.in_sink and response.status == _PARTIAL and sink.digest() != entry.digest:
        sink.discard()
        response = yield from _fetch(request, sink, end)
    try:
        if is_archive:
            expect_archive(response)
        content = sink.digest() if sink is not None and response.in_sink else response.body
        verify_digest(content, entry.digest, entry.url)
    except SkillwireError:
        if sink is not None:
            sink.discard()
        raise
    if response.in_sink:
        return None
    return response.body if may_store(response.headers) else UnstoredBytes(response.body)


def fetch_files(files: Sequence[IndexedFile], *, authorization: str | None = None) -> Flow[list[FileContent]]:
    """Fetch the files of a skill that has no artifact, one after the other, within the same bounds."""
    end = time.monotonic() + limits.DOWNLOAD_SECONDS
    contents: list[FileContent] = []
    left = int(limits.ARCHIVE_TOTAL_BYTES)
    for file in files:
        most = min(left, limits.ARCHIVE_FILE_BYTES)
        request = _request(file.url, {"Accept": "*/*"}, authorization, most)
        response = yield from _fetch(request, None, end)
        if file.digest is not None:  # an index before 0.2.0 has none; DOWNGRADE protects origins that had
            verify_digest(response.body, file.digest, file.url)
        left -= len(response.body)
        contents.append(FileContent(file.path, response.body))
    return contents


def _fetch(request: HttpRequest, sink: Sink | None, end: float) -> Flow[HttpResponse]:
    response = yield from download(request, sink, end=end)
    if response.status in ABSENT:
        message = "the index names a file that does not exist"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(request.url))
    if response.status != OK and not (response.status == _PARTIAL and response.in_sink):
        raise _refused(response)
    return response


def verify_digest(content: bytes | str, digest: Digest | None, source: str) -> None:
    """Check ``content`` (or its digest) against ``digest``; only this function refuses an answer for its digest.

    Raises TrustError (``DIGEST_MISMATCH``, or ``NO_DIGEST`` without a digest).
    """
    place = SourceLocation(source)
    if digest is None:
        raise TrustError("NO_DIGEST", "there is no digest that the bytes could be verified by", place=place)
    actual = Digest(content) if isinstance(content, str) else Digest.of(content)
    if actual != digest:
        details = {"expected": str(digest), "actual": str(actual)}
        message = f"expected {digest}, got {actual}"
        raise TrustError("DIGEST_MISMATCH", message, place=place, details=details)


def _request(url: str, headers: dict[str, str], authorization: str | None, max_bytes: int) -> HttpRequest:
    if authorization is not None:
        headers["Authorization"] = authorization
    return HttpRequest(url, headers=headers, max_bytes=max_bytes)


def _refused(response: HttpResponse) -> SkillwireError:
    reason = server_message(response.body)
    if response.status == _FORBIDDEN and server_code(response.body) == "QUARANTINED":
        return TrustError("QUARANTINED", reason or "the origin refuses it", place=SourceLocation(response.url))
    message = f"the origin answered {response.status}" + (f": {reason}" if reason else "")
    code = "ACCESS_DENIED" if response.status in DENIED else "HTTP_STATUS"
    return FetchError(code, message, place=SourceLocation(response.url))
