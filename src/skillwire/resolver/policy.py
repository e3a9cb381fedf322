"""What may be installed from where: the policy that every ``add`` and ``update`` asks.

A skill is instructions that an agent will follow, so where it comes from is a decision, made by a person or
written down in settings, never by default. The policy is a value; asking a person is the caller's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from skillwire.errors import UsageError, ValidationError
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from skillwire.model.origin_record import OriginRecord

Decision = Literal["allow", "ask", "refuse"]


class _TrustedOrigins(NamedTuple):
    trusted_origins: frozenset[str]
    only_trusted: bool


class InstallPolicy(_TrustedOrigins):
    """Which origins may be installed from.

    Args:
        trusted_origins: origins (``https://example.com``) or whole hosts (``example.com``) that need no question.
        only_trusted: refuse every other origin instead of asking.

    Raises:
        UsageError: ``SETTING_FORM`` for a trusted origin that cannot be read; it would silently trust nobody.
    """

    __slots__ = ()

    def __new__(cls, trusted_origins: Iterable[str] = (), only_trusted: bool = False) -> Self:  # noqa: FBT001, FBT002  # the value's own fields, as a tuple takes them
        """Read the origins into their one written form."""
        return super().__new__(cls, frozenset(map(_read_trusted, trusted_origins)), only_trusted)

    def decide(self, base: str, record: OriginRecord | None) -> Decision:
        """Decide about a publisher's place: its URL without the well-known part, and what is remembered of it."""
        url = parse_url(base)
        if {base, str(url.origin), url.host, url.authority} & self.trusted_origins:
            return "allow"
        if self.only_trusted:
            return "refuse"
        return "allow" if record is not None and record.accepted else "ask"


def _read_trusted(text: str) -> str:
    """Return an origin, a scope or a host in its one written form."""
    try:
        if "://" in text:
            return str(parse_url(text)).removesuffix("/")
        url = parse_url(f"https://{text}")
    except ValidationError as error:
        raise UsageError("SETTING_FORM", f"trusted_origins: {error.message}", fix=error.fix) from error
    return url.authority + url.path.removesuffix("/")
