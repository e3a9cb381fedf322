"""A capture of real agents, read by tshark: the datagrams are those of the text's appendix, field by field."""

import base64
import re
import subprocess
import time

import pytest
from tests.interop.peers import PATIENCE, find_peer
from tests.support.eventually import eventually
from tests.support.lan_agents import on_host
from tests.support.namespaces import network

OFFERS, ASKS = 1, 2
#: SDP 13.1, as it stands there.
REGISTER = (
    "SKILL_REGISTER:agent-001;skill-org-feishu;0.7.0;enterprise-skill;192.168.1.100:8080;org-data-read,user-auth;auth;"
    "1707868800000;MEUCIQDxxx..."
)
DISCOVER = "SKILL_DISCOVER:agent-002;org-data-read;auth;enterprise-skill;1707868800000"
HEARTBEAT = "SKILL_HEARTBEAT:agent-001;skill-org-feishu;HEALTHY;1707868805000;MEUCIQDxxx..."
#: The offer of the text; its address is the host's own.
OFFER = {
    "skill": "skill-org-feishu",
    "version": "0.7.0",
    "skill_type": "enterprise-skill",
    "port": 8080,
    "capabilities": ["org-data-read", "user-auth"],
    "scenes": ["auth"],
}
DATAGRAM = re.compile(r"([A-Z_]+):([!-~]*)")
#: An ECDSA signature over P-256: two numbers of about 32 bytes, as DER.
SIGNATURE_BYTES = range(68, 73)
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """Give what tshark reads of two agents: each datagram's source, where it went, and its text."""
    dumpcap, tshark = find_peer("dumpcap"), find_peer("tshark")
    folder = tmp_path_factory.mktemp("capture")
    file = folder / "lan.pcapng"
    with network(2) as lan, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        options = ["-q", "-i", "eth0", "-f", "udp port 54321", "-w", file]
        capture = lan.start(ASKS, *dumpcap, *options, stderr=subprocess.PIPE)
        assert "Capturing" in capture.stderr.readline()
        asks, offers = (
            on_host(lan, host, settings={"interfaces": [lan.address(host)], "agent_id": name}).started()
            for host, name in ((ASKS, "agent-002"), (OFFERS, "agent-001"))
        )
        offers.ask("announce", offers=[OFFER])
        asks.wait_for(lambda found: found.get("skill-org-feishu") == "HEALTHY", "it was not found")
        filters = {"capabilities": ["org-data-read"], "scenes": ["auth"], "types": ["enterprise-skill"]}
        asks.ask("discover", **filters, patience=1)
        wanted = {"SKILL_REGISTER", "SKILL_DISCOVER", "SKILL_HEARTBEAT"}
        rows = eventually(lambda: _read(tshark, file), lambda rows: wanted <= _types(rows))
        for agent in (asks, offers):
            agent.stop()
    return rows


def _read(tshark, file):
    """Return what tshark reads of a capture that is still being written, whose end may be half a packet."""
    wanted = ("ip.src", "ip.dst", "udp.dstport", "ip.ttl", "data.text")
    options = ["-o", "data.show_as_text:TRUE", "-T", "fields", *(f"-e{field}" for field in wanted)]
    done = subprocess.run(
        [*tshark, "-r", file, *options], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == len(wanted) - 1]


def _types(rows):
    return {row[-1].partition(":")[0] for row in rows}


def fields(text):
    """Return the type and the fields of a datagram."""
    found = DATAGRAM.fullmatch(text)
    assert found, text
    return found[1], found[2].split(";")


def like(captured, example):
    """Return the datagrams of an example's type: their fields, each with as many as the example has."""
    kind, expected = fields(example)
    found = [fields(text)[1] for *_, text in captured if text.startswith(f"{kind}:")]
    assert found
    assert {len(one) for one in found} == {len(expected)}
    return expected, found


def is_signature(text):
    return len(base64.b64decode(text, validate=True)) in SIGNATURE_BYTES


def is_timestamp(text):
    return abs(int(text) / 1000 - time.time()) < 600


def test_a_registration_is_as_in_the_text(captured):
    expected, found = like(captured, REGISTER)
    for agent_id, skill_id, version, skill_type, endpoint, capabilities, scenes, timestamp, signature in found:
        assert [agent_id, skill_id, version, skill_type] == expected[:4]
        assert endpoint == "10.99.0.1:8080"
        assert [capabilities, scenes] == expected[5:7]
        assert is_timestamp(timestamp)
        assert is_signature(signature)


def test_a_discovery_is_as_in_the_text(captured):
    expected, found = like(captured, DISCOVER)
    for requester_id, capabilities, scenes, types, timestamp in found:
        assert requester_id.split(".")[0] == expected[0]
        assert [capabilities, scenes, types] == expected[1:4]
        assert is_timestamp(timestamp)


def test_a_heartbeat_is_as_in_the_text(captured):
    expected, found = like(captured, HEARTBEAT)
    for agent_id, skill_id, status, timestamp, signature in found:
        assert [agent_id, skill_id, status] == expected[:3]
        assert is_timestamp(timestamp)
        assert is_signature(signature)


def test_what_goes_to_the_group_stays_on_the_link(captured):
    assert {tuple(row[1:4]) for row in captured} == {("224.0.0.1", "54321", "1")}
