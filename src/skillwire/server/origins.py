"""Which pages may have something done here: one rule for ``/mcp``, ``/rpc``, ``/blobs``, and calls of Skill Sharing.

A browser lets any page send requests, also to a server that listens to this machine alone, and names the page behind
every POST in ``Origin``; other clients send none. A name that was made to lead to this machine (DNS rebinding) brings
its page's origin with it, and the page's own host in ``Host``. So the two are not held against each other: an origin
has to be one that the operator knows, or of this machine where the server was asked as such. What only tells public
content is open to every page and does not ask here. Spec: MCP Transports "Security".

Of a link, a picture or a form by GET the browser names no page, and says in ``Sec-Fetch-Site`` whether it was one of
another site (Fetch Metadata). It says so to this machine and over TLS; a GET in clear text to another machine looks
like that of a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import ValidationError
from skillwire.model.url import parse_url
from skillwire.server.http import read_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope

#: What a page is told that is not let in.
PAGE_REFUSED: Final = "PAGE_REFUSED"
#: What ``Sec-Fetch-Site`` says of a page of ours, and of nobody's page: an address that a person typed.
_NO_STRANGER: Final = frozenset({"", "same-origin", "none"})
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


class Origins:
    """The origins whose pages may act: those that the operator lists, and ``base_url``."""

    def __init__(self, known: Iterable[str], base_url: str) -> None:
        self._known = frozenset(parse_url(one).origin for one in (*known, *([base_url] if base_url else ())))

    def let_in(self, scope: Scope) -> bool:
        """Whether a request may act, by the page that its head names."""
        asked = read_fields(scope["headers"], b"origin", b"host", b"sec-fetch-site")
        origin, host = asked.get(b"origin", ""), asked.get(b"host", "")
        if origin:
            return self._knows(origin, host)
        site = asked.get(b"sec-fetch-site", "")
        return site in _NO_STRANGER or (site == "same-site" and _is_this_machine(host))

    def _knows(self, origin: str, host: str) -> bool:
        """Whether a request with these fields is let in.

        Trust: both are untrusted.
        """
        try:
            page = parse_url(origin)
        except ValidationError:  # "null", and whatever else is none
            return False
        return page.origin in self._known or (page.host in _THIS_MACHINE and _is_this_machine(host))


def _is_this_machine(host: str) -> bool:
    try:
        return parse_url(f"http://{host}").host in _THIS_MACHINE
    except ValidationError:
        return False
