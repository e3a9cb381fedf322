"""TXT records, asked of the name servers that this machine is configured with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from skillwire import limits
from skillwire.errors import FetchError


async def find_txt_records(name: str) -> Sequence[str]:
    """Return the TXT records of ``name``, none for a name without any. Raises FetchError (``HOST_NOT_FOUND``)."""
    return await asyncio.to_thread(_find_txt_records, name)


def _find_txt_records(name: str) -> list[str]:
    import dns.resolver  # noqa: PLC0415  # takes 0.1 s, and few servers prove a namespace

    try:
        answer = dns.resolver.resolve(
            f"{name}.", "TXT", lifetime=limits.REGISTRY_PROOF_SECONDS, raise_on_no_answer=False
        )
        return [b"".join(record.strings).decode("utf-8", "replace") for record in answer]
    except dns.resolver.NXDOMAIN:
        return []
    except dns.exception.DNSException as error:
        reason = type(error).__name__  # its text names the resolver of this network
        raise FetchError("HOST_NOT_FOUND", f"{name} cannot be looked up ({reason})") from error
