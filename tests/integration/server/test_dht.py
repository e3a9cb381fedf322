"""A server in the DHT: what it announces and what never, how it follows its catalog, and what it says of its node."""

import asyncio
import dataclasses
import re
import shutil
import socket

import pytest
from structlog.testing import capture_logs
from tests.support.eventually import eventually_async
from tests.support.loopback_lan import own_lan
from tests.support.publishing import Asgi, write_skill

from skillwire import limits
from skillwire.adapters.dht import agent
from skillwire.adapters.dht.agent import DhtAgent
from skillwire.protocols.skill_discovery.settings import DhtSettings, LanSettings
from skillwire.server import create_app, dht
from skillwire.server.lan import service
from skillwire.wire.node import Peer

BIND = ("127.0.0.1",)


def settings(*bootstrap, **values):
    return LanSettings(dht=DhtSettings(enabled=True, bootstrap=bootstrap, port=0, bind=BIND, **values))


@pytest.fixture
def skills(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(dht, "_LOOK", 0.1)
    monkeypatch.setattr(service, "_RETRY_SECONDS", 0.1)
    folder = tmp_path / "skills"
    write_skill(folder, "leads-sync", {"skill.toml": 'capabilities = ["leads"]\nscenes = ["auth"]\n'})
    write_skill(folder, "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    write_skill(folder, "omega-plan", {"skill.toml": 'access = "private"\n'})
    return folder


@pytest.fixture
async def node(skills):
    """Start a node that is there before the servers, as a bootstrap node is."""
    assert skills
    async with DhtAgent(settings()) as agent:
        yield agent


@pytest.fixture
async def serve(tmp_path, skills):
    """Give what starts servers in the DHT."""
    running = []

    async def serve(found, **options):
        application = create_app([skills], blobs=tmp_path / "blobs", publisher="acme", poll=0.05, dht=found, **options)
        application.reached_at(("127.0.0.1", 8000))
        running.append(application)
        await application.startup()
        await application.catalog.first()
        return application

    yield serve
    for application in running:
        await application.shutdown()


async def names(node, *asked):
    """Return which of some skills are found."""
    answers = await asyncio.gather(*(node.find_by_name(name) for name in asked))
    return {skill.skill_id for answer in answers for skill in answer.skills}


ALL = ("leads-sync", "staff-guide", "omega-plan", "csv-profile")


@pytest.mark.parametrize(("restricted", "found"), [(False, {"leads-sync"}), (True, {"leads-sync", "staff-guide"})])
async def test_public_skills_are_announced_restricted_ones_where_configured_and_private_ones_never(
    node, serve, restricted, found
):
    application = await serve(settings(("127.0.0.1", node.port), announces_restricted=restricted))
    await eventually_async(lambda: names(node, *ALL), lambda seen: seen == found, every=0.2)
    [skill] = (await node.get("leads-sync", "leads")).skills
    artifact = application.catalog.current.catalog.skills["leads-sync"].artifact
    assert (skill.endpoint, skill.digest) == ("http://127.0.0.1:8000/", str(artifact.digest))
    assert (skill.version, skill.capabilities, skill.scenes) == ("1.0.0", ("leads",), ("auth",))
    status = application.dht.status()
    assert {own.skill_id for own in status.own} == found
    assert not (status.held and "omega-plan" in repr(status))


async def test_the_catalog_is_followed_and_the_end_withdraws_all(node, serve, skills):
    application = await serve(settings(("127.0.0.1", node.port)), base_url="https://skills.example.org/acme/")
    await eventually_async(lambda: names(node, *ALL), lambda seen: seen == {"leads-sync"}, every=0.2)
    write_skill(skills, "csv-profile")
    await eventually_async(lambda: names(node, *ALL), lambda seen: seen == {"leads-sync", "csv-profile"}, every=0.2)
    [skill] = (await node.find_by_name("csv-profile")).skills
    assert skill.endpoint == "https://skills.example.org/acme"
    (skills / "leads-sync" / "skill.toml").write_text('access = "private"\n')
    await eventually_async(lambda: names(node, *ALL), lambda seen: seen == {"csv-profile"}, every=0.2)
    shutil.rmtree(skills / "csv-profile")
    await eventually_async(lambda: names(node, *ALL), lambda seen: seen == set(), every=0.2)
    write_skill(skills, "csv-profile")
    await eventually_async(lambda: names(node, *ALL), lambda seen: seen == {"csv-profile"}, every=0.2)
    await application.unregister()
    assert await names(node, *ALL) == set()


@pytest.mark.parametrize(
    ("base_url", "event", "found"),
    [
        (None, "not announced whole in the DHT", {"leads-sync", "large"}),
        (f"https://example.org/{'a' * 900}", "not announced in the DHT", set()),
    ],
)
async def test_a_record_has_as_many_capabilities_as_fit_and_a_skill_without_one_is_left_out(
    node, serve, skills, *, base_url, event, found
):
    many = [f"capability-number-{number:040}" for number in range(30)]
    write_skill(skills, "large", {"skill.toml": f"capabilities = {many}\nscenes = ['auth']\n"})
    with capture_logs() as logs:
        application = await serve(settings(("127.0.0.1", node.port)), base_url=base_url)
        await eventually_async(lambda: [line for line in logs if line["event"] == event])
        await eventually_async(lambda: names(node, "large", *ALL), lambda seen: seen == found)
    line = next(line for line in logs if line["event"] == event and line["skill"] == "large")
    assert "bytes" in line["reason"]
    for skill in (await node.find_by_name("large")).skills:
        assert 1 <= len(skill.capabilities) < len(many)
        assert (list(skill.capabilities), skill.scenes) == (many[: len(skill.capabilities)], ())
        assert skill.digest == str(application.catalog.current.catalog.skills["large"].artifact.digest)
        assert (await node.get("large", skill.capabilities[-1])).skills


async def test_so_many_skills_are_announced_and_no_more(node, serve, skills, monkeypatch):
    monkeypatch.setattr(limits, "DHT_OFFERS", 3)
    for number in range(10):
        write_skill(skills, f"a-{number}")
    with capture_logs() as logs:
        application = await serve(settings(("127.0.0.1", node.port)))
        await eventually_async(application.dht.status)
        await eventually_async(lambda: len(application.dht.status().own) == 3)
    told = [line for line in logs if "announced in the DHT" in line["event"]]
    assert len(told) == 6
    assert told[-1]["skills"] == 3


async def test_metrics_and_readiness_tell_of_the_node(node, serve):
    application = await serve(settings(("127.0.0.1", node.port), ("127.0.0.1", 9)))
    client = Asgi(application)
    await eventually_async(lambda: names(node, "leads-sync"))
    await eventually_async(lambda: application.dht.status().nodes == 1)
    text = (await client.request("/metrics")).body.decode()
    for name, value in (("nodes", 1), ("own_skills", 1), ("bootstrap_unreachable", 1)):
        assert f"skillwire_dht_{name} {value}.0\n" in text
    assert re.search(r"skillwire_dht_records [1-9]", text)
    assert re.search(r"skillwire_dht_record_bytes [1-9]", text)
    assert re.search(r'skillwire_dht_events_total\{event="put"\} [1-9]', text)
    assert "127.0.0.1" not in "".join(line for line in text.splitlines() if "dht" in line)
    ready = await client.request("/readyz")
    assert (ready.status, ready.json()["notes"]) == (200, [])


async def test_a_silent_bootstrap_node_is_a_note_and_no_failure(serve, monkeypatch):
    monkeypatch.setattr(agent, "_SILENCE_SECONDS", 0.0)
    application = await serve(settings(("127.0.0.1", 9)))
    await eventually_async(application.dht.note)
    ready = await Asgi(application).request("/readyz")
    assert (ready.status, ready.json()["failing"]) == (200, {})
    assert ready.json()["notes"] == ["no bootstrap node of the DHT answers: 127.0.0.1:9"]


async def test_a_port_in_use_is_logged_once_and_tried_again_while_the_server_answers(serve, node):
    assert node
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken, capture_logs() as logs:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = settings()
        application = await serve(dataclasses.replace(found, dht=dataclasses.replace(found.dht, port=port)))
        await eventually_async(lambda: application.services.executions.service.background.failures["dht"] >= 3)
        ready = await Asgi(application).request("/readyz")
        assert (ready.status, ready.json()["failing"]) == (200, {"dht": "PORT_IN_USE"})
        assert ready.json()["notes"] == [f"not in the DHT: UDP port {port} is in use"]
        assert "skillwire_dht" not in (await Asgi(application).request("/metrics")).body.decode()
    assert [line["code"] for line in logs if line["event"] == "not in the DHT"] == ["PORT_IN_USE"]
    await eventually_async(lambda: application.dht.status() is not None)
    await eventually_async(lambda: not application.services.executions.service.background.failing)
    assert application.dht.note() == ""


async def test_a_server_that_only_this_machine_reaches_is_not_announced_to_others(serve, node):
    application = await serve(settings(("localhost", node.port)))
    await eventually_async(application.dht.status)
    agent = application.dht._agent
    await agent.wait_for_names(20.0)
    agent._task.cancel()  # which would find the addresses of this machine again
    agent.hosts = ("192.0.2.7",)
    assert agent.is_local, "its bootstrap node is on this machine"
    assert application.dht._url_of(agent) == "http://127.0.0.1:8000"
    agent._peers.clear()
    assert "set --base-url" in application.dht.note()
    application.dht.reached_at(("0.0.0.0", 8000), ("::", 8000))  # noqa: S104  # nothing is bound
    assert "--base-url" not in application.dht.note()
    assert application.dht._url_of(agent) == "http://192.0.2.7:8000"
    agent.hosts = ()
    assert application.dht._url_of(agent) == ""


async def test_on_the_local_network_too_it_is_one_agent_with_one_key(serve, node):
    lan = own_lan()
    both = dataclasses.replace(
        settings(("127.0.0.1", node.port)), interfaces=BIND, group=lan.group, port=lan.port, mdns=False
    )
    application = await serve(both, lan=both)
    await eventually_async(lambda: application.lan.agent_id and application.dht.status())
    await eventually_async(lambda: names(node, "leads-sync"))
    [skill] = (await node.find_by_name("leads-sync")).skills
    assert skill.agent_id == application.lan.agent_id != node.agent_id
    assert skill.key_id == application.dht.status().node_id
    await application.unregister()
    assert await names(node, "leads-sync") == set()


async def test_nodes_that_mdns_finds_are_used_and_ours_is_published(serve, node, monkeypatch):
    published = []
    lan = own_lan()
    both = dataclasses.replace(settings(), interfaces=BIND, group=lan.group, port=lan.port, mdns=False)
    application = await serve(both, lan=both)

    def exchange(port):
        published.append(port)
        return [Peer("127.0.0.1", node.port)]

    monkeypatch.setattr(application.lan, "exchange_dht", exchange)
    await eventually_async(lambda: names(node, "leads-sync"))
    assert set(published) == {application.dht._agent.port}


async def test_an_end_that_takes_too_long_is_cut_short(serve, node, monkeypatch):
    application = await serve(settings(("127.0.0.1", node.port)))
    await eventually_async(application.dht.status)
    monkeypatch.setattr(dht, "_GOODBYE", 0.05)
    stop = application.dht._agent.stop
    monkeypatch.setattr(application.dht._agent, "stop", asyncio.Event().wait)
    with capture_logs() as logs:
        await application.unregister()
    ends = [line["event"] for line in logs if "DHT" in line["event"]]  # beside the first revision's line, at times
    assert ends == ["left the DHT without tombstones"]
    await stop()
