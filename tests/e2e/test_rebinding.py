"""A name server that changes its answer between two lookups gains nothing.

The address that was checked is connected to. The name server is a real one, on loopback, asked over UDP.
"""

import socket
from collections.abc import Iterator

import dnslib  # type: ignore[import-untyped]  # it has no type information
import dnslib.server  # type: ignore[import-untyped]  # same
import pytest
from tests.support.eventually import PATIENCE
from tests.support.raw_server import RawServer, answer, serving

from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.trust.address import AddressPolicy

PUBLIC = "93.184.215.14"


class ChangingAnswers(dnslib.server.BaseResolver):  # type: ignore[misc]  # same
    """Answers each question for an address with the next of ``addresses``, the last one again and again."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.questions = 0

    def resolve(self, request, _handler):
        reply = request.reply()
        self.questions += 1
        address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        reply.add_answer(dnslib.RR(request.q.qname, rdata=dnslib.A(address), ttl=0))
        return reply


class NameServer:
    def __init__(self) -> None:
        self.answers = ChangingAnswers()
        self.server = dnslib.server.DNSServer(self.answers, address="127.0.0.1", port=0)

    def look_up(self, host):
        reply = dnslib.DNSRecord.question(host).send(
            "127.0.0.1", self.server.server.server_address[1], timeout=PATIENCE
        )
        return [str(record.rdata) for record in dnslib.DNSRecord.parse(reply).rr]


@pytest.fixture(scope="module")
def name_server() -> Iterator[NameServer]:
    server = NameServer()
    server.server.start_thread()
    yield server
    server.server.stop()
    server.server.server.server_close()


@pytest.fixture
def names(name_server):
    name_server.answers.questions = 0
    return name_server


def code(call, *arguments):
    with pytest.raises(SkillwireError) as caught:
        call(*arguments)
    assert isinstance(caught.value, (FetchError, TrustError))
    return caught.value.code


@pytest.fixture
def connected(monkeypatch):
    """Record what is connected to, and let no connection come about."""
    reached: list[str] = []

    def connect(_, address):
        reached.append(address[0])
        raise ConnectionRefusedError("the test lets nothing out")

    monkeypatch.setattr(socket.socket, "connect", connect)
    return reached


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(drive, names, connected):
    drive.open(AddressPolicy(), resolve=names.look_up)
    names.answers.addresses = [PUBLIC, "127.0.0.1"]
    assert code(drive.get, "https://rebind.example/") == "CONNECT_FAILED"
    assert (connected, names.answers.questions) == ([PUBLIC], 1)
    assert code(drive.get, "https://rebind.example/") == "ADDRESS_REFUSED"
    assert (connected, names.answers.questions) == ([PUBLIC], 2)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"])  # noqa: S104 - refused
def test_a_public_name_that_leads_inside_reaches_nobody(drive, names, connected, address):
    drive.open(AddressPolicy(), resolve=names.look_up)
    names.answers.addresses = [address]
    assert code(drive.get, "https://rebind.example/") == "ADDRESS_REFUSED"
    assert connected == []


def test_the_connection_goes_to_the_address_and_the_request_to_the_name(drive, names):
    with RawServer(serving(answer(b"x")), address="127.0.0.2") as server:
        url = server.url(host="rebind.example")
        drive.open(AddressPolicy(allow=(f"http://rebind.example:{server.port}",)), resolve=names.look_up)
        names.answers.addresses = ["127.0.0.2", "127.0.0.1"]
        assert [drive.get(url).body for _ in range(2)] == [b"x", b"x"]
        assert f"host: rebind.example:{server.port}" in server.requests[0].decode()
        assert (server.connections, names.answers.questions) == (1, 1)
