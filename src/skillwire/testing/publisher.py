"""A publisher without a network: answers requests from a dictionary, in place of a driver.

    publisher = SimulatedPublisher()
    publisher.answer("https://example.com/.well-known/agent-skills/index.json", index_bytes)
    client.driver = publisher

It answers conditional requests as a server does, remembers every request, and can be made to fail. What changes from
one request to the next, such as the status of an execution, is a row of answers to one method:

    publisher.reply("POST", "https://example.com/invoke", accepted)
    publisher.reply("GET", "https://example.com/status/exec-1", running, FetchError(...), completed)
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeVar

from skillwire.errors import SkillwireError
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.wire.exchange import Exchange, HttpRequest

T = TypeVar("T")


class SimulatedPublisher:
    """Stands where :class:`skillwire.adapters.http.sync.SyncDriver` would.

    ``requests`` are all that came, in order. ``policy`` and ``on_traffic`` are what a client sets, and are not used.
    """

    def __init__(self) -> None:
        self.policy = AddressPolicy()
        self.on_traffic: Callable[[str, int], object] = lambda *_: None
        self.requests: list[HttpRequest] = []
        self._answers: dict[str, HttpResponse | SkillwireError] = {}
        self._rows: dict[tuple[str, str], list[HttpResponse | SkillwireError]] = {}

    def answer(self, url: str, body: bytes, *, status: int = 200, **headers: str) -> None:
        """Answer requests for ``url`` so from now on; ``cache_control="no-cache"`` becomes that header."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields.setdefault("etag", f'"{hashlib.sha256(body).hexdigest()[:16]}"')
        self._answers[url] = HttpResponse(url, status, fields, body)

    def reply(self, method: str, url: str, *outcomes: HttpResponse | SkillwireError) -> None:
        """Answer requests of ``method`` for ``url`` by these, one after the other, the last one again and again."""
        self._rows[method, url] = [one._replace(url=url) if isinstance(one, HttpResponse) else one for one in outcomes]

    def fail(self, url: str, error: SkillwireError) -> None:
        """Fail requests for ``url`` so from now on, as a driver would."""
        self._answers[url] = error

    def forget(self, url: str) -> None:
        """Answer requests for ``url`` with 404 again."""
        del self._answers[url]

    def run(self, exchange: Exchange[T]) -> T:
        """Drive ``exchange`` to its end and return its result."""
        try:
            request = next(exchange)
            while True:
                outcome = self._ask(request)
                request = exchange.send(outcome) if isinstance(outcome, HttpResponse) else exchange.throw(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def run_all(
        self, exchanges: Iterable[Exchange[T]], *, on_done: Callable[[], object] = lambda: None
    ) -> list[T | SkillwireError]:
        """Drive ``exchanges``, one after the other; return their results or errors in order."""
        results: list[T | SkillwireError] = []
        for exchange in exchanges:
            try:
                results.append(self.run(exchange))
            except SkillwireError as error:
                results.append(error)
            on_done()
        return results

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def _ask(self, request: HttpRequest) -> HttpResponse | SkillwireError:
        self.requests.append(request)
        if row := self._rows.get((request.method, request.url)):
            return row.pop(0) if len(row) > 1 else row[0]
        found = self._answers.get(request.url)
        if found is None:
            return HttpResponse(request.url, 404, {}, b"")
        if isinstance(found, HttpResponse) and request.headers.get("If-None-Match") == found.headers["etag"]:
            return HttpResponse(request.url, 304, found.headers, b"")
        return found
