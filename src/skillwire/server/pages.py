"""Sending pages: compressed for whoever takes that, with the fields that say what a browser may do with them."""

from __future__ import annotations

import asyncio
import gzip
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import brotli

from skillwire.model.digest import Digest
from skillwire.server.headers import encode_fields, read_fields
from skillwire.server.negotiation import choose_coding, matching_tag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope, Send

#: Dynamic text is sent once, so it is compressed quickly: 0.4 ms for a list.
_BROTLI_QUALITY: Final = 4
_GZIP_LEVEL: Final = 4
_WORTH_CODING: Final = 1024
_FIELDS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-cache",
    "Vary": "Accept, Accept-Encoding",
}


class Page(NamedTuple):
    """A page: its status, its HTML, and fields that only it has."""

    status: int
    html: str
    fields: Mapping[str, str] = {}


class _Body(NamedTuple):
    """What is sent: the status, the bytes, and the coding that they get."""

    status: int
    content: bytes
    coding: str


async def send_page(page: Page, scope: Scope, send: Send) -> None:
    """Answer with a page of everybody's, or that the browser has it already."""
    from skillwire.web.policy import PAGE_FIELDS  # noqa: PLC0415  # with the first page, see the console

    asked = read_fields(scope["headers"], b"accept-encoding", b"if-none-match")
    body = page.html.encode("utf-8", "replace")
    coding = choose_coding(asked.get(b"accept-encoding", "")) if len(body) >= _WORTH_CODING else "identity"
    tag = f'"{Digest.of(body).hex[:32]}-{coding}"'
    own = {**_FIELDS, **page.fields, "ETag": tag}
    if page.status == HTTPStatus.OK and matching_tag(asked.get(b"if-none-match", ""), (tag,)):
        del own["Content-Type"]
        await send({"type": "http.response.start", "status": 304, "headers": encode_fields(own, PAGE_FIELDS)})
        await send({"type": "http.response.body", "body": b""})
        return
    await _send_body(_Body(page.status, body, coding), {**PAGE_FIELDS, **own}, scope, send)


async def send_private_page(page: Page, scope: Scope, send: Send) -> None:
    """Answer with a page of one person's, which no cache may hold."""
    from skillwire.web.policy import CONSOLE_FIELDS  # noqa: PLC0415  # same

    body = page.html.encode("utf-8", "replace")
    asked = read_fields(scope["headers"], b"accept-encoding")
    coding = choose_coding(asked.get(b"accept-encoding", "")) if len(body) >= _WORTH_CODING else "identity"
    own = {**CONSOLE_FIELDS, "Content-Type": _FIELDS["Content-Type"], "Vary": "Accept, Accept-Encoding, Cookie"}
    await _send_body(_Body(page.status, body, coding), {**own, **page.fields}, scope, send)


async def redirect(path: str, status: HTTPStatus, scope: Scope, send: Send, fields: Mapping[str, str] = {}) -> None:
    """Lead to ``path``, from the root of the site wherever it is mounted; a query may follow it, encoded."""
    plain, mark, query = path.partition("?")
    location = quote(scope.get("root_path", "") + plain) + mark + query
    own = {"Location": location, "Content-Length": "0", "Cache-Control": "no-cache", "Vary": "Accept", **fields}
    await send({"type": "http.response.start", "status": status, "headers": encode_fields(own)})
    await send({"type": "http.response.body", "body": b""})


async def _send_body(body: _Body, fields: dict[str, str], scope: Scope, send: Send) -> None:
    status, content, coding = body
    if coding == "br":
        content = await asyncio.to_thread(brotli.compress, content, mode=brotli.MODE_TEXT, quality=_BROTLI_QUALITY)
    elif coding == "gzip":
        content = await asyncio.to_thread(gzip.compress, content, _GZIP_LEVEL, mtime=0)
    if coding != "identity":
        fields["Content-Encoding"] = coding
    fields["Content-Length"] = str(len(content))
    await send({"type": "http.response.start", "status": status, "headers": encode_fields(fields)})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})
