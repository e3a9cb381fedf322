"""A server that holds an authority, and an agent that it certifies: it is renewed, let in, and told of revocations."""

import time

import pytest
from tests.support.eventually import eventually_async
from tests.support.lan_server import LanServer
from tests.support.loopback_lan import own_lan
from tests.support.publishing import write_skill

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.lan import certificates
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.probes import send_to_known_address
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.certificates import RequestedNames, serial_of
from skillwire.wire.exchange import HttpRequest

DAY = 86_400.0
SECONDS = 40


@pytest.fixture
def authority(tmp_path):
    """Give an authority that is a month old."""
    return AuthorityFolder.create(tmp_path / "authority", "Test", time.time() - 30 * DAY)


@pytest.fixture
def lan():
    """Return the network that the server and the member are on."""
    return own_lan()


@pytest.fixture
def server(tmp_path, authority, lan):
    """Give a server that holds it, with a skill of the scene auth for those who are let in."""
    write_skill(
        tmp_path / "skills",
        "leads-sync",
        {"skill.toml": 'access = "restricted"\nscenes = ["auth"]\ncapabilities = ["org-data-read"]\n'},
    )
    write_skill(tmp_path / "skills", "open-door", {"skill.toml": 'scenes = ["auth"]\n'})
    trust = {"authority": str(authority.folder)}
    server = LanServer(tmp_path / "skills", tmp_path / "server", "--interface", "127.0.0.1", lan=lan, trust=trust)
    yield server.started()
    server.end()


@pytest.fixture
async def member(tmp_path, authority, lan, server, monkeypatch):
    """Give an agent with a certificate of five days ago, which it is time to renew."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "member"))
    monkeypatch.setattr(certificates, "_URLS", 0.3)
    keys = LanKeys()
    names = RequestedNames(("agent-002",))
    keys.keep_certificate(authority.issue(names, keys.key().public_key(), time.time() - 5 * DAY))
    settings = LanSettings(
        interfaces=("127.0.0.1",),
        mdns=False,
        **lan._asdict(),
        roots=(str(authority.root_file),),
        intermediates=(str(authority.center_file),),
        renew_from=f"http://127.0.0.1:{server.port}",
    )
    async with LanAgent(settings, keeps_state=False) as agent:
        yield agent


async def until(condition, what):
    await eventually_async(condition, what=what, patience=SECONDS)


def listed(agent):
    return {skill.skill_id: skill.is_verified for skill in agent.snapshot().skills}


async def test_a_server_renews_lets_in_and_tells_of_revocations(server, authority, member):
    (first,) = [row for row in authority.book().rows[1:] if row.agents == ("agent-002",) and not row.renews]
    await until(lambda: serial_of(member.trust.identity.certificate) != first.serial, f"not renewed: {member.notes}")
    renewed = next(
        row for row in authority.book().rows[1:] if row.serial == serial_of(member.trust.identity.certificate)
    )
    assert (renewed.agents, renewed.renews) == (("agent-002",), first.serial)
    assert member.trust.keys.certificate() == member.trust.identity.certificate
    assert renewed.ends > time.time() + 6 * DAY

    await until(lambda: listed(member).get("open-door"), "the server's skill is not verified")
    result = await member.request_scene("auth")
    assert result.is_joined
    assert result.skill_id == "open-door"
    info = result.connection_info
    assert str(info["apiKey"]).startswith("sw_")
    assert info["apiKey"] not in server.log()
    url = f"{info['protocol']}://{info['endpoint']}{info['basePath']}/skills/open-door.json"
    for key, status in ((info["apiKey"], 200), (f"{info['apiKey']}x", 401)):  # it is read in the field that is named
        assert (
            await send_to_known_address(HttpRequest(url, headers={str(info["authHeader"]): str(key)}))
        ).status == status

    authority.revoke(server.agent, time.time())
    await until(lambda: not listed(member), "what the server has announced is still listed")
    await until(lambda: member.counters["certificate"] > 0, "it was not refused when it came again")
    assert not listed(member)


@pytest.mark.spec("SDP-authority-renewal")
@pytest.mark.spec("SDP-authority-revocation")
async def test_a_server_and_its_member_go_on_under_another_skill_center_ca(server, authority, member):
    await until(lambda: listed(member).get("open-door"), f"the server's skill is not verified: {member.notes}")
    first = serial_of(authority.centers[0])
    new = authority.renew(time.time()).serial
    authority.revoke(first, time.time())  # by another process than the server, which has it open

    def issuers():
        rows = authority.book().rows
        return {name for row in rows if row.issuer == new for name in row.agents}

    await until(lambda: issuers() == {server.agent, "agent-002"}, f"not certified anew: {member.notes}")
    await until(lambda: listed(member).get("open-door"), "the server's skill is not verified again")
    result = await member.request_scene("auth")
    assert str(result.connection_info["apiKey"]).startswith("sw_")
    assert member.trust.revocations.authorities[-1] == authority.centers[0]
