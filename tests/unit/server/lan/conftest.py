"""A server of skills whose agent of the local network is a fake."""

from functools import partial

import pytest
from tests.support.eventually import eventually_async
from tests.support.fake_lan_agent import FakeLanAgent
from tests.support.opened import open_tokens
from tests.support.publishing import Asgi, write_skill

from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings
from skillwire.server import create_app
from skillwire.server.lan import service

PATIENCE = 20.0


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return open_tokens()


@pytest.fixture
def skills(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "leads-sync", {"skill.toml": 'scenes = ["auth"]\n'})
    write_skill(folder, "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    write_skill(folder, "omega-plan", {"skill.toml": 'access = "private"\n'})
    return folder


class LanSite(Asgi):
    """A server, and its agent."""

    def __init__(self, application):
        super().__init__(application)
        self.agents = []
        self.failures = []
        self.lan = application.lan
        self.lan._make_agent = self.make_agent

    def make_agent(self, settings, health):
        agent = FakeLanAgent(settings, health, [self.failures.pop(0)] if self.failures else ())
        self.agents.append(agent)
        return agent

    @property
    def agent(self):
        return self.agents[-1]

    async def until(self, accept):
        """Return once ``accept`` says yes; it is asked again whenever the agent was told something."""
        await eventually_async(lambda: self.agents and accept(self.agent))


@pytest.fixture
async def serve(tmp_path, skills, tokens, monkeypatch):  # noqa: ARG001  # the state folder first
    monkeypatch.setattr(service, "_RETRY_SECONDS", 0.05)
    running = []

    async def serve(*, begin=True, heartbeat=0.1, failures=(), **options):
        settings = LanSettings(discovery=DiscoverySettings(heartbeat_interval=heartbeat))
        site = LanSite(
            create_app([skills], blobs=tmp_path / "blobs", publisher="acme", poll=0.05, lan=settings, **options)
        )
        site.failures = list(failures)
        site.lan.reached_at(("0.0.0.0", 8000), ("::", 8000))  # noqa: S104  # nothing is bound
        running.append(site.application)
        if begin:
            await site.application.startup()
            if not failures:
                await site.until(lambda agent: agent.announced)
        return site

    yield serve
    for application in running:
        await application.shutdown()


@pytest.fixture
def operator(tokens):
    """Return the fields of a program that shows a key of these scopes."""
    return partial(key_of, tokens)


def key_of(tokens, *scopes):
    return {"X-API-Key": tokens.issue("ann", scopes=scopes).secret}
