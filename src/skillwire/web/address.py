"""Under which address a page was asked for, so far as a stranger's request can be believed.

Links within the pages are relative and need none. The canonical address and the commands to copy do. They come
from ``--base-url`` where that is set; else from the request's ``Host`` field, which anybody may write anything
into, so it is read as strictly as any other URL; else from the address of the socket.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from skillwire.errors import ValidationError
from skillwire.model.url import parse_url

_NOWHERE: Final = "http://localhost"
_SECURE: Final = "https://"
_MORE_THAN_HOST: Final = re.compile(r"[/?#]")


def site_address(base_url: str, scheme: str, host: str, root_path: str, server: tuple[str, int | None] | None) -> str:
    """Return the absolute URL of the site's root, without a final slash.

    Args:
        base_url: what the publisher set; empty when nothing.
        scheme: ``http`` or ``https``, as the server sees it.
        host: the ``Host`` field. Trust: a stranger's.
        root_path: below which the application is mounted, such as ``/skills``.
        server: host and port of the socket.
    """
    if base_url:
        return base_url
    return host_address(scheme, host, root_path) or host_address(scheme, _authority(server), root_path) or _NOWHERE


@lru_cache(maxsize=256)  # clients know a site by few names; bounded, because they may write any
def host_address(scheme: str, host: str, root_path: str = "") -> str:
    """Return the same of a site that is reached at ``host``; nothing when that is no host and port.

    Trust: ``host`` is a stranger's.
    """
    if not host.isascii() or _MORE_THAN_HOST.search(host):
        return ""
    try:
        return str(parse_url(f"{scheme}://{host}{quote(root_path)}")).rstrip("/")
    except ValidationError:  # no host at all, or none that a URL can hold
        return ""


def short_address(address: str) -> str:
    """Return ``address`` as people type it: without ``https://``, which is what commands assume."""
    return address.removeprefix(_SECURE)


def way_up(raw_path: bytes, root_path: str) -> str:
    """Return the relative URL of the site's root as seen from ``raw_path``: ``./``, ``../``, ``../../``.

    Args:
        raw_path: the path as the request line says it, ``root_path`` included.
        root_path: below which the application is mounted.
    """
    return "../" * (raw_path.count(b"/") - root_path.count("/") - 1) or "./"


def _authority(server: tuple[str, int | None] | None) -> str:
    if server is None or server[1] is None:
        return ""
    return f"[{server[0]}]:{server[1]}" if ":" in server[0] else f"{server[0]}:{server[1]}"
