"""Nodes of the DHT on loopback: found, put, withdrawn, kept over a restart, alive whatever comes to their socket."""

import asyncio
import json
import socket
import sys
from collections import Counter

import pytest
from tests.support.eventually import eventually_async
from tests.support.free_port import free_port

from skillwire.adapters.dht import agent as agent_module
from skillwire.adapters.dht.agent import DhtAgent, DhtSockets, find_answering, load_state, present_hosts, resolve
from skillwire.adapters.files.atomic import state_directory
from skillwire.adapters.lan.sockets import LinkAddress, SystemNetwork
from skillwire.errors import ConflictError, FetchError, StorageError, UsageError, ValidationError
from skillwire.protocols.skill_discovery.dht.records import DhtOffer
from skillwire.protocols.skill_discovery.settings import DhtSettings, LanSettings
from skillwire.wire.node import Peer

BOTH = ("127.0.0.1", "::1")
OFFER = DhtOffer("csv-profile", "1.2.0", "tool-skill", "https://example.org/", ("profile", "count"), ("auth",))


def settings(*bootstrap, port=0, bind=BOTH, **values):
    return LanSettings(dht=DhtSettings(enabled=True, bootstrap=bootstrap, port=port, bind=bind, **values))


class Network(SystemNetwork):
    """A machine with these addresses."""

    def __init__(self, *hosts: str) -> None:
        self.hosts: tuple[str, ...] = hosts

    def addresses(self):
        if not self.hosts:
            raise UsageError("LAN_UNAVAILABLE", "the library that lists interfaces is missing")
        return [LinkAddress("eth0", 2, host) for host in self.hosts]


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(agent_module, "_ADDRESS_SECONDS", 0.05)
    monkeypatch.setattr(agent_module, "_LOOKUP_SECONDS", 0.2)


@pytest.fixture
async def start():
    """Give what starts agents with a name, key and folder of their own each."""
    running = []

    async def started(*bootstrap, is_client=False, **values):
        notes: list[str] = []
        agent = DhtAgent(settings(*bootstrap, **values), is_client=is_client, on_trouble=notes.append)
        await agent.start()
        agent.notes = notes  # type: ignore[attr-defined]  # for the tests to read
        running.append(agent)
        return agent

    yield started
    for agent in reversed(running):
        await agent.stop()


@pytest.fixture
async def three(start):
    """Start three nodes, the first of which the others know; one by IPv6."""
    first = await start()
    second = await start(("127.0.0.1", first.port))
    third = await start(("::1", first.port))
    await eventually_async(lambda: first.status().nodes == 2)
    return first, second, third


@pytest.mark.spec("SDP-dht-newest")
async def test_what_one_node_puts_the_others_find_until_it_is_removed(three):
    first, second, third = three
    assert (await second.put(OFFER)).stored >= 1
    for agent in three:
        for answer in (await agent.get("csv-profile", "count"), await agent.find_by_name("csv-profile")):
            [skill] = answer.skills
            assert (skill.agent_id, skill.version, skill.endpoint) == (second.agent_id, "1.2.0", "https://example.org/")
            assert (skill.trust, skill.key_id, skill.scenes) == ("unverified", second.node.id.hex(), ("auth",))
            assert 599 <= skill.expires - skill.announced <= 600
    assert (await second.remove("csv-profile", OFFER.capabilities)).stored >= 1
    for agent in (first, third):
        assert (await agent.find_by_name("csv-profile")).skills == ()


async def test_silent_bootstrap_nodes_are_reported_once_and_when_one_answers_again(start, monkeypatch):
    monkeypatch.setattr(agent_module, "_SILENCE_SECONDS", 0.0)
    port = free_port(socket.SOCK_DGRAM)
    asker, node = [await start(("127.0.0.1", port), is_client=is_client) for is_client in (True, False)]
    await eventually_async(lambda: node.notes)
    silence = f"no bootstrap node of the DHT answers: 127.0.0.1:{port}"
    assert (node.notes, node.silence) == ([silence], silence)
    await start(port=port)
    await eventually_async(lambda: len(node.notes) > 1)
    assert (node.notes, node.silence) == ([silence, "a bootstrap node of the DHT answers again"], "")
    assert asker.notes == []


@pytest.mark.spec("SDP-dht-find")
async def test_every_capability_is_looked_up_and_all_or_any_of_them_count(three):
    _, second, third = three
    await second.put(OFFER)
    await second.put(OFFER._replace(skill_id="csv-sum", capabilities=("sum", "count")))
    for names, match, found in (
        (("profile", "count"), "all", {"csv-profile"}),
        (("profile", "sum"), "all", set()),
        (("profile", "sum"), "any", {"csv-profile", "csv-sum"}),
        (("count",), "all", {"csv-profile", "csv-sum"}),
    ):
        answer = await third.find_by_capability(names, match=match)
        assert {skill.skill_id for skill in answer.skills} == found
        assert answer.keys_without_answer == ()


@pytest.mark.spec("SDP-dht-key")
async def test_the_key_of_the_figure_is_looked_up_where_the_other_one_finds_nothing(three, monkeypatch):
    _, second, third = three
    looked_up, find = [], third.node.find

    def count(keys, *rest):
        looked_up.append(keys)
        return find(keys, *rest)

    monkeypatch.setattr(third.node, "find", count)
    await second.put(OFFER)
    assert (await third.get("csv-profile", "count")).skills
    assert len(looked_up) == 1
    assert not (await third.get("csv-profile", "divide")).skills
    assert len(looked_up) == 3


async def test_without_another_node_nothing_is_found_and_that_is_said(start):
    alone = await start(("127.0.0.1", 9), ("no-such-host.invalid", 6881))
    answer = await alone.find_by_capability(["count"], seconds=1.0)
    assert (answer.skills, answer.asked, answer.keys_without_answer) == ((), 0, ("count",))
    assert (await alone.put(OFFER, seconds=1.0)).stored <= 1, "itself"
    assert alone.status().bootstrap == (("127.0.0.1:9", False), ("no-such-host.invalid:6881", False))


@pytest.mark.spec("SDP-dht-client")
async def test_a_client_of_the_same_machine_finds_and_is_in_no_table(three, start):
    first, second, _ = three
    await second.put(OFFER)
    client = await start(("localhost", first.port), is_client=True)
    assert client.agent_id == first.agent_id, "they share a name and a key"
    assert [skill.skill_id for skill in (await client.find_by_name("csv-profile")).skills] == ["csv-profile"]
    assert (await client.put(OFFER._replace(skill_id="csv-sum"))).stored >= 1
    assert [skill.key_id for skill in (await second.find_by_name("csv-sum")).skills] == [first.node.id.hex()]
    assert first.status().nodes == 2


@pytest.mark.spec("SDP-dht-offer")
async def test_offers_are_kept_and_get_a_tombstone_when_they_vanish_and_at_the_end(three):
    first, second, third = three

    async def found(skill_id):
        return [skill.version for skill in (await third.find_by_name(skill_id)).skills]

    second.offer([OFFER, OFFER._replace(skill_id="csv-sum")])
    await eventually_async(lambda: found("csv-profile"), lambda versions: versions == ["1.2.0"])
    await eventually_async(lambda: all(own.stored and own.last_put for own in second.status().own))
    second.offer([OFFER._replace(version="1.3.0")])
    await eventually_async(lambda: found("csv-profile"), lambda versions: versions == ["1.3.0"])
    await eventually_async(lambda: found("csv-sum"), lambda versions: versions == [])
    await second.stop()
    assert (await first.find_by_name("csv-profile")).skills == ()


async def test_a_skill_that_fits_into_no_record_is_refused_and_changes_nothing(three):
    _, second, _ = three
    large = OFFER._replace(capabilities=tuple(f"{'c' * 60}-{number}" for number in range(20)))
    assert "bytes" in second.flaw(large)
    assert second.flaw(OFFER) is None
    second.offer([OFFER])
    with pytest.raises(ValidationError, match="bytes"):
        second.offer([large])
    with pytest.raises(ValidationError):
        await second.put(large)
    assert [own.skill_id for own in second.status().own] == ["csv-profile"]


@pytest.mark.spec("SDP-dht-proof")
async def test_a_node_is_pinged_by_each_address_of_its_name(three):
    first, second, _ = three
    pong = await second.ping("localhost", first.port)
    assert (pong.node_id, pong.agent_id, pong.trust) == (first.node.id.hex(), first.agent_id, "unverified")
    for host, reason in (("127.0.0.1", "did not answer"), ("no-such-host.invalid", "not known")):
        with pytest.raises(FetchError, match=reason) as caught:
            await second.ping(host, 9, seconds=0.2)
        assert caught.value.code == "DHT_UNREACHABLE"


@pytest.mark.spec("SDP-dht-restart")
async def test_a_restart_keeps_the_id_the_port_and_the_nodes(three, start):
    first, second, third = three
    facts = second.node.id.hex(), second.port
    second.offer([OFFER])
    await eventually_async(lambda: second.status().own[0].stored)
    await second.stop()
    again = await start(bind=BOTH)
    assert (again.node.id.hex(), again.port) == facts
    await eventually_async(lambda: again.status().nodes >= 1), "without a bootstrap node"
    assert (await third.ping("127.0.0.1", again.port)).node_id == again.node.id.hex()
    assert first.node.id.hex() != again.node.id.hex()


async def test_a_kept_port_that_is_in_use_gives_way_to_a_free_one(start):
    agent = await start()
    port = agent.port
    await agent.stop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", port))
        assert (await start()).port not in {0, port}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"port": "x"}', b'{"nodes": [["00", "127.0.0.1", 1]]}', b'{"port": 70000}',
     json.dumps({"nodes": [["0" * 64, "no address", 1]]}).encode(), b"\xff" * 100],
)  # fmt: skip
async def test_a_damaged_file_is_a_note_and_is_written_anew(start, content):
    agent = await start()
    path = state_directory() / "lan" / "dht.json"
    facts = agent.node.id.hex()
    await agent.stop()
    path.write_bytes(content)
    again = await start()
    assert again.node.id.hex() == facts
    assert [str(path) in note and "damaged" in note for note in again.notes] == [True]
    await eventually_async(lambda: load_state(path)[0].port == again.port)


async def test_a_client_without_a_place_for_its_key_asks_and_cannot_put(three, start, monkeypatch):
    first, second, _ = three
    await second.put(OFFER)
    monkeypatch.setenv("SKILLWIRE_HOME", "/proc/none")  # where not even root makes a folder
    client = await start(("127.0.0.1", first.port), is_client=True)
    assert [skill.skill_id for skill in (await client.find_by_name("csv-profile")).skills] == ["csv-profile"]
    assert (await client.ping("127.0.0.1", first.port)).node_id == first.node.id.hex()
    assert await find_answering(settings(("127.0.0.1", first.port)), 5.0) == [f"127.0.0.1:{first.port}"]
    for operation in (client.put(OFFER), client.remove("csv-profile", OFFER.capabilities)):
        with pytest.raises(StorageError) as caught:
            await operation
        assert "SKILLWIRE_HOME" in caught.value.diagnostics().fix
    with pytest.raises(StorageError):
        DhtAgent(settings())


async def test_a_file_that_cannot_be_written_is_a_note_and_no_failure(start, monkeypatch):
    def full(*_, **__):
        raise FetchError("STORAGE", "no space left on device")

    monkeypatch.setattr(agent_module, "write_atomically", full)
    agent = await start()
    await eventually_async(lambda: agent.notes)
    assert "no space left" in agent.notes[0]
    assert agent.status().counters["state: STORAGE"] >= 1
    assert (await agent.put(OFFER, seconds=0.5)).stored <= 1


async def test_a_fault_in_the_background_is_logged_and_the_node_goes_on(start, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError("a bug")

    agent = await start(bind=())
    monkeypatch.setattr(agent_module, "present_hosts", fail)
    await eventually_async(lambda: "background task failed" in caplog.text)
    assert (await agent.put(OFFER, seconds=0.5)).stored <= 1


@pytest.mark.spec("SDP-dht-heal")
async def test_a_bootstrap_node_that_comes_later_is_found(start, unused_udp_port):
    waits = await start(("localhost", unused_udp_port))
    await eventually_async(waits._has_looked_up.is_set)
    assert not any(is_reached for _, is_reached in waits.status().bootstrap)
    later = await start(port=unused_udp_port)
    await eventually_async(lambda: waits.status().bootstrap == ((f"localhost:{unused_udp_port}", True),))
    await later.put(OFFER)
    assert (await waits.find_by_name("csv-profile")).skills


async def test_a_name_is_looked_up_again_while_it_is_unknown(start, monkeypatch):
    first = await start()
    answers = [(), (Peer("127.0.0.1", first.port),)]

    async def look_up(*_):
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr(agent_module, "resolve", look_up)
    second = await start(("dht.example", 6881))
    await eventually_async(lambda: second.status().bootstrap == (("dht.example:6881", True),))


@pytest.mark.spec("SDP-dht-mdns")
async def test_what_mdns_found_leads_to_nodes_as_well(start):
    first, second = await start(), await start()
    second.use_found([Peer("127.0.0.1", first.port), *(Peer("127.0.0.1", port) for port in range(1, 40))])
    await eventually_async(lambda: second.status().nodes == 1)
    assert second.status().bootstrap == (), "not of the settings"
    assert len(second._found) == 16


@pytest.mark.spec("SDP-dht-heal")
async def test_a_change_of_the_addresses_has_the_skills_put_again(start):
    network, first = Network("192.0.2.7"), await start()
    agent = DhtAgent(settings(("127.0.0.1", first.port), bind=()), network=network)
    await agent.start()
    try:
        assert list(agent.addresses) == [f"192.0.2.7:{agent.port}"]
        agent.offer([OFFER])
        await eventually_async(lambda: agent.status().own[0].last_put)
        before = agent.status().own[0].last_put
        network.hosts = ("192.0.2.8", "2001:db8::8")
        await eventually_async(lambda: agent.status().own[0].last_put > before)
        assert list(agent.addresses) == [f"192.0.2.8:{agent.port}", f"[2001:db8::8]:{agent.port}"]
    finally:
        await agent.stop()


def test_others_reach_this_machine_by_loopback_only_where_nothing_else_is_up():
    assert present_hosts(Network("::1", "127.0.0.1")) == ("127.0.0.1", "::1")
    assert present_hosts(Network("fe80::1", "2001:db8::1", "127.0.0.1", "192.0.2.1")) == ("192.0.2.1", "2001:db8::1")
    assert present_hosts(Network()) == ()


async def test_a_port_in_use_is_one_error_with_its_fix(start, unused_udp_port):
    await start(port=unused_udp_port)
    with pytest.raises(ConflictError) as caught:
        await start(port=unused_udp_port)
    assert (caught.value.code, caught.value.message) == ("PORT_IN_USE", f"UDP port {unused_udp_port} is in use")
    assert "port in [discovery.dht]" in str(caught.value.fix)
    assert (await start(port=0)).port != unused_udp_port, "its name is free again"


async def test_an_address_of_another_machine_is_refused(start):
    with pytest.raises(UsageError) as caught:
        await start(bind=("192.0.2.1",))
    assert caught.value.code == "HOST_UNUSABLE"


async def test_a_port_that_one_family_has_taken_is_not_used_for_the_other():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as taken:
        taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind(("::1", 0))
        with pytest.raises(ConflictError):
            DhtSockets(taken.getsockname()[1], BOTH, Counter())
    sockets = DhtSockets(0, BOTH, Counter())
    try:
        assert {sock.getsockname()[1] for sock in sockets.sockets} == {sockets.port}
    finally:
        sockets.close()


async def test_a_family_without_a_socket_is_counted_and_nothing_raised(start):
    agent = await start(bind=("127.0.0.1",))
    with pytest.raises(FetchError):
        await agent.ping("::1", 6881, seconds=0.2)
    assert agent.status().counters["send: no such family"] >= 1


async def test_a_host_has_all_its_addresses_and_an_unknown_one_none():
    assert await resolve("::1", 7) == (Peer("::1", 7),)
    assert await resolve("no-such-host.invalid", 7) == ()
    assert await resolve("x" * 300, 7) == ()


@pytest.mark.spec("SDP-dht-hostile")
async def test_hostile_datagrams_stop_neither_answers_nor_the_node(three):
    first, second, third = three
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hostile:
        for size in (0, 1, 2, 3, 50, 400, 1200, 1400):
            for lead in (b"", b"\x01", b"\x01\x96", b"\x02", b"\xff\xff"):
                hostile.sendto((lead + bytes(size))[:1400], ("127.0.0.1", first.port))
        for tag in range(256):
            hostile.sendto(b"\x01\x95" + bytes((tag,)) + b"\xc4\x08" + bytes(600), ("127.0.0.1", first.port))
    await second.put(OFFER)
    assert (await third.find_by_name("csv-profile")).skills
    assert first.status().counters["malformed"] >= 100
    assert first.status().nodes == 2


async def test_a_caller_that_gives_up_leaves_no_operation_behind(start):
    agent = await start(("127.0.0.1", 9))
    asking = asyncio.create_task(agent.ping("127.0.0.1", 9, seconds=60.0))
    await eventually_async(lambda: agent._waiting)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not agent._waiting
    waiting = asyncio.create_task(agent.ping("127.0.0.1", 9, seconds=60.0))
    await eventually_async(lambda: agent._waiting)
    await agent.stop()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_which_bootstrap_nodes_answer_is_asked_without_a_trace(start, monkeypatch, tmp_path):
    first = await start()
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "other"))  # the node goes on to write files in its own
    asked = settings(("localhost", first.port), ("127.0.0.1", 9))
    assert await find_answering(asked, 0.5) == [f"localhost:{first.port}"]
    assert not (tmp_path / "other").exists()
    assert first.status().nodes == 0


async def test_an_agent_that_does_not_run_says_so():
    agent = DhtAgent(settings())
    with pytest.raises(RuntimeError, match="does not run"):
        agent.status()
    await agent.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems answer from the address that they choose")
async def test_an_answer_leaves_from_the_address_that_was_asked():
    sockets = DhtSockets(0, (), Counter())
    heard = asyncio.Queue[Peer]()
    loop = asyncio.get_running_loop()

    def read(sock):
        for _, peer in sockets.read(sock):
            heard.put_nowait(peer)

    sockets.attach(loop, read)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.bind(("127.0.0.1", 0))
            asker.setblocking(False)
            for asked in ("127.0.0.2", "127.0.0.3"):
                asker.sendto(b"question", (asked, sockets.port))
                sockets.send(b"answer", await heard.get())
                data, source = await loop.sock_recvfrom(asker, 100)
                assert (data, source) == (b"answer", (asked, sockets.port))
    finally:
        sockets.detach(loop)
        sockets.close()
