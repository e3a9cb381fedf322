"""A publisher without a network: answers requests from a dictionary, in place of a driver.

    publisher = SimulatedPublisher()
    publisher.answer("https://example.com/.well-known/agent-skills/index.json", index_bytes)
    client.driver = publisher

It answers conditional requests, records every request, and can be made to fail. A row of answers to one method serves
what changes between requests, such as the status of an execution:

    publisher.reply("POST", "https://example.com/invoke", accepted)
    publisher.reply("GET", "https://example.com/status/exec-1", running, FetchError(...), completed)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from skillwire.errors import SkillwireError
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import All, Flow, HttpRequest, HttpResponse, Step, Work, drive

T = TypeVar("T")


class SimulatedPublisher:
    """Replaces :class:`skillwire.adapters.http.sync.SyncDriver`; ``requests`` has all requests in order."""

    def __init__(self) -> None:
        self.policy = AddressPolicy()
        self.on_traffic: Callable[[str, int], object] = lambda *_: None
        self.requests: list[HttpRequest] = []
        self._answers: dict[str, HttpResponse | SkillwireError] = {}
        self._rows: dict[tuple[str, str], list[HttpResponse | SkillwireError]] = {}

    def answer(self, url: str, body: bytes, *, status: int = 200, **headers: str) -> None:
        """Answer requests for ``url`` with ``body``; ``cache_control="no-cache"`` becomes that header."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields.setdefault("etag", f'"{hashlib.sha256(body).hexdigest()[:16]}"')
        self._answers[url] = HttpResponse(url, status, fields, body)

    def reply(self, method: str, url: str, *outcomes: HttpResponse | SkillwireError) -> None:
        """Answer requests of ``method`` for ``url`` with ``outcomes`` in order, and then with the last one."""
        self._rows[method, url] = [one._replace(url=url) if isinstance(one, HttpResponse) else one for one in outcomes]

    def fail(self, url: str, error: SkillwireError) -> None:
        """Fail requests for ``url`` with ``error``."""
        self._answers[url] = error

    def forget(self, url: str) -> None:
        """Answer requests for ``url`` with 404 again."""
        del self._answers[url]

    def send(self, request: HttpRequest) -> HttpResponse:
        """Answer one request; raise the error of :meth:`fail` or :meth:`reply`."""
        outcome = self._ask(request)
        if isinstance(outcome, SkillwireError):
            raise outcome
        return outcome

    def _ask(self, request: HttpRequest) -> HttpResponse | SkillwireError:
        self.requests.append(request)
        if row := self._rows.get((request.method, request.url)):
            return row.pop(0) if len(row) > 1 else row[0]
        found = self._answers.get(request.url)
        if isinstance(found, HttpResponse) and request.headers.get("If-None-Match") == found.headers["etag"]:
            return HttpResponse(request.url, 304, found.headers, b"")
        return found or HttpResponse(request.url, 404, {}, b"")

    def run(self, flow: Flow[T]) -> T:
        """Run ``flow`` to its end and return its result, without waiting."""
        return drive(flow, self._do)

    def run_all(
        self,
        flows: Iterable[Flow[T]],
        *,
        run: Callable[[Flow[T]], T] | None = None,
        on_done: Callable[[], object] = lambda: None,
        is_enough: Callable[[T], bool] = lambda _: False,
        delays: Sequence[float] = (),  # noqa: ARG002  # the form of drivers
    ) -> list[T | SkillwireError]:
        """Run ``flows``, one after the other; return their results or errors, in order."""
        waiting = list(flows)
        results: list[Any] = [None] * len(waiting)
        for number, flow in enumerate(waiting):
            try:
                results[number] = result = (run or self.run)(flow)
            except SkillwireError as error:
                results[number] = error
            else:
                if is_enough(result):
                    break
            on_done()
        return results

    def _do(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return self.send(step)
        if isinstance(step, All):
            return self.run_all(**step._asdict())
        return step.call() if isinstance(step, Work) else None

    def close(self) -> None:
        """Do nothing."""
