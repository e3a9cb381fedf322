"""A request to the console: who sent it, what its form holds, and whether it comes from a page of ours.

A browser sends the cookie along with whatever is sent from our own pages, and from nowhere else (``SameSite=Strict``).
A form is believed only when three more things say that it is ours: ``Sec-Fetch-Site``, or ``Origin`` where a browser
does not send that, names this site; its type is the one of forms; and it holds the token of the session.

Trust: everything in it is a stranger's.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from skillwire import limits
from skillwire.invocation.inbox import worker_of
from skillwire.model.access import OPERATOR, TASKS
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.executions_console.sessions import is_form_token
from skillwire.server.headers import read_fields
from skillwire.server.invocation.route import may_follow
from skillwire.server.pages import Page, redirect, send_private_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from skillwire.model.execution import Execution
    from skillwire.server.executions_console.sessions import Session
    from skillwire.web.environment import Frame

_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_OURS: Final = frozenset({"same-origin", "none"})
Pairs = list[tuple[str, str]]


class UnsentFormError(Exception):
    """A form that is not ours, or of no use; nothing is done."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """What the pages are asked.

    ``path`` is from the root of the site, ``frame`` what each page knows, ``session`` who is signed in.
    """

    path: str
    scope: Scope
    receive: Receive
    send: Send
    frame: Frame
    session: Session | None = None

    @property
    def name(self) -> str:
        """Under which name the person is shown, and cancels."""
        return "" if self.session is None else self.session.principal.name

    @property
    def worker(self) -> str:
        """The same, where the ledger has the name of a worker: with what tells two people of one name apart."""
        return worker_of(self.name, "" if self.session is None else self.session.principal.identity)

    @property
    def caller(self) -> str:
        """Whose executions are their own."""
        return "" if self.session is None else caller_of(self.session.principal, "")

    @property
    def sees_all(self) -> bool:
        """Whether they see and cancel every execution."""
        return self.session is not None and OPERATOR in self.session.principal.scopes

    @property
    def may_work(self) -> bool:
        """Whether they work the inbox."""
        return self.session is not None and not self.session.principal.scopes.isdisjoint({OPERATOR, TASKS})

    def sees(self, execution: Execution) -> bool:
        """Whether they may see an execution, and cancel it."""
        return self.session is not None and may_follow(execution, self.session.principal)

    def parameter(self, name: str) -> str:
        """Return a parameter of the URL; nothing when it is not there."""
        try:
            query: bytes = self.scope["query_string"]
            pairs = dict(parse_qsl(query.decode("latin-1"), max_num_fields=limits.CONSOLE_FORM_FIELDS))
        except ValueError:
            return ""
        return pairs.get(name, "")

    async def form(self) -> Pairs:
        """Return the fields of the form that was sent, in order.

        Raises:
            UnsentFormError: it does not come from a page of ours (403), or is no form (415), or too large (413).
        """
        asked = read_fields(self.scope["headers"], b"content-type", b"sec-fetch-site", b"origin", b"host")
        if not is_from_here(asked, self.frame.address):
            raise UnsentFormError(HTTPStatus.FORBIDDEN)
        if asked.get(b"content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
            raise UnsentFormError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        body = await self._body()
        try:
            text = body.decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=limits.CONSOLE_FORM_FIELDS)
        except ValueError as error:  # which UnicodeDecodeError is, too
            raise UnsentFormError(HTTPStatus.BAD_REQUEST) from error
        if self.session is not None and not is_form_token(self.session, dict(pairs).get("token", "")):
            raise UnsentFormError(HTTPStatus.FORBIDDEN)
        return pairs

    async def _body(self) -> bytes:
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await self.receive()
            if message["type"] != "http.request":  # it went away
                raise UnsentFormError(HTTPStatus.BAD_REQUEST)
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > limits.CONSOLE_FORM_BYTES:
                raise UnsentFormError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return b"".join(parts)

    async def show(self, html: str, status: int = HTTPStatus.OK, fields: Mapping[str, str] = {}) -> None:
        """Answer with a page."""
        await send_private_page(Page(status, html, fields), self.scope, self.send)

    async def lead(self, path: str, fields: Mapping[str, str] = {}) -> None:
        """Answer with another page to look at: a path from the root of the site, with its query encoded."""
        own = {"Cache-Control": "no-store", "Vary": "Accept, Cookie", **fields}
        await redirect(path, HTTPStatus.SEE_OTHER, self.scope, self.send, own)


def is_from_here(asked: Mapping[bytes, str], address: str) -> bool:
    """Whether a browser says that a request was made by a page of this site.

    Args:
        asked: its fields ``sec-fetch-site``, ``origin`` and ``host``.
        address: of the site, as the publisher set it or the request says it.
    """
    site = asked.get(b"sec-fetch-site")
    if site is not None:
        return site in _OURS
    origin = asked.get(b"origin", "")
    scheme, mark, host = origin.partition("://")
    if not mark or scheme not in {"http", "https"}:
        return False
    return host == asked.get(b"host") or origin == "{0.scheme}://{0.netloc}".format(urlsplit(address))
