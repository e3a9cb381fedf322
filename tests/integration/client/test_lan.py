"""The local network through the client: who is called, who next, what is refused, remembered, and opened."""

import asyncio
import socket
import time
from typing import Any

import pytest
from tests.support.eventually import PATIENCE, eventually
from tests.support.fake_lan import FIRST, SECOND, FakeLanAgent, done

from skillwire.adapters.files.atomic import cache_directory
from skillwire.client import lan_flows
from skillwire.errors import FetchError, NotFoundError
from skillwire.model.lan import LanChange


class TestNobody:
    def test_whether_there_is_anybody_is_asked_while_the_first_question_waits(self, network):
        class Silent(FakeLanAgent):
            async def discover(self, *, capabilities=(), patience=None, **_):
                self.asked.append((capabilities, patience))
                await asyncio.sleep(patience)
                self.asked.append("answered")
                return () if capabilities else (FIRST,)

        network.agent = Silent()
        with pytest.raises(NotFoundError):
            network.client.lan.next_provider(network.client.lan.providers("nothing"))
        started, (wanted, patience), (other, rest), *ends = network.agent.asked
        assert (started, wanted, other, ends) == ("start", ("nothing",), (), ["answered", "answered"])
        assert rest < 1.5 < patience <= 2.0  # the start of the agent counts

    def test_who_answers_after_a_while_is_not_made_to_wait_for_the_second_question(self, network):
        class Slow(FakeLanAgent):
            async def discover(self, *, capabilities=(), **_):
                if capabilities:
                    await asyncio.sleep(1.0)
                    return (FIRST,)
                self.asked.append("whether anybody is there")
                try:
                    await asyncio.sleep(PATIENCE)
                finally:
                    self.asked.append("given up")
                return ()

        network.agent = Slow()
        assert network.client.lan.next_provider(network.client.lan.providers("org-data-read")) is not None
        assert network.agent.asked == ["start", "whether anybody is there", "given up"]


class TestCache:
    def silent(self, network):
        network.client.close()
        network.agent = FakeLanAgent()
        network.client = network.open()

    def test_a_goodbye_that_is_heard_ends_what_is_kept(self, network):
        network.serves(FIRST, done(1))
        network.call()
        network.agent.tell(LanChange("left", time.time(), FIRST))
        memory = network.client.lan._flows.memory
        eventually(lambda: not (memory.skills()))

    @pytest.mark.spec("SDP-cache-refresh")
    @pytest.mark.parametrize("fails", [0, 2], ids=["answered", "failing at first"])
    def test_what_ends_soon_is_asked_for_again_and_lasts_once_it_is_answered(self, network, monkeypatch, fails):
        self.refreshes_within(network, monkeypatch, milliseconds=20)
        network.serves(FIRST, done(1))
        found = network.client.lan.discover()
        memory, began = network.client.lan._flows.memory, time.time()
        assert [one.skill_id for one in memory.skills()] == ["forecast"]
        asked, discover, failures = network.agent.asked, network.agent.discover, [FetchError("DISC_005", "no")] * fails

        async def failing_at_first(**options):
            await discover(**options)
            if failures:
                raise failures.pop()
            return found

        monkeypatch.setattr(network.agent, "discover", failing_at_first)
        before = len(asked)
        monkeypatch.setattr(memory, "_clock", lambda: began + 299.99)  # the entry is good for five minutes
        eventually(lambda: memory.skills() and not memory.is_refresh_due())

        assert asked[before:] == [("discover", (), ())] * (fails + 1)
        monkeypatch.setattr(memory, "_clock", lambda: began + 599)
        assert [one.skill_id for one in memory.skills()] == ["forecast"]

    @staticmethod
    def refreshes_within(network, monkeypatch, milliseconds):
        """Have a client look all the time whether anything ends within so long."""
        monkeypatch.setattr(lan_flows, "_LEAST_PAUSE", 0.01)
        config = cache_directory().parent / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "skillwire.toml").write_text(f"[discovery.cache]\nrefreshBeforeExpiry = {milliseconds}\n")
        network.client = network.open()


@pytest.fixture
def silent_server():
    """Give the port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.timeout(30)
class TestSilentProviders:
    """A provider that accepts a connection and stays silent; the limit of the test is far below a request's minute."""

    def test_a_time_limit_bounds_it_and_the_error_names_it(self, network, silent_server):
        network.agent.skills = [FIRST._replace(host="127.0.0.1", port=silent_server)]
        network.client.driver = None
        caught: Any
        with pytest.raises(FetchError) as caught:
            network.client.call("lan:org-data-read", {"city": "Bern"}, timeout=1)
        assert caught.value.code == "DISC_006"
        assert f"127.0.0.1:{silent_server} was passed over: " in caught.value.message
        assert [rung["name"] for rung in caught.value.details["rungs"]] == ["lan", "dht", "skillCenter", "cache"]

    def test_the_next_provider_is_tried(self, network, silent_server):
        network.agent.skills = [
            FIRST._replace(host="127.0.0.1", port=silent_server),
            SECOND._replace(host="127.0.0.1", port=1),
        ]
        network.client.driver = None
        with pytest.raises(FetchError, match=f"127.0.0.1:{silent_server} was passed over: .*127.0.0.1:1 was passed"):
            network.client.call("lan:org-data-read", {"city": "Bern"})
