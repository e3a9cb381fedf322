"""A request on its way through the doors: what ASGI hands over, who asks, and what that one may know of.

Who asks is recognised when a door wants to know, and not before: a call says it in its body. What is asked of one
revision is answered from it to the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.server.auth.authentication import AuthResult, ProblemError
from skillwire.server.http import VARY, encode_fields
from skillwire.server.problems import NOT_READY, URL_TOO_LONG

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from skillwire.server.access import AccessView, AccessViews
    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.http import Fields
    from skillwire.server.problems import Problem
    from skillwire.server.revision import Revision


#: On every answer to who says who asks: it is for no shared cache, and some for none at all.
_DEPENDS: Final = {"Vary": VARY}
_PRIVATE: Final = encode_fields({"Cache-Control": CachePolicy.PRIVATE.value}, _DEPENDS)
_UNSTORED: Final = encode_fields({"Cache-Control": "no-store"}, _DEPENDS)


class ResponseRecorder:
    """Passes messages on and sees what was sent.

    ``asker`` is who asks, when that is known: what it is answered says how often it may still ask, and is for nobody
    else's cache.
    """

    __slots__ = ("_send", "asker", "sent", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.asker = AuthResult(None, {})
        self.status = 0
        self.sent = 0

    async def __call__(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            message["headers"] = self._fields(message["headers"])
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def _fields(self, fields: Fields) -> Fields:
        own = encode_fields(self.asker.fields)
        if self.asker.principal is None:
            return [*fields, *own]
        kept = [field for field in fields if field[0] not in {b"cache-control", b"vary"}]
        is_stored = (b"cache-control", b"no-store") not in fields
        return [*kept, *(_PRIVATE if is_stored else _UNSTORED), *own]


class Reception:
    """Knows who asks, and what there is for them.

    Args:
        publication: where revisions come from.
        authentication: recognises who asks.
        audiences: what they may know of and may use.
    """

    def __init__(self, publication: CatalogService, authentication: Authentication, audiences: AccessViews) -> None:
        self.publication = publication
        self.authentication = authentication
        self.audiences = audiences

    async def first_revision(self, seconds: float) -> Revision | None:
        """Return the first revision; None when it takes longer than that."""
        self.publication.start()
        return await self.publication.first(seconds)


class RequestContext:
    """A request: its path from the root of the site, and what ASGI says of it.

    Args:
        path: decoded, from the root of the application, wherever that is mounted.
        scope: of ASGI, as is ``receive``.
        receive: gives the body.
        send: sends the answer, and adds what depends on who asks.
        reception: knows who asks.
    """

    __slots__ = ("_reception", "_revision", "path", "receive", "scope", "send")

    def __init__(self, path: str, scope: Scope, receive: Receive, send: ResponseRecorder, reception: Reception) -> None:
        self.path = path
        self.scope = scope
        self.receive = receive
        self.send = send
        self._reception = reception
        self._revision: Revision | None = None

    @property
    def method(self) -> str:
        """Of HTTP."""
        return str(self.scope["method"])

    def check_length(self) -> None:
        """Look at the length of the URL.

        Raises:
            Refusal: nothing has so long a one (414).
        """
        if len(self.scope.get("raw_path") or self.path) + len(self.scope["query_string"]) > limits.URL_LENGTH:
            raise ProblemError(URL_TOO_LONG)

    async def body(self, max_bytes: int, too_large: Problem) -> bytes:
        """Return what was sent.

        Raises:
            Refusal: ``too_large``, it has more than ``max_bytes``.
        """
        body = bytearray()
        while True:
            message = await self.receive()
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise ProblemError(too_large)
            if not message.get("more_body", False):
                return bytes(body)

    async def identify(self, body: bytes = b"", *, scope: Scope | None = None) -> AuthResult:
        """Return who asks; call it once. ``scope`` when what they show stands elsewhere than in the request's own.

        Raises:
            Refusal: the credentials are not good, or requests come too often (401, 429, 503).
        """
        self.send.asker = await self._reception.authentication.identify(scope or self.scope, body)
        return self.send.asker

    async def find_revision(self) -> Revision | None:
        """Return the revision that this request is answered from; None while the first one is being loaded."""
        if self._revision is None:
            current = self._reception.publication.current
            self._revision = current or await self._reception.first_revision(limits.SERVER_LOADING_SECONDS)
        return self._revision

    async def revision(self) -> Revision:
        """Return the revision that this request is answered from.

        Raises:
            Refusal: the skills are still being loaded (503).
        """
        revision = await self.find_revision()
        if revision is None:
            raise ProblemError(NOT_READY)
        return revision

    async def audience(self) -> AccessView:
        """Return what the one who asks may know of and may use: everybody's before :meth:`identify`.

        Raises:
            Refusal: as :meth:`revision`.
        """
        return await self._reception.audiences.of(self.send.asker.principal, await self.revision())


def path_of(scope: Scope) -> str:
    """Return the decoded path from the root of this application, wherever it is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path
