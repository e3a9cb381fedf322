"""A certificate stays good by itself, and what was taken back is known soon; whatever fails leaves what there was."""

import asyncio
import dataclasses

import pytest
from tests.support.eventually import eventually_async
from tests.support.loopback_lan import own_lan
from tests.unit.adapters.lan.conftest import DAY, SECONDS, load, renewal

from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.lan import certificates
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.certificates import RevocationRefresh
from skillwire.errors import FetchError
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.trust.certificates import RequestedNames, serial_of
from skillwire.trust.ecdsa import EcdsaIdentity


class TestRenewal:
    """The agent's side."""

    async def test_what_is_installed_is_seen_within_seconds(self, settings, authority, clock, tmp_path, monkeypatch):
        monkeypatch.setattr(certificates, "INSTALLED_SECONDS", 0.01)
        trust = load(dataclasses.replace(settings, renew_from=""), folder=tmp_path / "lan", now=clock.now)
        task = asyncio.create_task(renewal(trust, settings, clock).run())
        await asyncio.sleep(0.05)
        issued = authority.issue(RequestedNames(("agent-001",)), trust.identity.key.public_key(), clock.now)
        LanKeys(tmp_path / "lan").keep_certificate(issued)
        async with asyncio.timeout(SECONDS):
            await eventually_async(lambda: trust.identity.certificate == issued)
        task.cancel()

    async def test_it_tries_again_until_it_is_there_and_says_each_trouble_once(
        self, trust, settings, clock, desk, monkeypatch
    ):
        monkeypatch.setattr(certificates, "_FIRST_PAUSE", 0.01)
        monkeypatch.setattr(certificates, "_LOOK", 0.01)
        told: list[str] = []
        first = trust.identity.certificate
        clock.now += 5 * DAY
        desk.trouble = FetchError("CONNECT_FAILED", "nobody is there")
        task = asyncio.create_task(renewal(trust, settings, clock, notify=told.append).run())
        async with asyncio.timeout(SECONDS):
            await eventually_async(lambda: len(desk.asked) >= 3)
            desk.trouble = None
            await eventually_async(lambda: trust.identity.certificate != first)
        task.cancel()
        assert len(told) == 1
        assert "nobody is there" in told[0]


class TestOrphans:
    """Certificates of a SkillCenter CA that was taken back: they are renewed at once, for the key in the book."""

    @staticmethod
    def take_back(authority, now):
        """Renew the SkillCenter CA, and take the one before back."""
        first = serial_of(authority.centers[0])
        authority.renew(now)
        authority.revoke(first, now)

    @pytest.mark.spec("SDP-authority-renewal")
    @pytest.mark.usefixtures("desk")
    @pytest.mark.parametrize("is_local", [True, False])
    async def test_one_is_renewed_as_soon_as_it_is_known(self, *, trust, settings, clock, authority, is_local):
        first = trust.identity.certificate
        own = dataclasses.replace(settings, renew_from=str(authority.folder)) if is_local else settings
        waking = renewal(trust, own, clock)
        task = asyncio.create_task(waking.run())
        self.take_back(authority, clock.now)
        refresh = RevocationRefresh(trust, own, waking.wake, clock=clock)
        assert await refresh.refresh("https://registry.example/lan/revocations")
        async with asyncio.timeout(SECONDS):
            await eventually_async(lambda: trust.identity.certificate != first)
        task.cancel()
        found = trust.authority.judge("agent-001", trust.identity.certificate, clock.now)
        assert found is not None
        assert (found.standing, found.skills) == (Standing.CERTIFIED, {"skill-a"})
        assert authority.book().rows[-1].renews == serial_of(first)
        assert not await waking.renew()


class TestRevocations:
    """What was taken back is learned, whatever fails on the way."""

    @pytest.mark.spec("SDP-renewal")
    async def test_an_agent_takes_that_care_as_long_as_it_is_there(self, *, settings, authority, desk, clock):
        lan = own_lan()
        here = {"interfaces": ("127.0.0.1",), "group": lan.group, "port": lan.port, "mdns": False}
        agent = LanAgent(dataclasses.replace(settings, **here), keeps_state=False)
        trust = agent.trust
        assert trust is not None
        assert isinstance(trust.identity, EcdsaIdentity)
        key = trust.identity.key.public_key()
        old = authority.issue(RequestedNames(("agent-001",)), key, clock.now, days=60 / DAY)  # it began minutes ago
        own, keys, revocations = trust.identity.certificate, trust.keys, trust.revocations
        assert keys is not None
        assert revocations is not None
        keys.keep_certificate(old)
        before = asyncio.all_tasks()
        async with agent:
            async with asyncio.timeout(SECONDS):
                await eventually_async(lambda: len(desk.asked) == 2)
                await eventually_async(lambda: trust.identity.certificate not in {own, old})
                await eventually_async(lambda: revocations.ends() is not None)
        assert trust.identity.certificate == keys.certificate()
        assert set(desk.asked) == {f"https://registry.example/lan/{one}" for one in ("certificates", "revocations")}
        assert asyncio.all_tasks() == before

    async def test_a_file_is_looked_at_while_the_agent_runs_and_its_end_is_said(
        self, *, trust, settings, authority, clock, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(certificates, "_FILES", 0.01)
        copy = tmp_path / "revocations.pem"
        copy.write_bytes(authority.revocations(clock.now))
        told: list[str] = []
        has_changed = asyncio.Event()
        own = dataclasses.replace(settings, revocations=(str(copy),))
        refresh = RevocationRefresh(trust, own, has_changed.set, clock=clock, notify=told.append)
        task = asyncio.create_task(refresh.run())
        async with asyncio.timeout(SECONDS):
            await has_changed.wait()
            has_changed.clear()
            authority.revoke("agent-001", clock.now)
            copy.write_bytes(authority.revocations(clock.now))
            await has_changed.wait()
            assert len(trust.revocations) == 1
            copy.unlink()
            clock.now += 8 * DAY
            await eventually_async(lambda: len(told) >= 3)
        task.cancel()
        assert len(trust.revocations) == 1
        counts = {
            words: sum(words in text for text in told)
            for words in ("our own", "cannot be read", "revocation list expired")
        }
        assert counts == dict.fromkeys(counts, 1)
