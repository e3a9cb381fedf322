"""Under which address a request reached this site, in full.

Agents, browsers and authorization servers are all told URLs of ours. They come from one place, so that whoever asks is
told the same; how a stranger's request is believed, :mod:`skillwire.web.address` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.server.headers import read_fields
from skillwire.web.address import site_address

if TYPE_CHECKING:
    from starlette.types import Scope


def site_of(scope: Scope, base_url: str) -> str:
    """Return the absolute URL of the site's root, without a final slash, as whoever sent the request reaches it.

    Args:
        scope: of the request. Trust: a stranger's; its ``Host`` is read as strictly as any URL.
        base_url: what the publisher set; empty when nothing.
    """
    host = read_fields(scope["headers"], b"host").get(b"host", "")
    return site_address(base_url, scope["scheme"], host, scope.get("root_path", ""), scope.get("server"))
