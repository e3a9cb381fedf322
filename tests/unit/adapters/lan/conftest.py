"""A desk that certifies in place of HTTP, an agent's trust, and a clock, for tests of certificates on both sides."""

import time
from typing import Any

import pytest

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan import certificates as refreshes
from skillwire.adapters.lan import certificates as renewals
from skillwire.adapters.lan.certificates import Renewal, RenewalService, RevocationRefresh
from skillwire.errors import TrustError
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.certificates import RequestedNames

DAY = 86_400.0
SECONDS = 30


def load(settings, **options):
    return load_trust(settings, **options)


class Clock:
    """What time it is, as the test says."""

    def __init__(self):
        self.now = time.time()

    def __call__(self):
        return self.now


class Desk:
    """A server that certifies, in place of HTTP; ``trouble`` is what it raises."""

    def __init__(self, folder, clock):
        self.desk = RenewalService(folder, clock)
        self.trouble = None
        self.asked = []

    async def post(self, url, body):
        self.asked.append(url)
        if self.trouble is not None:
            raise self.trouble
        answer = self.desk.renew(body)
        if answer.status != 200:
            raise TrustError("CERTIFICATE_REFUSED", answer.body.decode())
        return answer.body

    async def fetch(self, url):
        self.asked.append(url)
        if self.trouble is not None:
            raise self.trouble
        return self.desk.revocations().body


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def authority(tmp_path, clock):
    return AuthorityFolder.create(tmp_path / "authority", "Test", clock.now)


@pytest.fixture
def desk(authority, clock, monkeypatch):
    desk = Desk(authority, clock)
    monkeypatch.setattr(renewals, "post", desk.post)
    monkeypatch.setattr(refreshes, "_fetch", desk.fetch)
    return desk


@pytest.fixture
def settings(authority):
    return LanSettings(
        agent_id="agent-001",
        roots=(str(authority.root_file),),
        intermediates=(str(authority.center_file),),
        renew_from="https://registry.example",
    )


@pytest.fixture
def trust(authority, settings, clock, tmp_path):
    keys = LanKeys(tmp_path / "lan")
    names = RequestedNames(("agent-001",), ("skill-a",), ("192.0.2.7",))
    keys.keep_certificate(authority.issue(names, keys.key().public_key(), clock.now))
    return load(settings, folder=tmp_path / "lan", now=clock.now)


def renewal(trust, settings, clock, **options):
    return Renewal(trust, settings, clock=clock, **options)


@pytest.fixture
def learned(trust, settings, clock):
    """Give what refreshes, what it has told, and how often something was new."""
    told: list[str] = []
    news: list[int] = []
    refresh: Any = RevocationRefresh(trust, settings, lambda: news.append(1), clock=clock, notify=told.append)
    refresh.told, refresh.news = told, news
    return refresh
