"""What the console needs of the desk, where executions are looked up and changed.

What people call the callers of executions, and whom they mean when they name one.

The ledger keeps a caller as :func:`skillwire.server.auth.rate_limit.caller_of` writes it: ``identity TOKEN``,
``principal NAME`` or ``address NETWORK``. On a page that is the name of the token, the name, or the address.

A request to the console: who sent it, what its form holds, and whether it comes from a page of ours.

A browser sends the cookie along with whatever is sent from our own pages, and from nowhere else (``SameSite=Strict``).
A form is believed only when three more things say that it is ours: ``Sec-Fetch-Site``, or ``Origin`` where a browser
does not send that, names this site; its type is the one of forms; and it holds the token of the session.

Trust: everything in it is untrusted.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from skillwire import limits
from skillwire.errors import NotFoundError
from skillwire.executions.tasks import person_worker
from skillwire.model.access import OPERATOR, TASKS
from skillwire.server.auth.rate_limit import caller_of, network_of
from skillwire.server.http import read_fields
from skillwire.server.responses import Page, Redirect
from skillwire.server.routes.executions import may_follow
from skillwire.server.sessions import is_form_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.types import Receive, Scope, Send

    from skillwire.model.execution import (
        Claim,
        Execution,
        ExecutionQuery,
        ExecutionStatus,
        FoundExecutions,
        OpenTasks,
        TaskOwner,
    )
    from skillwire.registry.tokens import Tokens
    from skillwire.server.sessions import Session
    from skillwire.web.environment import Frame


class ConsoleExecutions(Protocol):
    """Executions and tasks, as :class:`skillwire.server.execution_service.ExecutionService` has them."""

    async def look_up(self, execution_id: str) -> Execution | None:
        """Return an execution."""

    async def find_begun(self, beginning: str) -> Execution | None:
        """Return the one execution whose ID begins so; None when none does, or several."""

    async def search(self, query: ExecutionQuery) -> FoundExecutions:
        """Return a page of executions, newest first. Raises UsageError (``CURSOR``)."""

    async def count(self, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
        """Return how many executions ``query`` finds, by status; its statuses, limit and cursor do not matter."""

    async def tasks(self, worker: str, whose: TaskOwner, limit: int) -> OpenTasks:
        """Return the most urgent tasks that are free, that ``worker`` has, or that others have."""

    async def output_of(self, execution: Execution) -> bytes | None:
        """Return what an execution gave, as JSON; None where there is nothing, or nothing more."""

    async def cancel(self, execution_id: str, by: str) -> Execution | None:
        """End an execution, unless it has ended; return it as it is then."""

    async def take_task(self, execution_id: str, person: str) -> Execution | None:
        """Give a task to a person; None when a person has it, or it ended."""

    async def complete_task(self, claim: Claim, output: Any) -> bool:
        """Hand in a task; False when the claim no longer holds. Raises ValidationError."""

    async def reject_task(self, claim: Claim, message: str) -> bool:
        """Decline a task; False when the claim no longer holds. Raises UsageError (``USAGE``)."""

    async def release_task(self, claim: Claim) -> bool:
        """Give a task back; False when the claim holds no more."""

    async def changed(self, since: int, seconds: float) -> int:
        """Return a number that rises with every change, as soon as it is not ``since``, or after ``seconds``."""


_IDENTITY: Final = "identity "
_PRINCIPAL: Final = "principal "
_ADDRESS: Final = "address "


class CallerNames:
    """Names for callers, from the names of their tokens."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens

    async def names(self, callers: Iterable[str]) -> dict[str, str]:
        """Return a name for each caller."""
        return {caller: await self._name(caller) for caller in set(callers)}

    async def caller_of(self, typed: str) -> str:
        """Return the caller for typed text: a caller, an address, or the newest token of this name or ID."""
        if typed.startswith((_IDENTITY, _PRINCIPAL, _ADDRESS)):
            return typed
        try:
            ipaddress.ip_address(typed)
        except ValueError:
            known = [token for token in await self._tokens().all() if typed in {token.name, token.token_id}]
            return f"{_IDENTITY}{known[-1].token_id}" if known else f"{_PRINCIPAL}{typed}"
        return f"{_ADDRESS}{network_of(typed)}"

    async def _name(self, caller: str) -> str:
        kind, _, name = caller.partition(" ")
        if f"{kind} " != _IDENTITY:
            return name or caller
        try:
            return (await self._tokens().look_up(name)).name
        except NotFoundError:  # of a signed request of long ago, or an issuer's
            return name


_FORM_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
_SAME_SITE: Final = frozenset({"same-origin", "none"})
Pairs = list[tuple[str, str]]


class UnsentFormError(Exception):
    """A form that is not ours, or of no use; nothing is done."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A request of the console: its path from the root of the site, the frame of its pages, and the session."""

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
        return person_worker(self.name, "" if self.session is None else self.session.principal.identity)

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
        """Return the form's fields, in order. Raises UnsentFormError (403, 413, 415)."""
        asked = read_fields(self.scope["headers"], b"content-type", b"sec-fetch-site", b"origin", b"host")
        if not is_from_here(asked, self.frame.address):
            raise UnsentFormError(HTTPStatus.FORBIDDEN)
        if asked.get(b"content-type", "").partition(";")[0].strip().lower() != _FORM_MEDIA_TYPE:
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
        await Page(status, html, fields, is_private=True)(self.scope, self.receive, self.send)

    async def lead(self, path: str, fields: Mapping[str, str] = {}) -> None:
        """Answer with another page to look at: a path from the root of the site, with its query encoded."""
        own = {"Cache-Control": "no-store", "Vary": "Accept, Cookie", **fields}
        await Redirect(path, HTTPStatus.SEE_OTHER, own)(self.scope, self.receive, self.send)


def is_from_here(asked: Mapping[bytes, str], address: str) -> bool:
    """Whether the browser states that a page of this site made the request; ``address`` is the site's."""
    site = asked.get(b"sec-fetch-site")
    if site is not None:
        return site in _SAME_SITE
    origin = asked.get(b"origin", "")
    scheme, mark, host = origin.partition("://")
    if not mark or scheme not in {"http", "https"}:
        return False
    return host == asked.get(b"host") or origin == "{0.scheme}://{0.netloc}".format(urlsplit(address))
