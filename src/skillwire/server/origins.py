"""Which pages may act here: one rule for ``/mcp``, ``/rpc``, ``/blobs``, and calls of Skill Sharing.

A browser lets any page send requests, also to a server that listens to this machine alone, and names the page behind
every POST in ``Origin``; other clients send none. With DNS rebinding a page names its own host in ``Origin`` and in
``Host``, so comparing the two proves nothing: an origin has to be listed by the operator, or belong to this machine in
a request to this machine. Public content is open to every page without this rule. Spec: MCP Transports "Security".

For a GET by a link, picture or form a browser sends no ``Origin``; ``Sec-Fetch-Site`` says whether the page was of
another site (Fetch Metadata). Browsers send it to this machine and over TLS; a GET in clear text to another machine
looks like that of a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import ValidationError
from skillwire.model.url import parse_url
from skillwire.server.http import read_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope

#: The reason code for a refused page.
PAGE_REFUSED: Final = "PAGE_REFUSED"
#: ``Sec-Fetch-Site`` of a program, of our own pages, and of an address that a person typed.
_OWN_SITE: Final = frozenset({"", "same-origin", "none"})
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


class Origins:
    """The origins whose pages may act: those that the operator lists, and ``base_url``."""

    def __init__(self, known: Iterable[str], base_url: str) -> None:
        self._known = frozenset(parse_url(one).origin for one in (*known, *([base_url] if base_url else ())))

    def let_in(self, scope: Scope) -> bool:
        """Whether a request may act, by the page that its head names. Trust: its fields are untrusted."""
        asked = read_fields(scope["headers"], b"origin", b"host", b"sec-fetch-site")
        origin, host = asked.get(b"origin", ""), asked.get(b"host", "")
        if not origin:
            site = asked.get(b"sec-fetch-site", "")
            return site in _OWN_SITE or (site == "same-site" and _is_this_machine(host))
        try:
            page = parse_url(origin)
        except ValidationError:  # such as "null"
            return False
        return page.origin in self._known or (page.host in _THIS_MACHINE and _is_this_machine(host))


def _is_this_machine(host: str) -> bool:
    try:
        return parse_url(f"http://{host}").host in _THIS_MACHINE
    except ValidationError:
        return False
