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
from typing import TYPE_CHECKING, Any, TypeVar

from skillwire.errors import SkillwireError
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import All, HttpRequest, HttpResponse, Work, drive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.wire.exchange import Flow, Step

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

    def send(self, request: HttpRequest) -> HttpResponse:
        """Answer one request; raise what :meth:`fail` set for its URL."""
        outcome = self._ask(request)
        if isinstance(outcome, SkillwireError):
            raise outcome
        return outcome

    def run(self, flow: Flow[T]) -> T:
        """Run ``flow`` to its end and return its result. No time passes."""
        return drive(flow, self._do)

    def run_all(
        self,
        flows: Iterable[Flow[T]],
        *,
        run: Callable[[Flow[T]], T] | None = None,
        on_done: Callable[[], object] = lambda: None,
    ) -> list[T | SkillwireError]:
        """Run ``flows``, one after the other; return their results or errors in order."""
        results: list[T | SkillwireError] = []
        for flow in flows:
            try:
                results.append((run or self.run)(flow))
            except SkillwireError as error:
                results.append(error)
            on_done()
        return results

    def _do(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return self.send(step)
        if isinstance(step, All):
            return self.run_all(step.flows, on_done=step.on_done)
        return step.call() if isinstance(step, Work) else None

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
