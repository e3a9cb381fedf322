"""What a server lists for a caller: the newest executions. Trust: the answer is hostile, bounded and checked."""

from __future__ import annotations

from typing import Final

import msgspec

from skillwire import limits
from skillwire.client.api import AsyncClient
from skillwire.errors import FetchError, SourceLocation, ValidationError
from skillwire.executions.view import ExecutionList
from skillwire.resolver.references import endpoint_url
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.wire.exchange import HttpRequest, HttpResponse

_OK: Final = 200
_UNAUTHORIZED: Final = 401


class _ListClient(AsyncClient):
    async def executions(self, url: str) -> HttpResponse:
        def request(credential: str | None) -> HttpRequest:
            fields = {"Accept": "application/json", **({"Authorization": credential} if credential else {})}
            return HttpRequest(url, "GET", fields, max_bytes=limits.MIB)

        return await self._runner.run(self._session.fetch_named(url, request))


async def read_executions(server: str, token: str | None) -> ExecutionList:
    """Return the newest executions that ``server`` lists for a token or the stored credential.

    Raises FetchError (``AUTH_REQUIRED``, ``HTTP_STATUS``), DecodeError, ValidationError (``VALIDATION_ERROR``).
    """
    url = f"{endpoint_url(server).rstrip('/')}/executions.json"
    async with _ListClient() as client:
        if token is not None:
            client.set_token(url, token)
        response = await client.executions(url)
    place = SourceLocation(url)
    if response.status == _UNAUTHORIZED:
        fix = "Create a key there: skillwire token create NAME --scope operator; then skillwire auth login, or --token."
        raise FetchError("AUTH_REQUIRED", server_message(response.body) or "a key is missing", place=place, fix=fix)
    if response.status != _OK:
        raise FetchError("HTTP_STATUS", f"the server answered {response.status}", place=place)
    document = load_json(response.body, max_bytes=limits.MIB, source=url)
    try:
        return msgspec.convert(document, ExecutionList)
    except msgspec.ValidationError as error:
        raise ValidationError("VALIDATION_ERROR", f"this is no list of executions: {error}", place=place) from error
