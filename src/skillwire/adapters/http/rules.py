"""What both drivers hold to, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import FetchError, Place, TrustError
from skillwire.version import VERSION

if TYPE_CHECKING:
    from skillwire.errors import SkillwireError
    from skillwire.model.url import Url
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import HttpRequest
    from skillwire.wire.http1 import ResponseReader

USER_AGENT: Final = f"skillwire/{VERSION}"

_REPEATABLE: Final = frozenset({"GET", "HEAD"})


def timed_out(request: HttpRequest) -> FetchError:
    """Return the error that says that a request took longer than it may."""
    return FetchError("TIMEOUT", f"no whole answer within {request.timeout:g} s", place=Place(request.url))


def may_repeat(request: HttpRequest, reader: ResponseReader, error: FetchError) -> bool:
    """Whether a request may be sent again because its kept connection ended before it was seen.

    A server may close an idle connection at any moment, also while a request is on its way (RFC 9112 §9.3.1).
    """
    return error.code == "CONNECTION_LOST" and not reader.started and request.method in _REPEATABLE


def still_allowed(policy: AddressPolicy, url: Url, address: str) -> bool:
    """Whether a kept connection may carry a request to ``url``; the policy may have changed since it was made."""
    try:
        policy.check_address(url, address)
    except TrustError:
        return False  # the check of the next connection says why
    return True


def weightier(first: SkillwireError | None, second: SkillwireError) -> SkillwireError:
    """Return which of two addresses' failures to report: the first one, but a refusal before anything else."""
    return second if first is None or (isinstance(second, TrustError) and not isinstance(first, TrustError)) else first


def no_address(url: Url) -> FetchError:
    """Return the error that says that a name has no address at all."""
    return FetchError("HOST_NOT_FOUND", f"no address for {url.host}", place=Place(str(url)))
