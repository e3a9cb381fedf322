"""Proofs that the owner of a namespace controls a domain: a TXT record, or a file of its site.

The record is ``skillwire-namespace=NAME`` at ``_skillwire.DOMAIN``; the file ``/.well-known/skillwire-namespace`` of
``https://DOMAIN`` holds the name alone. Trust: a caller chooses the domain, so it is a public name, the address policy
decides on each connection, and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.trust.address import REFUSED_ADDRESS, is_local_name
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from skillwire.adapters.http.asynchronous import AsyncDriver

PROOF_PATH: Final = "/.well-known/skillwire-namespace"
_DOMAIN: Final = re.compile(r"(?=.{4,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
_OK: Final = 200
#: A look-up keeps a thread of the server for as long as the domain's name server likes.
_AT_ONCE: Final = 2


class NamespaceProofs:
    """Checks proofs through ``driver`` and ``find_records``, which returns the TXT records of a name."""

    def __init__(self, driver: AsyncDriver, find_records: Callable[[str], Awaitable[Sequence[str]]]) -> None:
        self._driver = driver
        self._find_records = find_records
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def close(self) -> None:
        """Close the kept connections."""
        await self._driver.close()

    async def check(self, kind: str, domain: str, namespace: str) -> None:
        """Check that ``domain`` names ``namespace``; ``kind`` is ``dns`` or ``file``.

        Raises UsageError (``PROOF_DOMAIN``), TrustError (``PROOF_MISSING``).
        """
        if not _DOMAIN.fullmatch(domain) or is_local_name(domain):
            raise UsageError("PROOF_DOMAIN", f"{ascii(domain)[:80]} is no public domain")
        async with self._turns:
            if kind == "dns":
                await self._check_record(f"_skillwire.{domain}", f"skillwire-namespace={namespace}")
            else:
                await self._check_file(f"https://{domain}{PROOF_PATH}", namespace)

    async def _check_record(self, name: str, expected: str) -> None:
        try:
            records = await self._find_records(name)
        except FetchError as error:
            raise TrustError("PROOF_MISSING", error.message, fix=error.fix) from error
        if expected not in records:
            raise TrustError("PROOF_MISSING", f"no TXT record of {name} is {expected}")

    async def _check_file(self, url: str, namespace: str) -> None:
        place = SourceLocation(url)
        request = HttpRequest(url, max_bytes=limits.REGISTRY_PROOF_BYTES, timeout=limits.REGISTRY_PROOF_SECONDS)
        try:
            response = await self._driver.run(fetch(request, max_redirects=0))
        except SkillwireError as error:
            # Where the policy refuses an address, it is one that only this network has for the name.
            why = "it leads to no public address" if error.code in REFUSED_ADDRESS else error.message
            raise TrustError("PROOF_MISSING", f"{url} cannot be read: {why}", place=place) from error
        if response.status != _OK or response.body.strip() != namespace.encode():
            raise TrustError("PROOF_MISSING", f"{url} does not hold {namespace} alone", place=place)
