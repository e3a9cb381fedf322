"""Which hosts a skill may reach: the patterns of ``permissions.network``, read once, asked for each connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable


class Pattern(NamedTuple):
    """``https://host[:port]``, or ``https://*.host[:port]`` for every name below ``host``, and not itself."""

    host: str
    port: int
    is_wildcard: bool

    def covers(self, host: str, port: int) -> bool:
        """Whether the pattern means ``host``, in lower case, and ``port``."""
        return port == self.port and (host.endswith(f".{self.host}") if self.is_wildcard else host == self.host)


def read_patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    """Return patterns that :func:`skillwire.folder.permissions.check_network` has accepted."""
    found = []
    for text in texts:
        url = parse_url(text.replace("://*.", "://", 1))
        found.append(Pattern(url.host, url.port, "://*." in text))
    return tuple(found)
