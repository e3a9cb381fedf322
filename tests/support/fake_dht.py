"""A DHT in memory: what its nodes hold, which of them are silent, and what was asked."""

import time
from typing import Any

from skillwire.errors import FetchError
from skillwire.model.lan import DhtAnswer, DhtBootstrap, DhtBucket, DhtOwn, DhtPong, DhtPut, DhtSkill, DhtStatus

DIGEST = f"sha256:{'a' * 64}"
OWN_KEY = "0" * 64


def dht_skill(skill_id="staff-directory", number=1, **facts):
    """Return the record of a certified publisher, unless told otherwise."""
    now = time.time()
    told: dict[str, Any] = {
        "agent_id": f"agent-{number}",
        "version": "1.0.0",
        "skill_type": "tool-skill",
        "endpoint": f"http://192.168.1.{number}:8000",
        "capabilities": ("org-data-read",),
        "scenes": ("auth",),
        "digest": "",
        "trust": "verified",
        "announced": now - 3,
        "expires": now + 597,
        "key_id": f"{number}" * 64,
    }
    return DhtSkill(skill_id=skill_id, **(told | facts))


class FakeDhtAgent:
    """Stands in for :class:`skillwire.adapters.dht.agent.DhtAgent`; ``nodes`` answer, ``silent`` do not."""

    key_id = OWN_KEY
    settings: Any = None  # that the command gave

    def __init__(self, *skills, nodes=3, silent=(), keys_without_answer=()):
        self.skills = list(skills)
        self.nodes, self.silent, self.lost = nodes, tuple(silent), tuple(keys_without_answer)
        self.stores, self.full = True, ()
        self.asked = []

    async def start(self):
        self.asked.append("start")

    async def stop(self):
        self.asked.append("stop")

    async def get(self, skill_id, capability, *, seconds):
        self.asked.append(("get", skill_id, capability))
        return self._answer(lambda one: one.skill_id == skill_id and capability in one.capabilities, seconds)

    async def find_by_name(self, skill_id, *, seconds):
        self.asked.append(("name", skill_id))
        return self._answer(lambda one: one.skill_id == skill_id, seconds)

    async def find_by_capability(self, capabilities, *, match, seconds):
        self.asked.append(("capability", tuple(capabilities), match))
        fits = {"all": all, "any": any}[match]
        return self._answer(lambda one: fits(able in one.capabilities for able in capabilities), seconds)

    async def put(self, offer, *, seconds):
        self.asked.append(("put", offer))
        return self._stored(seconds)

    async def remove(self, skill_id, capabilities, *, seconds):
        self.asked.append(("remove", skill_id, tuple(capabilities)))
        return self._stored(seconds)

    async def ping(self, host, port, *, seconds):
        self.asked.append(("ping", host, port))
        if not self.nodes:
            raise FetchError("DHT_UNREACHABLE", f"{host}:{port} did not answer within {seconds:g} s")
        return DhtPong("b" * 64, "agent-2", "unverified", 0.0012)

    def status(self):
        buckets = (DhtBucket(0, tuple(f"192.0.2.{number}:6881" for number in range(1, self.nodes + 1))),)
        own = (DhtOwn("notes", "1.0.0", time.time() - 70, 3),)
        entry = (DhtBootstrap("192.0.2.1:6881", bool(self.nodes)),)
        return DhtStatus(OWN_KEY, ("192.0.2.9:6881",), "open", buckets, 12, 9_600, own, entry, {"received": 40})

    def _answer(self, fits, seconds):
        found = tuple(filter(fits, self.skills)) if self.nodes else ()
        return DhtAnswer(found, self.nodes, self.silent, self.lost, 0.2 if self.nodes else seconds)

    def _stored(self, seconds):
        stored = self.nodes if self.stores else 0
        return DhtPut(stored, self.silent, 0.2 if self.nodes else seconds, self.full)
