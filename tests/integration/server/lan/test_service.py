"""The life of an agent in a server: what it announces and when, how it hears of changes, and how it leaves."""

import asyncio
import dataclasses
import shutil

import pytest
from structlog.testing import capture_logs
from tests.support.fake_lan_agent import FakeLanAgent, no_network
from tests.support.publishing import write_skill

from skillwire.errors import DecodeError, SourceLocation, TrustError, ValidationError
from skillwire.model.execution import ExecutionSettings
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Reason, SkillType
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.lan import service
from skillwire.server.lan.health import BROKEN, FAILED, GOOD, UNCHECKED, Answer, HealthChecks
from skillwire.server.lan.service import PeerWarnings, advertised_address
from skillwire.server.publisher import Publisher


async def test_what_everybody_may_see_is_announced_and_nothing_else(serve):
    site = await serve()
    assert list(site.agent.offers) == ["leads-sync"]
    offer = site.agent.offers["leads-sync"]
    assert (offer.endpoint, offer.skill_type, offer.scenes) == (Endpoint("", 8000), SkillType.TOOL, ("auth",))


class Failing:
    """Changes that cannot be heard."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise RuntimeError("no memory")


async def test_hearing_that_fails_is_told_and_begun_again(serve, monkeypatch, capsys):
    listen, failures = FakeLanAgent.listen, [Failing()]
    monkeypatch.setattr(FakeLanAgent, "listen", lambda self: failures.pop() if failures else listen(self))
    site = await serve()
    await site.until(lambda agent: agent.listeners)
    assert "could not follow changes of the LAN" in capsys.readouterr().out
    number = await site.lan.changed(-1, 0.0)
    site.agent.tell()
    assert await site.lan.changed(number, 20.0) > number


async def test_changes_of_the_folders_are_followed(serve, skills):
    site = await serve()
    write_skill(skills, "csv-profile")
    await site.until(lambda agent: set(agent.offers) == {"leads-sync", "csv-profile"})
    write_skill(skills, "csv-profile", version="2.0.0")
    await site.until(lambda agent: agent.offers["csv-profile"].version == "2.0.0")
    shutil.rmtree(skills / "leads-sync")
    await site.until(lambda agent: set(agent.offers) == {"csv-profile"})


async def test_a_skill_that_is_closed_says_goodbye(serve, skills):
    site = await serve()
    (skills / "leads-sync" / "skill.toml").write_text('access = "private"\n')
    await site.until(lambda agent: not agent.offers)
    (skills / "leads-sync" / "skill.toml").write_text('access = "restricted"\n')
    write_skill(skills, "csv-profile")
    await site.until(lambda agent: set(agent.offers) == {"csv-profile"})


async def test_a_broken_skill_is_degraded_until_it_is_mended(serve, skills):
    site = await serve()
    text = (skills / "leads-sync" / "SKILL.md").read_text()
    (skills / "leads-sync" / "SKILL.md").write_text("no skill")
    await site.until(lambda agent: agent.reports)
    assert site.agent.reports == [("leads-sync", "DEGRADED", BROKEN.detail)]
    assert site.agent.health("leads-sync") is HealthStatus.DEGRADED
    assert set(site.agent.offers) == {"leads-sync"}
    (skills / "leads-sync" / "SKILL.md").write_text(text)
    await site.until(lambda agent: len(agent.reports) == 2)
    assert site.agent.reports[1] == ("leads-sync", "HEALTHY", "")
    assert site.agent.health("leads-sync") is HealthStatus.HEALTHY


async def test_what_nobody_granted_is_announced_as_degraded_before_anybody_calls_it(serve, skills):
    action = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
    write_skill(skills, "adder", {"skill.toml": action, "main.py": "def main(args): ...\n"})
    site = await serve()
    await site.until(lambda agent: agent.reports)
    assert site.agent.reports == [("adder", "DEGRADED", "it is not granted on this server")]


@pytest.mark.spec("SDP-heartbeat-callback")
async def test_a_folder_says_how_its_skill_is_and_a_change_is_told_at_once(serve, skills, monkeypatch, capsys):
    said: list[Answer] = [Answer(GOOD)]

    async def ask(_, skill, check):
        assert (skill.name, check.export) == ("adder", "look")
        return said[0]

    monkeypatch.setattr(HealthChecks, "ask", ask)
    action = '[runtime]\nentrypoint = "main.py"\n[health]\nexport = "look"\n'
    files = {"skill.toml": action, "main.py": "def main(args): ...\ndef look(args): ...\n"}
    write_skill(skills, "adder", files)
    site = await serve(configuration=ServerConfiguration(executions=ExecutionSettings(grant_all=True)))
    await site.until(lambda agent: len(agent.reports) == 2)
    assert site.agent.reports == [("adder", "DEGRADED", UNCHECKED.detail), ("adder", "HEALTHY", "")]
    assert "reported a skill's health on the LAN" not in capsys.readouterr().out
    said[0] = Answer(FAILED, "it raised, at /home/alice")
    write_skill(skills, "adder", {**files, "data.txt": "new"})
    await site.until(lambda agent: len(agent.reports) == 3)
    assert site.agent.reports[2] == ("adder", "UNHEALTHY", FAILED.detail)
    assert site.agent.health("adder") is HealthStatus.UNHEALTHY
    await site.application.shutdown()


async def test_a_function_says_how_its_skill_is(serve):
    publisher = Publisher()
    said: list[object] = [True]

    @publisher.skill(health=lambda: said[0])
    def forecast(city: str) -> str:
        """Say what the weather will be."""
        return city

    site = await serve(functions=publisher.functions)
    assert "forecast" in site.agent.offers
    assert site.agent.health("forecast") is HealthStatus.HEALTHY
    said[0] = "MAINTENANCE"
    await site.until(lambda agent: agent.reports)
    assert site.agent.reports == [("forecast", "MAINTENANCE", "its health check reports it")]
    said[0] = False
    await site.until(lambda agent: len(agent.reports) == 2)
    assert site.agent.reports[1] == ("forecast", "UNHEALTHY", "its health check reports it")


async def test_a_network_that_cannot_be_used_is_tried_again_and_requests_are_answered(serve):
    site = await serve(failures=[no_network(), no_network(), ValueError("a defect")])
    assert (await site.get("/.well-known/agent-skills/index.json")).status == 200
    await site.until(lambda agent: agent.announced)
    assert len(site.agents) == 4
    assert site.lan.trouble == ""
    assert site.lan.agent_id == "agent-001"


async def test_it_says_why_there_is_no_network(serve, monkeypatch):
    monkeypatch.setattr(service, "_RETRY_SECONDS", 60.0)
    site = await serve(failures=[no_network()])
    await site.until(lambda _: site.lan.trouble)
    assert site.lan.trouble == "no interface is up that takes multicast"
    assert (site.lan.snapshot(), site.lan.count(), site.lan.agent_id) == (None, None, "")
    await site.application.shutdown()
    assert site.agent.left is None


async def test_what_is_wrong_in_a_configuration_is_logged_with_its_place(serve, monkeypatch):
    monkeypatch.setattr(service, "_RETRY_SECONDS", 60.0)
    flaw = ValidationError(
        "LAN_TRUST", "root.pem: it cannot be read", place=SourceLocation("skillwire.toml", 8), fix="Correct it."
    )
    with capture_logs() as logs:
        site = await serve(failures=[flaw])
        await site.until(lambda _: site.lan.trouble)
    [logged] = [one for one in logs if one["event"] == "not on the LAN"]
    assert (logged["code"], logged["place"], logged["fix"]) == ("LAN_TRUST", "skillwire.toml:8", "Correct it.")


async def test_without_an_address_nothing_is_announced(serve):
    site = await serve(begin=False)
    site.lan._endpoint = None
    await site.application.startup()
    assert site.lan.trouble
    assert not site.agents


async def test_goodbye_is_said_once_and_before_anything_ends(serve):
    site = await serve()
    await site.application.unregister()
    assert site.agent.left is Reason.SHUTDOWN
    assert (await site.get("/.well-known/agent-skills/index.json")).status == 200
    site.agent.left = None
    await site.application.shutdown()
    assert site.agent.left is None


@pytest.mark.spec("SDP-unregister-reason")
async def test_a_goodbye_says_what_the_operator_says_when_the_server_is_told_to_end(serve):
    site = await serve()
    site.lan.settings = dataclasses.replace(site.lan.settings, goodbye_reason=Reason.MAINTENANCE)
    await site.application.unregister()
    assert site.agent.left is Reason.MAINTENANCE

    site = await serve()
    reason = [Reason.SHUTDOWN]
    site.lan.goodbye_reason = lambda: reason[0]
    reason[0] = Reason.UPGRADE
    await site.application.shutdown()
    assert site.agent.left is Reason.UPGRADE


async def test_a_file_that_was_spoilt_meanwhile_keeps_nobody_from_ending(serve, capsys):
    site = await serve()

    def spoilt():
        raise DecodeError("TOML_SYNTAX", "no TOML any more")

    site.lan.goodbye_reason = spoilt
    site.lan.settings = dataclasses.replace(site.lan.settings, goodbye_reason=Reason.UPGRADE)
    await site.application.unregister()
    assert site.agent.left is Reason.UPGRADE
    assert "no TOML any more" in capsys.readouterr().out


@pytest.mark.spec("SDP-unregister-reason")
async def test_a_server_that_fails_says_so_whatever_its_operator_says(serve):
    site = await serve()
    site.lan.goodbye_reason = lambda: pytest.fail("asked")
    await site.application.unregister(has_failed=True)
    assert site.agent.left is Reason.ERROR
    await site.application.shutdown()
    assert site.agent.left is Reason.ERROR


@pytest.mark.parametrize("trouble", [asyncio.Event().wait, None])
async def test_a_goodbye_that_fails_does_not_hold_up_the_end(serve, monkeypatch, trouble):
    monkeypatch.setattr(service, "_GOODBYE_SECONDS", 0.05)
    site = await serve()

    async def stop(_):
        if trouble is None:
            raise OSError("the network is gone")
        await trouble()

    site.agent.stop = stop
    async with asyncio.timeout(10):
        await site.application.unregister()


async def test_who_waits_is_told_of_changes_and_of_the_end(serve):
    site = await serve()
    await site.until(lambda agent: agent.listeners)
    before = await site.lan.changed(-1, 0.0)
    waiting = asyncio.create_task(site.lan.changed(before, 20.0))
    await asyncio.sleep(0)
    site.agent.tell()
    assert await waiting > before
    waiting = asyncio.create_task(site.lan.changed(await site.lan.changed(-1, 0.0), 20.0))
    await asyncio.sleep(0)
    await site.application.unregister()
    async with asyncio.timeout(10):
        await waiting


async def test_it_goes_on_after_a_defect(serve, monkeypatch):
    site = await serve(heartbeat=0.05)
    real = site.lan._health.look
    failed: list[int] = []

    async def look(*given):
        if not failed:
            failed.append(1)
            raise RuntimeError("a defect")
        return await real(*given)

    monkeypatch.setattr(site.lan._health, "look", look)
    await site.until(lambda _: failed)
    announced = site.agent.announced
    site.lan._announcer._announced = None  # as a new one would have it
    await site.until(lambda agent: agent.announced > announced)


async def test_a_report_that_fails_keeps_no_other_back_and_is_not_made_for_ever(serve, skills, monkeypatch, capsys):
    tried: list[str] = []
    real = FakeLanAgent.report

    def report(self, skill_id, status, detail=""):
        tried.append(skill_id)
        if skill_id == "adder":
            raise RuntimeError("a defect")
        real(self, skill_id, status, detail)

    monkeypatch.setattr(FakeLanAgent, "report", report)
    action = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
    for name in ("adder", "divider"):
        write_skill(skills, name, {"skill.toml": action, "main.py": "def main(args): ...\n"})
    site = await serve(heartbeat=0.05)
    await site.until(lambda agent: agent.reports)
    assert site.agent.reports == [("divider", "DEGRADED", "it is not granted on this server")]
    looks, look = [], site.lan._announcer.look

    async def counted(*given):
        looks.append(given)
        return await look(*given)

    monkeypatch.setattr(site.lan._announcer, "look", counted)
    await site.until(lambda _: len(looks) > 1)
    assert tried == ["adder", "divider"]
    assert capsys.readouterr().out.count("task=announcements") == 2  # it failed, and works again


USUAL = LanSettings()
EVERY = "0.0.0.0"  # noqa: S104  # nothing is bound


@pytest.mark.parametrize(
    ("addresses", "host", "interfaces", "has_ipv6"),
    [
        ([(EVERY, 8000), ("::", 8000)], "", (), True),
        ([("::", 8000)], "", (), True),
        ([(EVERY, 8000)], "", (), False),
        ([("192.0.2.7", 8000)], "192.0.2.7", ("192.0.2.7",), True),
        ([("127.0.0.1", 8000)], "127.0.0.1", ("127.0.0.1",), True),
        ([("fd00::1", 8000)], "fd00::1", ("fd00::1",), True),
    ],
)
def test_the_links_follow_from_where_it_listens(addresses, host, interfaces, has_ipv6):
    endpoint, settings = advertised_address(USUAL, addresses)
    assert endpoint == Endpoint(host, 8000)
    assert settings.interfaces == interfaces
    assert bool(settings.group6) == has_ipv6


def test_what_the_operator_names_is_used():
    _, settings = advertised_address(LanSettings(interfaces=("eth7",)), [("192.0.2.7", 8000)])
    assert settings.interfaces == ("eth7",)


def refusal(host):
    return TrustError("DISC_003", f"{host} does not register skill-a: UNAUTHORIZED")


def test_each_is_told_once_with_what_to_do():
    troubles = PeerWarnings()
    with capture_logs() as logs:
        troubles.log(refusal("192.0.2.1"))
        troubles.log(refusal("192.0.2.1"))
    (told,) = logs
    assert (told["event"], told["code"], told["log_level"]) == ("not registered on the LAN", "DISC_003", "warning")
    assert "clock" in told["fix"]


def test_the_end_of_a_refusal_is_logged_once_with_the_skill():
    troubles = PeerWarnings()
    with capture_logs() as logs:
        troubles.log(refusal("192.0.2.1"))
        troubles.log_recovery("192.0.2.1", "skill-a", refusal("192.0.2.1").message)
        troubles.log_recovery("192.0.2.1", "skill-a", refusal("192.0.2.1").message)
    assert len(logs) == 2
    assert logs[1] == {
        "event": "registered on the LAN again",
        "log_level": "info",
        "skill": "skill-a",
        "by": "192.0.2.1",
    }


def test_the_end_of_each_refusal_that_is_logged_is_logged():
    troubles = PeerWarnings()
    with capture_logs() as logs:
        for status in ("UNAUTHORIZED", "INVALID"):
            error = TrustError("DISC_003", f"192.0.2.1 does not register skill-a: {status}")
            troubles.log(error)
            troubles.log_recovery("192.0.2.1", "skill-a", error.message)
    assert [one["log_level"] for one in logs] == ["warning", "info"] * 2


def test_a_network_that_refuses_and_refuses_does_not_fill_the_log_and_hushes_no_other_warning():
    troubles = PeerWarnings()
    with capture_logs() as logs:
        for number in range(1000):
            troubles.log(refusal(f"192.0.2.{number}"))
        troubles.log(TrustError("LAN_REFUSED", "192.0.2.8: the registration of a skill by an agent is refused"))
    assert len(logs) == 51
    assert (logs[50]["event"], logs[50]["code"]) == ("refused a registration on the LAN", "LAN_REFUSED")
