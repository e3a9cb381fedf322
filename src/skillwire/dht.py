"""The DHT for programs: its clients, and the values they take and return."""

from __future__ import annotations

from skillwire.client.dht import AsyncClient, Client
from skillwire.model.lan import DhtAnswer, DhtPong, DhtPut, DhtSkill, DhtStatus
from skillwire.protocols.skill_discovery.dht.records import DhtOffer

__all__ = ["AsyncClient", "Client", "DhtAnswer", "DhtOffer", "DhtPong", "DhtPut", "DhtSkill", "DhtStatus"]
