"""The metadata of this server as a protected resource: which authorization server gives the tokens that open it.

A client that knows nothing but our address reads here where to log in. A 401 names the place too. The document is
there when the configuration has a table ``[oauth2]``. Spec: RFC 9728 §3, §5.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.messages import JSON, OPEN_FIELDS
from skillwire.server.http import encode_fields, site_of
from skillwire.server.problems import NOT_FOUND, READ, answer_other_method

if TYPE_CHECKING:
    from starlette.types import Scope, Send

    from skillwire.server.configuration import OAuth2Settings

RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource:
    """Answers :data:`RESOURCE_PATH`.

    Args:
        settings: the table ``[oauth2]``; None without it.
        base_url: of the site; as requests say it when empty.
    """

    def __init__(self, settings: OAuth2Settings | None, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url

    async def answer(self, scope: Scope, send: Send) -> None:
        """Answer a request. Trust: a stranger's; its ``Host`` is read as strictly as any URL."""
        head = scope["method"] == "HEAD"
        if self._settings is None:
            await NOT_FOUND.send(send, head=head)
            return
        if scope["method"] not in READ:
            await answer_other_method(scope["method"], send)
            return
        body = self._document(self._settings, scope)
        own = {"Content-Type": JSON, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        await send({"type": "http.response.start", "status": 200, "headers": encode_fields(own, OPEN_FIELDS)})
        await send({"type": "http.response.body", "body": b"" if head else body})

    def url(self, scope: Scope) -> str:
        """Return the absolute URL of the document, as whoever sent the request reaches it."""
        return site_of(scope, self._base_url) + RESOURCE_PATH

    def _document(self, settings: OAuth2Settings, scope: Scope) -> bytes:
        document = {
            "resource": site_of(scope, self._base_url),
            "authorization_servers": [settings.issuer],
            "bearer_methods_supported": ["header"],
        }
        if settings.scopes:  # a list without members is to be left out, RFC 9728 §3.2
            document["scopes_supported"] = sorted(settings.scopes)
        return json.dumps(document, ensure_ascii=False).encode()
