"""Both HTTP drivers behind one face, so that each test runs over both."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.http.connection import Resolver, resolve_host
from skillwire.adapters.http.sync import SyncDriver
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

_LOOPS = {"async": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Drive:
    """A driver, called as if it were synchronous.

    Args:
        kind: ``sync``, ``async``, or ``uvloop``, which is the asynchronous driver on the server's loop.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._runner = None if kind == "sync" else asyncio.Runner(loop_factory=_LOOPS[kind])
        self._driver: SyncDriver | AsyncDriver
        self.open(AddressPolicy())

    def open(self, policy: AddressPolicy, *, resolve: Resolver = resolve_host, **options: Any) -> None:
        self._driver = (SyncDriver if self._runner is None else AsyncDriver)(policy, resolve=resolve, **options)

    def naming(self, *urls: str) -> None:
        for url in urls:
            self._driver.policy = self._driver.policy.naming(parse_url(url))

    def forget(self) -> None:
        """Name nothing any more."""
        self._driver.policy = AddressPolicy()

    def run(self, exchange: Any) -> Any:
        return self._result(self._driver.run(exchange))

    def run_all(self, exchanges: Any, **options: Any) -> Any:
        return self._result(self._driver.run_all(exchanges, **options))

    def get(self, url: str, **options: Any) -> Any:
        self.naming(url)
        return self.run(fetch(HttpRequest(url, **options)))

    def close(self) -> None:
        """Close the driver; it may be used again."""
        self._result(self._driver.close())

    def end(self) -> None:
        self.close()
        if self._runner is not None:
            self._runner.close()

    def _result(self, outcome: Any) -> Any:
        return outcome if self._runner is None else self._runner.run(outcome)


@pytest.fixture(params=["sync", *_LOOPS])
def drive(request: pytest.FixtureRequest) -> Iterator[Drive]:
    driver = Drive(request.param)
    yield driver
    driver.end()
