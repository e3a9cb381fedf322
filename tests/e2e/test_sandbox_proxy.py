"""The one way out: a sandbox reaches granted origins at addresses that the policy allows, and nothing else."""

import socket
import threading

import pytest
from tests.support.eventually import PATIENCE
from tests.support.sandbox_world import World, sandbox_missing, users

MISSING = sandbox_missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
GRANTED = "api.example.com"


@pytest.fixture(scope="module", params=users())
def world(request):
    world = World(request.param)
    yield world
    world.close()


class Echo:
    """A server on a loopback address of its own that says back what it hears, in capitals, and counts connections."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.9", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self.closed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock):
        with sock:
            try:
                while data := sock.recv(65536):
                    sock.sendall(data.upper())
            except OSError:
                pass
        self.closed.set()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo():
    echo = Echo()
    yield echo
    echo.close()


def ask(world, requests, **order):
    order.setdefault("network", [f"https://{GRANTED}"])
    answer = world.run("asks_the_proxy", inputs={"requests": requests}, **order)
    assert answer["failure"] is None, answer
    return answer["output"]


def granting(echo, *answers):
    """Return an order that grants the echo server; ``answers`` are the addresses that each lookup of it gives."""
    network = [f"https://{GRANTED}:{echo.port}"]
    return {"network": network, "resolve": {GRANTED: list(answers)}, "allow": ["127.0.0.9/32"]}


def connect(host, port, rest=""):
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n{rest}"


def test_a_granted_origin_is_reached(world, echo):
    granted = granting(echo, ["127.0.0.1", "127.0.0.9"])  # the first is refused, and passed over
    answers = ask(world, [connect(GRANTED, echo.port, "hello")], **granted)
    assert answers == ["HTTP/1.1 200 Connected\r\n\r\nHELLO"] * 2
    assert echo.connections == 2
    world.check()


def test_programs_use_it_by_themselves_and_are_told_what_is_not_granted(world):
    answer = world.run("fetches", inputs={"url": "https://other.example.com/"}, network=[f"https://{GRANTED}"])
    assert answer["output"] == "failed: Tunnel connection failed: 403 Not Granted"
    world.check()


NOT_GRANTED = [
    ("other.example.com", 443),
    ("example.com", 443),
    (f"evil{GRANTED}", 443),
    (f"{GRANTED}.evil.example", 443),
    (f"{GRANTED}.", 443),
    (f"x.{GRANTED}", 443),
    (GRANTED, 80),
    (GRANTED, 8443),
    (GRANTED, 22),
    ("example.org", 443),
    ("evilexample.org", 443),
    ("a.example.org", 8443),
    ("127.0.0.1", 443),
    ("169.254.169.254", 443),
    ("1.1.1.1", 443),
    ("localhost", 443),
    ("metadata.google.internal", 443),
]


def test_what_is_not_granted_is_refused(world):
    network = [f"https://{GRANTED}", "https://*.example.org"]
    answers = ask(world, [connect(host, port) for host, port in NOT_GRANTED], network=network)
    assert len(answers) == 2 * len(NOT_GRANTED)
    assert {answer.split("\r\n")[0] for answer in answers} <= {
        "HTTP/1.1 403 Not Granted",
        "HTTP/1.1 405 Method Not Allowed",
    }
    world.check()


PRIVATE = [
    "127.0.0.1", "::1", "0.0.0.0", "::",  # noqa: S104  # asked for, not bound
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "fd00:ec2::254", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "255.255.255.255",
]  # fmt: skip


def test_a_granted_name_leads_to_no_private_address(world):
    resolve = {f"n{number}.example.org": [[address]] for number, address in enumerate(PRIVATE)}
    network = [f"https://*.example.org:{world.port}"]
    answers = ask(world, [connect(name, world.port) for name in resolve], network=network, resolve=resolve)
    assert len(answers) == 2 * len(PRIVATE)
    assert {answer.split("\r\n")[0] for answer in answers} == {"HTTP/1.1 502 Bad Gateway"}
    world.check()


def test_a_name_that_changes_is_judged_each_time(world, echo):
    """DNS rebinding: what is connected to is the address that was judged."""
    granted = granting(echo, ["127.0.0.9"], ["127.0.0.1"])
    answers = ask(world, [connect(GRANTED, echo.port, "x")], **granted)
    assert [answer.split("\r\n")[0] for answer in answers] == ["HTTP/1.1 200 Connected", "HTTP/1.1 502 Bad Gateway"]
    world.check()


def test_a_local_name_is_refused_even_where_it_is_granted(world):
    names = ["nas.local", "db.internal", "x.private", "a.test"]
    network, resolve = [f"https://{name}" for name in names], {name: [["127.0.0.1"]] for name in names}
    answers = ask(world, [connect(name, 443) for name in names], network=network, resolve=resolve)
    assert all(answer.startswith("HTTP/1.1 502 ") for answer in answers)
    world.check()


NO_REQUESTS = [
    f"GET https://{GRANTED}/ HTTP/1.1\r\nHost: {GRANTED}\r\n\r\n",
    f"CONNECT https://{GRANTED}:443 HTTP/1.1\r\n\r\n",
    f"CONNECT  {GRANTED}:443 HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}:443  HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}:443 HTTP/1.1 \r\n\r\n",
    f"CONNECT {GRANTED}:443 HTTP/2\r\n\r\n",
    f"connect {GRANTED}:443 HTTP/1.1\r\n\r\n",
    f"CONNECT user@{GRANTED}:443 HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}:443@127.0.0.1:80 HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}:0443 HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}:99999 HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED} HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}\0.example.org:443 HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}:443 HTTP/1.1\r\nHost: x\r\n folded: 127.0.0.1\r\n\r\n",
    f"CONNECT {GRANTED}:443 HTTP/1.1\r\nHost: x\nCONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n",
    f"CONNECT {GRANTED}:443 HTTP/1.1\nHost: x\r\n\r\n",
    "CONNECT [::1]:443 HTTP/1.1\r\n\r\n",
    "CONNECT 2130706433:443 HTTP/1.1\r\n\r\n",
    "CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n",
    "CONNECT 127.1:443 HTTP/1.1\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x05\x01\x00\r\n\r\n",
]


def test_what_is_not_exactly_a_request_leads_nowhere(world):
    answers = ask(world, NO_REQUESTS, resolve={GRANTED: [["127.0.0.1"]]})
    assert len(answers) == 2 * len(NO_REQUESTS)
    assert all(answer.startswith(("HTTP/1.1 405 ", "HTTP/1.1 403 ")) for answer in answers)
    world.check()


def test_a_second_request_goes_to_the_granted_host_only(world, echo):
    """CONNECT smuggling: what follows the first request is for its host, and is not read here."""
    smuggled = connect("127.0.0.1", world.port)
    answers = ask(world, [connect(GRANTED, echo.port, smuggled)], **granting(echo, ["127.0.0.9"]))
    assert all("200 Connected\r\n\r\nCONNECT 127.0.0.1" in answer for answer in answers)  # it was said back
    world.check()


def test_a_request_without_end_is_refused(world):
    answers = ask(world, ["CONNECT " + "a" * 200_000, f"CONNECT {GRANTED}:443 HTTP/1.1\r\nX: {'a' * 9000}\r\n\r\n"])
    assert answers[0] == answers[1] == ""
    assert answers[2].startswith("HTTP/1.1 431 ")
    world.check()


def test_connections_at_once_have_a_bound(world):
    answer = world.run("opens_connections_without_end", inputs={}, network=[f"https://{GRANTED}"])
    assert answer["output"] == 60 - 16
    world.check()


def test_a_connection_ends_with_its_sandbox(world, echo):
    inputs = {"requests": [connect(GRANTED, echo.port)]}
    answer = world.run("keeps_the_proxy_for_daemons", inputs=inputs, **granting(echo, ["127.0.0.9"]))
    assert answer["output"] == []
    assert echo.connections == 1
    assert echo.closed.wait(PATIENCE)
    world.check()


@pytest.mark.parametrize(
    "probe", ["connects_to_the_machine", "connects_to_the_internet", "looks_names_up", "connects_to_abstract_sockets"]
)
def test_nothing_leads_out_beside_it(world, probe):
    answer = world.run(probe, network=[f"https://{GRANTED}"])
    assert answer["output"] == []
    world.check()


def test_without_a_grant_there_is_no_proxy(world):
    answer = world.run("asks_the_proxy", inputs={"requests": [connect(GRANTED, 443)]})
    assert answer["failure"]["details"]["exception"] == "KeyError"
    world.check()
