"""One request of an agent over HTTP: for a certificate, for lists, for details, for the key of a scene's provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import one

if TYPE_CHECKING:
    from skillwire.wire.exchange import HttpRequest, HttpResponse


async def ask(request: HttpRequest) -> HttpResponse:
    """Make one request to a URL whose address is known to be good, wherever that is, and follow nothing.

    Raises:
        FetchError: nobody answers.
    """
    async with AsyncDriver(AddressPolicy().naming(parse_url(request.url))) as driver:
        return await driver.run(one(request))
