"""An agent on a local network that is not available: what it finds is written down, and what was asked of it."""

import asyncio
import json
import threading
from typing import Any

import pytest
from tests.support.eventually import PATIENCE
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire import Client
from skillwire.client.session import ClientSession
from skillwire.errors import SkillwireError
from skillwire.model.lan import LanSkill, LanSnapshot, SceneResult
from skillwire.model.url import parse_url
from skillwire.resolver.sources.lan import unverified_scene
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpResponse


def lan_skill(skill_id="staff-directory", host="192.168.1.5", **facts):
    """Return a healthy, verified skill of the network, unless told otherwise."""
    told: dict[str, Any] = {
        "agent_id": f"agent-{host.rpartition('.')[2]}",
        "version": "1.0.0",
        "skill_type": "tool-skill",
        "port": 8000,
        "capabilities": ("org-data-read",),
        "scenes": ("auth",),
        "status": "HEALTHY",
        "is_verified": True,
    }
    return LanSkill(skill_id=skill_id, host=host, **(told | facts))


class FakeLanAgent:
    """Finds ``skills``, and lets into ``scenes``; ``asked`` holds what was asked, in order, and
    ``trusted`` whether the provider of a scene might be unverified.
    """

    def __init__(self, *skills, scenes=(), error=None):
        self.skills = list(skills)
        self.scenes = {scene.scene: scene for scene in scenes}
        self.orders: dict[str, list[tuple[str, str]]] = {}
        self.error = error
        self.asked = []
        self.warnings: tuple[SkillwireError, ...] = ()
        self.revoked: dict[str, str] = {}
        self.trusted = []
        self.loop: Any = None
        self._listeners: list[asyncio.Queue] = []
        self._listening = threading.Condition()

    async def start(self):
        self.loop = asyncio.get_running_loop()
        self.asked.append("start")
        if self.error is not None:
            raise self.error

    async def stop(self):
        self.asked.append("stop")

    async def discover(self, *, capabilities=(), scenes=(), **_):
        self.asked.append(("discover", tuple(capabilities), tuple(scenes)))
        return tuple(
            skill
            for skill in self.skills
            if set(capabilities) <= set(skill.capabilities) and (not scenes or set(scenes) & set(skill.scenes))
        )

    async def request_scene(self, scene, capabilities=(), *, is_join=False, use_unverified=None):
        self.trusted.append(use_unverified)
        self.asked.append(("join" if is_join else "request", scene, tuple(capabilities)))
        result = self.scenes.get(scene, SceneResult(scene, is_missing=True))
        is_verified = any(one.is_verified for one in self.skills if one.skill_id == result.skill_id)
        if result.is_joined and not is_verified and not use_unverified:
            raise unverified_scene(scene, result.skill_id, str(result.connection_info["endpoint"]))
        return result

    async def group_orders(self, scenes):
        return {name: self.orders.get(name, []) for name in scenes}

    def snapshot(self):
        return LanSnapshot("agent-client", 0.0, tuple(self.skills), ())

    def listen(self):
        queue: asyncio.Queue = asyncio.Queue()
        with self._listening:
            self._listeners.append(queue)
            self._listening.notify_all()

        async def changes():
            while (change := await queue.get()) is not None:
                yield change

        return changes()

    def tell(self, change, listeners=1):
        """Have something happen on the network, once so many listen: the client is the first of them."""
        with self._listening:
            assert self._listening.wait_for(lambda: len(self._listeners) >= listeners, PATIENCE)
            for queue in self._listeners:
                self.loop.call_soon_threadsafe(queue.put_nowait, change)


CITY = [{"name": "city", "type": "string", "description": "Where.", "required": True}]
FIRST, SECOND, THIRD = (lan_skill("forecast", f"192.168.1.{number}") for number in (1, 2, 3))
STAMPS = {"created_at": "2025-07-01T12:00:00Z", "updated_at": "2025-07-01T12:00:01Z"}


def told(body, status=200, **headers):
    return HttpResponse("", status, {"content-type": "application/json", **headers}, json.dumps(body).encode())


def done(number):
    return told(
        {
            "execution_id": f"exec-{number}",
            "status": "completed",
            "skill_id": ENTRY["id"],
            "timestamps": STAMPS,
            "output": {"from": number},
        }
    )


class Network:
    """Providers without a network, and a client whose agent is a fake."""

    def __init__(self, folder, monkeypatch):
        self.agent = FakeLanAgent()
        self.publisher = SimulatedPublisher()
        self.findings = []
        self.folder = folder
        self.agents = []
        self.clients = []
        monkeypatch.setattr(ClientSession, "make_lan_agent", lambda *_: self._made())
        self.client = self.open()

    def _made(self):
        self.agents.append(self.agent)
        return self.agent

    def open(self, **options):
        client = Client(self.folder, report=self.findings.append, **options)
        client.driver = self.publisher
        client._runner.sleep = lambda _: None
        self.clients.append(client)
        return client

    def serves(self, skill, *outcomes, method="POST"):
        """Have the server of a skill publish it, and answer calls so."""
        base = f"http://{skill.endpoint}"
        entry = {**ENTRY, "descriptor_url": f"{base}/forecast.json"}
        index = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": [entry]}
        descriptor = {**DESCRIPTOR, "endpoint": {"url": f"{base}/call", "method": method}, "inputs": CITY}
        self.publisher.answer(f"{base}/.well-known/skill-sharing", json.dumps(index).encode())
        self.publisher.answer(entry["descriptor_url"], json.dumps(descriptor).encode())
        self.publisher.reply(method, f"{base}/call" if method == "POST" else f"{base}/call?city=Bern", *outcomes)
        self.agent.skills.append(skill)

    def call(self, **options):
        return self.client.call("lan:org-data-read", {"city": "Bern"}, **options)

    def failing(self, **options):
        with pytest.raises(SkillwireError) as caught:
            self.call(**options)
        return caught.value

    @property
    def called(self):
        return [parse_url(one.url).host for one in self.publisher.requests if one.method == "POST"]

    @property
    def notes(self):
        return [(finding.code, finding.message) for finding in self.findings]
