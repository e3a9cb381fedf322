"""``call lan:CAPABILITY``: inputs are read once, who answers is told, and who does not, too."""

from __future__ import annotations

import io
import json
import sys

import pytest
from tests.support.fake_lan import FakeLanAgent, lan_skill
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire.cli.main import run
from skillwire.client.lan import LanAccess
from skillwire.client.steps import BlockingSteps
from skillwire.errors import FetchError
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpResponse

FIRST, SECOND = (lan_skill("forecast", f"192.168.1.{number}") for number in (1, 2))
CITY = [{"name": "city", "type": "string", "description": "Where.", "required": True}]
LOST = FetchError("CONNECT_FAILED", "nobody listens there")


def answer(value, status=200):
    return HttpResponse("", status, {"content-type": "application/json"}, json.dumps(value).encode())


class Servers(SimulatedPublisher):
    """Servers of skills without a network."""

    def serve(self, skill, *outcomes, endpoint=None):
        base = f"http://{skill.endpoint}"
        entry = {**ENTRY, "descriptor_url": f"{base}/forecast.json"}
        index = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": [entry]}
        place = {"url": endpoint or f"{base}/call", "method": "POST"}
        self.answer(f"{base}/.well-known/skill-sharing", json.dumps(index).encode())
        self.answer(entry["descriptor_url"], json.dumps({**DESCRIPTOR, "endpoint": place, "inputs": CITY}).encode())
        self.reply("POST", place["url"], *outcomes)

    @property
    def bodies(self):
        return [json.loads(request.body or b"")["inputs"] for request in self.requests if request.method == "POST"]


@pytest.fixture
def servers(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    made = Servers()
    monkeypatch.setattr(LanAccess, "make_agent", lambda _: FakeLanAgent(FIRST, SECOND))
    monkeypatch.setattr(BlockingSteps, "_http", lambda _: made)
    monkeypatch.setattr(BlockingSteps, "close", lambda _: None)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return made


def test_who_answers_is_told_beside_the_result(servers, capsys):
    servers.serve(FIRST, answer({"high": 31}))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == {"high": 31}
    assert told.err == "answered by forecast of agent-1 at 192.168.1.1:8000\n"


def test_who_has_no_name_is_told_by_its_endpoint(servers, capsys, monkeypatch):
    others = [one._replace(agent_id="") for one in (FIRST, SECOND)]
    monkeypatch.setattr(LanAccess, "make_agent", lambda _: FakeLanAgent(*others))
    servers.serve(FIRST, LOST)
    servers.serve(SECOND, answer({"high": 29}))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 0
    told = capsys.readouterr().err
    assert "passed over forecast at 192.168.1.1:8000: " in told
    assert "answered by forecast at 192.168.1.2:8000\n" in told


def test_inputs_of_standard_input_are_there_for_the_next(servers, capsys, monkeypatch):
    servers.serve(FIRST, LOST)
    servers.serve(SECOND, answer({"high": 29}))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"city": "Bern"}')))
    assert run(["call", "lan:org-data-read", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(map(str, servers.bodies)) == {"{'city': 'Bern'}"}
    assert document["output"] == {"high": 29}
    assert document["lan"]["skill"]["endpoint"] == "192.168.1.2:8000"
    ((passed),) = document["lan"]["passed_over"]
    assert (passed["code"], passed["skill"]["endpoint"]) == ("CONNECT_FAILED", "192.168.1.1:8000")


def test_what_would_be_sent_is_shown_and_not_sent(servers, capsys):
    servers.serve(FIRST, answer({"high": 31}))
    assert run(["call", "lan:org-data-read", "city=Bern", "--dry-run"]) == 0
    assert "POST http://192.168.1.1:8000/call" in capsys.readouterr().out
    assert servers.bodies == []


def test_one_whose_endpoint_lies_elsewhere_on_the_network_is_passed_over(servers, capsys):
    servers.serve(FIRST, answer({}), endpoint="http://192.168.1.254:80/admin")
    servers.serve(SECOND, answer({"high": 29}))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 0
    assert "passed over forecast of agent-1 at 192.168.1.1:8000" in capsys.readouterr().err
    assert not [one for one in servers.requests if "192.168.1.254" in one.url]


def test_inputs_that_cannot_be_read_are_refused_before_anybody_is_called(servers, capsys):
    servers.serve(FIRST, answer({}))
    assert run(["call", "lan:org-data-read", "town=Bern"]) == 1
    assert "error[VALIDATION_ERROR]" in capsys.readouterr().err
    assert run(["call", "lan:org-data-read", "city=@nowhere"]) == 2
    assert servers.bodies == []


def test_when_the_only_one_cannot_be_called_it_is_said_whose_it_is(servers, capsys, monkeypatch):
    monkeypatch.setattr(LanAccess, "make_agent", lambda _: FakeLanAgent(FIRST))
    servers.serve(FIRST, LOST)
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 5
    told = capsys.readouterr().err
    assert "error[DISC_006]" in told
    assert "forecast of agent-1 at 192.168.1.1:8000 was passed over: nobody listens there" in told


def test_when_nobody_can_be_called_every_reason_is_told(servers, capsys):
    servers.serve(FIRST, LOST)
    servers.serve(SECOND, answer({"error": {"code": "PERMISSION_DENIED", "message": "No."}}, 403))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 5
    told = capsys.readouterr().err
    assert "error[DISC_006]" in told
    assert "nobody listens there" in told
    assert "at 192.168.1.2:8000 was passed over: No." in told
