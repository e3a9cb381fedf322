"""Simulations for tests, ours and our users': a publisher without a network, and a local network in virtual time."""

from __future__ import annotations

from skillwire.testing.fake_network import FakeNetwork, VirtualClock
from skillwire.testing.publisher import AsyncSimulatedPublisher, SimulatedPublisher
from skillwire.wire.exchange import HttpResponse

__all__ = ["AsyncSimulatedPublisher", "FakeNetwork", "HttpResponse", "SimulatedPublisher", "VirtualClock"]
