"""The metadata of this server as a protected resource: which authorization server issues the tokens that open it.

A client that knows nothing but our address reads here where to log in. A 401 names the place too. The document is
there when the configuration has a table ``[oauth2]``. Spec: RFC 9728 §3, §5.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from skillwire.server.http import site_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from skillwire.server.configuration import OAuth2Settings

RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource:
    """The document at :data:`RESOURCE_PATH`.

    Args:
        settings: the table ``[oauth2]``; None without it.
        base_url: of the site; as requests say it when empty.
    """

    def __init__(self, settings: OAuth2Settings | None, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url

    def url(self, scope: Scope) -> str:
        """Return the absolute URL of the document, as the client reaches it."""
        return site_of(scope, self._base_url) + RESOURCE_PATH

    def document(self, site: str) -> bytes | None:
        """Return the document of a server at ``site``, or None."""
        if self._settings is None:
            return None
        document = {
            "resource": site,
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
        }
        if self._settings.scopes:  # a list without members is to be left out, RFC 9728 §3.2
            document["scopes_supported"] = sorted(self._settings.scopes)
        return json.dumps(document, ensure_ascii=False).encode()
