"""The DHT through the clients: the rung of the ladder, consent, digests, and the operations of ``skillwire.dht``."""

import asyncio

import pytest
from tests.support.fake_dht import DIGEST, OWN_KEY, FakeDhtAgent, dht_skill
from tests.support.fake_lan import Network, done, lan_skill

from skillwire import dht
from skillwire.adapters.dht import agent as adapter
from skillwire.client.session import ClientSession
from skillwire.errors import FetchError, NotFoundError, SkillwireError, TrustError, UsageError, ValidationError
from skillwire.model.url import parse_url
from skillwire.resolver.ladder import Query
from skillwire.resolver.sources.dht import skills_of

SETTINGS = """
[discovery.dht]
enabled = true
bootstrapNodes = [{ host = "192.0.2.1", port = 6881 }]
"""
OFFER = dht.DhtOffer("notes", "1.0.0", "tool-skill", "http://192.168.1.1:8000", ("user-auth",))
FORECAST = dht_skill("forecast")


class Reached(Network):
    """A network without agents, and a DHT."""

    def __init__(self, folder, monkeypatch, *skills, **options):
        self.dht = FakeDhtAgent(*skills, **options)
        monkeypatch.setattr(ClientSession, "make_dht_agent", lambda *_: self.dht)
        super().__init__(folder, monkeypatch)

    def publishes(self, record, *outcomes):
        (skill,) = skills_of([dht.DhtAnswer((record,), 1)], 0.0)
        self.serves(skill, *outcomes)
        self.agent.skills.clear()  # no agent of the local network announces it
        self.dht.skills.append(record)


@pytest.fixture
def reach(tmp_path, monkeypatch):
    config = tmp_path / "home" / "config"
    config.mkdir(parents=True)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    clients = []

    def begin(*skills, settings=SETTINGS, **options):
        (config / "skillwire.toml").write_text(settings)
        made = Reached(project, monkeypatch, *skills, **options)
        clients.append(made)
        return made

    yield begin
    for made in clients:
        for client in made.clients:
            client.close()


def rung(network):
    return next(one for one in network.client.rungs if one.name == "dht")


class TestTheRung:
    def test_a_capability_is_called_at_a_provider_that_only_the_dht_has(self, reach):
        network = reach()
        network.publishes(FORECAST, done(1))
        assert network.call().output == {"from": 1}
        assert ("capability", ("org-data-read",), "all") in network.dht.asked
        assert ("name", "org-data-read") in network.dht.asked

    def test_the_local_network_comes_first(self, reach):
        network = reach(FORECAST)
        network.serves(lan_skill("forecast", "192.168.1.9"), done(9))
        assert network.call().output == {"from": 9}
        assert network.dht.asked == []

    def test_words_are_looked_up_as_capabilities_and_as_names(self, reach):
        network = reach(FORECAST, dht_skill("auth-helper", 2, capabilities=("user-auth",)))
        (found,) = network.client.find("forecast")
        assert (found[0].ref.name, found[0].ref.found_via, found[0].ref.lan.trust) == ("forecast", "dht", "verified")
        network.client.find("möbel user-auth")
        assert ("capability", ("user-auth",), "any") in network.dht.asked
        assert rung(network).outcome == "nothing"  # both words are required

    def test_what_it_found_is_kept_with_its_url_and_digest_for_a_silence(self, reach):
        record = FORECAST._replace(endpoint="https://skills.example.com/team", digest=DIGEST)
        network = reach(record)
        network.client.find("forecast")
        network.dht.nodes = 0
        [(hit, _)] = network.client.find("forecast")
        assert (hit.ref.found_via, hit.ref.freshness, hit.ref.digest) == ("dht cache", "cached", DIGEST)
        assert (hit.ref.origin, hit.ref.lan.trust) == ("https://skills.example.com/team", "verified")

    def test_a_question_without_a_name_or_capability_is_not_asked(self, reach):
        network = reach(FORECAST)
        assert network.client.find("") == []
        assert (rung(network).outcome, rung(network).reason) == (
            "off", "it is asked for capabilities and names alone",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ("[discovery.dht]\nenabled = false\n", "discovery.dht is not enabled"),
            ("[discovery.dht]\nenabled = true\n", "discovery.dht has no bootstrapNodes"),
        ],
    )
    def test_it_is_off_unless_it_is_configured(self, reach, settings, reason):
        network = reach(FORECAST, settings=settings)
        assert network.failing().code == "DISC_001"
        rungs = network.client._session.lan.rungs
        assert next(one for one in rungs(Query(capabilities=("org-data-read",))) if one.name == "dht").off == reason
        assert network.dht.asked == []

    def test_offline_and_for_the_local_network_alone_it_is_not_asked(self, reach):
        network = reach(FORECAST)
        network.client.lan.discover(capabilities=["org-data-read"])
        network.client = network.open(offline=True)
        with pytest.raises(SkillwireError):
            network.client.show("forecast")
        assert network.dht.asked == []

    def test_a_silent_dht_leads_to_the_next_rung_and_is_reported(self, reach):
        network = reach(nodes=0)
        error = network.failing()
        assert "dht (timeout, " in error.message
        traces = {one["name"]: one for one in error.details["rungs"]}
        assert traces["dht"]["code"] == "DHT_UNREACHABLE"

    def test_what_was_not_found_says_what_was_not_reached(self, reach):
        network = reach(silent=("192.0.2.7:6881",))
        error = network.failing()
        reason = next(one["reason"] for one in error.details["rungs"] if one["name"] == "dht")
        assert reason.endswith("3 nodes answered; no answer came from 192.0.2.7:6881")

    def test_an_answer_without_one_of_its_keys_is_reported_as_incomplete(self, reach):
        network = reach(FORECAST, keys_without_answer=("user-auth",))
        network.client.find("forecast")
        assert network.notes[0] == (
            "DHT_UNREACHABLE", "the answer of the DHT may not be complete; no node answered for user-auth",
        )  # fmt: skip


class TestConsent:
    def test_an_uncertified_publisher_is_called_with_consent_alone(self, reach):
        network = reach()
        network.publishes(FORECAST._replace(trust="unverified"), done(1))
        error = network.failing()
        assert (error.code, "--unverified" in str(error.fix)) == ("DISC_004", True)
        assert not network.publisher.requests
        assert network.call(use_unverified=True).output == {"from": 1}

    def test_a_bare_name_that_only_an_uncertified_publisher_announces_is_not_taken(self, reach):
        network = reach(FORECAST._replace(trust="unverified"))
        with pytest.raises(TrustError) as caught:
            network.client.show("forecast")
        assert caught.value.code == "DISC_004"
        assert "has no certified key" in caught.value.message
        assert "name its address: http://192.168.1.1:8000." in caught.value.diagnostics().fix
        assert not network.publisher.requests

    def test_finding_opens_no_address_and_using_opens_that_of_the_record_alone(self, reach):
        network = reach()
        network.publishes(FORECAST, done(1))
        network.client.find("forecast")
        policy = network.client._session.access
        assert not policy.addresses.named
        network.call()
        policy.addresses.check_url(parse_url("http://192.168.1.1:8000/"))
        with pytest.raises(SkillwireError):
            policy.addresses.check_url(parse_url("http://192.168.1.1:8001/"))


@pytest.fixture
def node(monkeypatch, tmp_path):
    """Have ``skillwire.dht`` make this agent."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    made = FakeDhtAgent(FORECAST, dht_skill("notes", 2, key_id=OWN_KEY, capabilities=("user-auth", "org-data-read")))
    monkeypatch.setattr(adapter, "DhtAgent", lambda *_, **__: made)
    return made


def names(answer):
    return [skill.skill_id for skill in answer.skills]


class TestTheOperations:
    def test_the_four_of_the_text_and_two_more(self, node):
        with dht.Client(bootstrap=["192.0.2.1:6881"]) as client:
            assert client.put(OFFER).stored == 3
            assert names(client.get("notes", "user-auth")) == ["notes"]
            assert names(client.get("forecast")) == ["forecast"]
            assert names(client.find_by_capability(["org-data-read", "user-auth"])) == ["notes"]
            assert names(client.find_by_capability(["org-data-read", "user-auth"], match="any")) == [
                "forecast",
                "notes",
            ]
            assert client.remove("notes").stored == 3
            assert client.ping("192.0.2.2", 6881).agent_id == "agent-2"
            assert client.status().nodes == 3
        assert node.asked[0] == "start"
        assert node.asked[1] == ("put", OFFER)
        assert ("remove", "notes", ("user-auth", "org-data-read")) in node.asked  # as its record has them
        assert node.asked[-1] == "stop"

    def test_awaited_they_are_the_same(self, node):
        async def run():
            async with dht.AsyncClient(bootstrap=["192.0.2.1:6881"]) as client:
                await client.put(OFFER)
                found = await client.find_by_capability(["org-data-read"])
                assert names(await client.get("notes", "user-auth")) == ["notes"]
                await client.remove("notes", ["user-auth"])
                assert (await client.ping("192.0.2.2", 6881)).trust == "unverified"
                assert (await client.status()).held == 12
                return found

        assert names(asyncio.run(run())) == ["forecast", "notes"]
        assert node.asked[-1] == "stop"

    def test_only_a_record_of_ours_is_removed(self, node):
        with dht.Client(bootstrap=["192.0.2.1:6881"]) as client, pytest.raises(NotFoundError) as caught:
            client.remove("forecast")
        assert caught.value.code == "DISC_002"
        assert not [one for one in node.asked if one[0] == "remove"]

    @pytest.mark.parametrize("operation", ["get", "find_by_capability", "put"])
    def test_without_an_answer_each_raises(self, node, operation):
        node.nodes, node.silent = 0, ("192.0.2.1:6881",)
        given = {"get": "notes", "find_by_capability": ["user-auth"], "put": OFFER}[operation]
        with dht.Client(bootstrap=["192.0.2.1:6881"]) as client, pytest.raises(FetchError) as caught:
            getattr(client, operation)(given)
        assert caught.value.code == "DHT_UNREACHABLE"

    def test_names_are_checked_before_the_dht_is_asked(self, node):
        with dht.Client(bootstrap=["192.0.2.1:6881"]) as client:
            with pytest.raises(UsageError, match="not one text"):
                client.find_by_capability("user-auth")  # type: ignore[arg-type]  # mypy sees it, too
            with pytest.raises(UsageError, match="no capability is named"):
                client.find_by_capability([])
            with pytest.raises(ValidationError):
                client.get("a b")
        assert node.asked in ([], ["start", "stop"])

    def test_the_settings_name_the_bootstrap_nodes_and_without_one_it_is_an_error(self, node, tmp_path):
        del node
        with pytest.raises(UsageError) as caught:
            dht.Client()
        assert caught.value.code == "DHT_BOOTSTRAP"
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "skillwire.toml").write_text(SETTINGS)
        assert dht.Client().settings.dht.bootstrap == (("192.0.2.1", 6881),)
