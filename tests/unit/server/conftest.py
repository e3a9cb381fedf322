from __future__ import annotations

import time

import pytest


@pytest.fixture
def settle(monkeypatch):
    """Return what makes folders old enough for their signature to be relied on."""

    def settle(*_):
        # A folder settles when a tick of the clock has passed; the clock goes on a tick.
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + 1_000_000_000)

    return settle
