"""How credentials are refused, in one place, so that no refusal tells more than it should.

A caller whose credentials are wrong is told with ``AUTH_REQUIRED``, which is 401; when it is the authorization server
that fails, with ``ISSUER_UNAVAILABLE``, which is 503: the caller's token may be good. Neither carries anything of a
token or a secret. Spec: SSP §8.3.2; RFC 6750 §3.1.
"""

from __future__ import annotations

from skillwire.errors import FetchError, SourceLocation, TrustError


def refused(message: str, reason: str) -> TrustError:
    """Return the refusal of credentials.

    Args:
        message: for people; nothing of the credentials in it.
        reason: for machines, such as ``expired``.
    """
    return TrustError("AUTH_REQUIRED", message, details={"reason": reason})


def unavailable(message: str, url: str) -> FetchError:
    """Return the error that says that the authorization server at ``url`` fails us."""
    return FetchError("ISSUER_UNAVAILABLE", message, place=SourceLocation(url))
