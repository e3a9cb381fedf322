"""The simulated publisher: a callable skill without a network, for both clients; the SDK's page shows it too."""

import json

import pytest

from skillwire import AsyncClient, Client
from skillwire.errors import FetchError, ValidationError
from skillwire.testing import AsyncSimulatedPublisher, HttpResponse, SimulatedPublisher
from skillwire.wire.exchange import HttpRequest

ORIGIN = "https://example.net"


def published(kind):
    publisher = kind()
    publisher.publish(ORIGIN, "forecast", {"high": 31}, inputs={"city": "string"})
    return publisher


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))


def test_a_published_skill_is_found_checked_and_called(tmp_path):
    publisher = published(SimulatedPublisher)
    publisher.publish(ORIGIN, "time", "12:00")
    client = Client(tmp_path)
    client.driver = publisher
    assert sorted(skill.name for skill, _ in client.find("", ORIGIN)) == ["example.net/forecast", "example.net/time"]
    with pytest.raises(ValidationError, match="city is required"):
        client.call("example.net/forecast")
    assert client.call("example.net/forecast", {"city": "Bern"}).check().output == {"high": 31}
    assert json.loads(publisher.requests[-1].body)["inputs"] == {"city": "Bern"}
    assert client.call("example.net/time").check().output == "12:00"


def test_a_lost_call_is_repeated_by_its_key(tmp_path):
    publisher = SimulatedPublisher()
    pauses: list[float] = []
    url = publisher.publish(ORIGIN, "forecast", {"high": 31})
    completed = publisher.send(HttpRequest(url, "POST"))
    publisher.reply("POST", url, FetchError("CONNECTION_LOST", "it broke"), completed)
    client = Client(tmp_path)
    client.driver, client._runner.sleep = publisher, pauses.append
    assert client.call("example.net/forecast").check().output == {"high": 31}
    assert len(pauses) == 1
    first, second = [one.headers["Idempotency-Key"] for one in publisher.requests[1:] if one.method == "POST"]
    assert first == second


def test_a_call_runs_before_it_completes(tmp_path):
    publisher = SimulatedPublisher()
    publisher.publish(ORIGIN, "forecast", {"high": 31}, states=["accepted", "running"])
    client = Client(tmp_path)
    client.driver = publisher
    assert client.call("example.net/forecast").check().output == {"high": 31}
    publisher.publish(ORIGIN, "forecast", {"high": 31}, states=["accepted"])
    assert client.call("example.net/forecast", wait=False).status == "accepted"
    publisher.publish("https://example.org", "forecast", {"high": 31}, states=["running"])
    with client.watch("example.org/forecast") as watch:
        assert [event.kind for event in watch] == ["running", "completed"]


async def test_a_call_of_the_asynchronous_client_is_repeated_and_runs_before_it_completes(tmp_path):
    publisher = AsyncSimulatedPublisher()
    url = publisher.publish(ORIGIN, "forecast", {"high": 31}, states=["accepted", "running"])
    accepted, pauses = await publisher.send(HttpRequest(url, "POST")), []

    async def pause(seconds):
        pauses.append(seconds)

    publisher.reply("POST", url, FetchError("CONNECTION_LOST", "it broke"), accepted)
    async with AsyncClient(tmp_path) as client:
        client.driver, client._runner.sleep = publisher, pause
        assert (await client.call("example.net/forecast")).check().output == {"high": 31}
    assert len(pauses) == 1


def test_a_call_can_end_otherwise(tmp_path):
    publisher = SimulatedPublisher()
    url = publisher.publish(ORIGIN, "forecast", None)
    refusal = {"error": {"code": "PERMISSION_DENIED", "message": "Not you."}}
    publisher.reply("POST", url, HttpResponse(url, 403, {}, json.dumps(refusal).encode()))
    client = Client(tmp_path)
    client.driver = publisher
    with pytest.raises(FetchError, match="Not you"):
        client.call("example.net/forecast")


async def test_the_asynchronous_client_has_its_own_form(tmp_path):
    publisher = published(AsyncSimulatedPublisher)
    publisher.fail("https://example.org/.well-known/skill-sharing", FetchError("CONNECTION_LOST", "it broke"))
    async with AsyncClient(tmp_path) as client:
        client.driver = publisher
        assert [skill.name for skill, _ in await client.find("", [ORIGIN, "https://example.org"])] == [
            "example.net/forecast"
        ]
        execution = await client.call("example.net/forecast", {"city": "Bern"})
        assert execution.check().output == {"high": 31}
        [tool] = await client.index(ORIGIN)
        assert tool.name == "example.net/forecast"
