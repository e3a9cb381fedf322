"""Simulations for tests, ours and our users': a publisher without a network, and a local network in virtual time.

The names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.testing.fake_network import FakeNetwork
    from skillwire.testing.publisher import SimulatedPublisher
    from skillwire.testing.virtual_clock import VirtualClock

_HOMES = {"FakeNetwork": "fake_network", "SimulatedPublisher": "publisher", "VirtualClock": "virtual_clock"}

__all__ = ["FakeNetwork", "SimulatedPublisher", "VirtualClock"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
