"""The local network through the client: who is called, who next, what is refused, remembered, and opened."""

import asyncio
import json
import threading
from typing import Any

import pytest
from tests.support.eventually import PATIENCE
from tests.support.fake_lan import FIRST, SECOND, STAMPS, THIRD, FakeLanAgent, done, lan_skill, told
from tests.unit.protocols.sharing_samples import ENTRY

from skillwire import AsyncClient, limits
from skillwire.adapters.files.atomic import cache_directory
from skillwire.adapters.files.credentials import open_store
from skillwire.cli.lan_view import status_text
from skillwire.client import lan_flows
from skillwire.errors import FetchError, NotFoundError, TrustError, UsageError, ValidationError
from skillwire.model.credential import Credential
from skillwire.model.lan import FoundVia, LanChange, LanMember, SceneResult
from skillwire.model.url import parse_url
from skillwire.resolver.settings import Settings
from skillwire.wire.exchange import HttpResponse, TimeLimit


def refused(status, code):
    return told({"error": {"code": code, "message": "No."}}, status)


def lost(code="CONNECT_FAILED"):
    return FetchError(code, "nobody listens there")


class TestWhoIsCalled:
    def test_the_first_by_health_then_trust_then_name_is_called(self, network):
        network.serves(FIRST._replace(status="DEGRADED"), done(1))
        network.serves(SECOND._replace(is_verified=False), done(2))
        network.serves(THIRD, done(3))
        assert network.call(use_unverified=True).output == {"from": 3}
        assert network.called == ["192.168.1.3"]

    def test_one_that_cannot_be_connected_to_is_passed_over_and_told(self, network):
        network.serves(FIRST, lost())
        network.serves(SECOND, done(2))
        execution = network.call()
        assert (execution.output, execution.reference) == ({"from": 2}, "http://192.168.1.2:8000/forecast.json")
        assert str(network.client.rungs[0]).startswith("lan (found")
        ((code, message),) = network.notes
        assert code == "CONNECT_FAILED"
        assert message.startswith("forecast of agent-1 at 192.168.1.1:8000 was passed over: ")

    def test_one_whose_index_cannot_be_read_is_passed_over(self, network):
        network.serves(FIRST, done(1))
        for path in (".well-known/agent-skills/index.json", ".well-known/skill-sharing"):
            network.publisher.fail(f"http://192.168.1.1:8000/{path}", lost())
        network.serves(SECOND, done(2))
        assert network.call().output == {"from": 2}

    @pytest.mark.parametrize(
        ("timeout", "first", "last"), [(None, 5, 20), (3, 1.5, 3), (60, 5, 60)], ids=["none", "short", "long"]
    )
    def test_one_that_never_answers_costs_a_few_seconds(self, network, timeout, first, last):
        network.serves(FIRST, done(1))
        for path in (".well-known/agent-skills/index.json", ".well-known/skill-sharing"):
            network.publisher.fail(f"http://192.168.1.1:8000/{path}", lost("TIMEOUT"))
        network.serves(SECOND, done(2))
        assert network.call(timeout=timeout).output == {"from": 2}
        waited = {parse_url(one.url).host: one.timeout for one in network.publisher.requests if one.method == "GET"}
        assert 0 < waited["192.168.1.1"] <= first
        assert 0 < waited["192.168.1.2"] <= last

    def test_a_descriptor_that_is_read_anew_takes_its_time_from_the_call(self, network, monkeypatch):
        network.serves(FIRST, done(1))
        network.serves(SECOND, done(2))
        url = "http://192.168.1.1:8000/forecast.json"
        document = network.publisher._answers[url].body
        network.publisher.answer(url, document.replace(b'"city"', b'"town"'), cache_control="max-age=60")
        network.client.show("http://192.168.1.1:8000/forecast").descriptor()
        network.publisher.answer(url, document)
        network.publisher.requests.clear()

        def left(limit):
            reads = sum(one.url == url for one in network.publisher.requests)
            return limit.seconds and limit.seconds - 2.0 * reads

        monkeypatch.setattr(TimeLimit, "left", left)
        assert network.call(timeout=60).output == {"from": 1}
        (read,) = [one for one in network.publisher.requests if one.url == url]
        assert read.timeout <= limits.CALL_LOOKUP_SECONDS, "another provider is known"
        (call,) = [one for one in network.publisher.requests if one.method == "POST"]
        assert json.loads(call.body or b"")["context"]["timeout_ms"] == 58_000

    def test_one_that_publishes_something_else_is_passed_over(self, network):
        network.serves(FIRST._replace(skill_id="almanac"), done(1))
        network.serves(SECOND, done(2))
        assert network.call().output == {"from": 2}
        assert network.notes[0][0] == "DISC_006"

    @pytest.mark.parametrize(
        ("status", "code"), [(403, "PERMISSION_DENIED"), (429, "RATE_LIMITED"), (404, "NOT_FOUND")]
    )
    def test_one_that_refuses_is_passed_over(self, network, status, code):
        network.serves(FIRST, refused(status, code))
        network.serves(SECOND, done(2))
        assert network.call().output == {"from": 2}

    def test_one_that_puts_the_call_off_is_passed_over(self, network):
        network.serves(FIRST, refused(503, "ENDPOINT_UNREACHABLE")._replace(headers={"retry-after": "300"}))
        network.serves(SECOND, done(2))
        assert network.call().output == {"from": 2}
        assert set(network.called) == {"192.168.1.1", "192.168.1.2"}

    def test_an_unusable_one_is_never_asked(self, network):
        network.serves(FIRST._replace(status="MAINTENANCE"), done(1))
        network.serves(SECOND, done(2))
        assert network.call().output == {"from": 2}
        assert network.notes == [
            ("DISC_006", "forecast of agent-1 at 192.168.1.1:8000 was passed over: forecast is MAINTENANCE")
        ]
        assert not [one for one in network.publisher.requests if "192.168.1.1" in one.url]


class TestNothingHappensTwice:
    @pytest.mark.parametrize(
        "outcome", [lost("CONNECTION_LOST"), lost("TIMEOUT"), refused(502, "BUSY"), refused(503, "BUSY")]
    )
    def test_what_may_have_been_accepted_goes_to_nobody_else(self, network, outcome):
        network.serves(FIRST, outcome)
        network.serves(SECOND, done(2))
        error = network.failing()
        assert error.may_be_accepted is True
        assert set(network.called) == {"192.168.1.1"}

    def test_what_may_have_arrived_before_it_was_refused_goes_to_nobody_else(self, network):
        network.publisher.reply(
            "OPTIONS",
            "http://192.168.1.1:8000/call",
            HttpResponse("", 204, {"access-control-allow-headers": "Idempotency-Key"}, b""),
        )
        network.serves(FIRST, lost("CONNECTION_LOST"), refused(403, "PERMISSION_DENIED"))
        network.serves(SECOND, done(2))
        assert network.failing().code == "PERMISSION_DENIED"
        assert set(network.called) == {"192.168.1.1"}

    def test_what_was_accepted_goes_to_nobody_else_when_its_provider_is_lost(self, network):
        accepted = told(
            {"execution_id": "exec-1", "status": "accepted", "skill_id": ENTRY["id"], "timestamps": STAMPS},
            202,
            location="/status/exec-1",
        )
        network.serves(FIRST, accepted)
        network.serves(SECOND, done(2))
        network.publisher.reply("GET", "http://192.168.1.1:8000/status/exec-1", refused(403, "PERMISSION_DENIED"))
        network.failing()
        assert network.called == ["192.168.1.1"]

    def test_what_only_reads_is_asked_of_the_next(self, network):
        network.serves(FIRST, lost("CONNECTION_LOST"), method="GET")
        network.serves(SECOND, done(2), method="GET")
        assert network.call().output == {"from": 2}

    def test_inputs_that_are_wrong_are_wrong_everywhere(self, network):
        network.serves(FIRST, done(1))
        network.serves(SECOND, done(2))
        with pytest.raises(ValidationError) as caught:
            network.client.call("lan:org-data-read", {"town": "Bern"})
        assert caught.value.code == "VALIDATION_ERROR"
        assert not [one for one in network.publisher.requests if "192.168.1.2" in one.url]


class TestNobody:
    def test_nobody_with_the_capability_is_told_from_nobody_at_all(self, network):
        assert network.failing().code == "DISC_001"
        network.agent.skills.append(lan_skill(capabilities=("user-auth",)))
        assert network.failing().code == "DISC_002"

    def test_unverified_ones_are_refused_unless_the_user_says_otherwise(self, network):
        network.serves(FIRST._replace(is_verified=False), done(1))
        error = network.failing()
        assert (type(error), error.code) == (TrustError, "DISC_004")
        assert "--unverified" in str(error.fix)
        assert not network.publisher.requests
        assert network.call(use_unverified=True).output == {"from": 1}

    def test_one_whose_key_was_revoked_is_refused_whatever_the_user_says(self, network):
        network.serves(FIRST._replace(agent_id="", is_verified=False, status="UNKNOWN"), done(1))
        (known,) = network.client.lan.discover()
        network.agent.revoked = {"192.168.1.1": "agent-1"}
        (found,) = network.client.lan.discover()
        assert (known.trust, found.trust, found.agent_id, found.is_usable) == ("not known", "revoked", "agent-1", False)
        network.client.lan.discover()
        for skills in ([FIRST._replace(agent_id="", is_verified=False, status="UNKNOWN")], []):  # and of the cache
            network.agent.skills = skills
            for use_unverified in (False, True):
                error = network.failing(use_unverified=use_unverified)
                assert "agent-1, which offers forecast, is refused: its key was revoked" in error.message
                assert error.code == "DISC_004"
        with pytest.raises(TrustError, match="its key was revoked"):
            network.client.lan.skill(found, use_unverified=True)
        assert not network.publisher.requests

    def test_the_users_settings_may_let_unverified_ones_be_used(self, network, tmp_path):
        config = tmp_path / "home" / "config"
        config.mkdir(parents=True)
        (config / "skillwire.toml").write_text("[discovery.trust]\nuseUnverified = true\n")
        network.client = network.open()
        network.serves(FIRST._replace(is_verified=False), done(1))
        assert network.call().output == {"from": 1}
        assert network.failing(use_unverified=False).code == "DISC_004"

    def test_one_that_only_others_mention_is_no_refusal_and_the_next_source_is_asked(self, network):
        network.serves(FIRST, done(1))
        assert network.call().output == {"from": 1}
        network.agent.skills = [FIRST._replace(agent_id="", is_verified=False, status="UNKNOWN")]  # it crashed
        network.client = network.open()
        error = network.failing()
        assert (error.code, error.exit_code) == ("DISC_006", 5)
        assert "only other agents mention forecast, and its own agent does not answer" in error.message
        assert [(rung.name, rung.outcome) for rung in network.client.rungs] == [
            ("lan", "failed"),
            ("dht", "off"),
            ("skillCenter", "off"),
            ("cache", "found"),
        ]
        assert network.called == ["192.168.1.1"]
        assert network.call(use_unverified=True).output == {"from": 1}

    def test_when_all_fail_every_reason_is_told(self, network):
        network.serves(FIRST, lost())
        network.serves(SECOND._replace(is_verified=False), done(2))
        network.serves(THIRD._replace(status="OFFLINE"), done(3))
        error = network.failing()
        assert (error.code, error.exit_code) == ("DISC_006", 5)
        for part in (
            "192.168.1.1:8000",
            "nobody listens",
            "agent-2, which offers forecast, has no certified key",
            "forecast is OFFLINE",
        ):
            assert part in error.message

    def test_a_network_that_cannot_be_used_is_told(self, network):
        network.agent.error = FetchError("LAN_UNAVAILABLE", "no interface is up")
        assert network.failing().code == "LAN_UNAVAILABLE"
        network.agent.error = None  # it was plugged in
        assert network.failing().code == "DISC_001"


class TestNames:
    """One name where several are wanted is a mistake, and no letters."""

    @pytest.mark.parametrize("what", ["capabilities", "scenes", "types"])
    def test_one_text_is_no_list(self, network, what):
        with pytest.raises(UsageError, match=f"{what} is a list of names, not one text") as caught:
            network.client.lan.discover(**{what: "user-auth"})
        assert caught.value.diagnostics().fix == f"Write {what}=['user-auth']."
        assert network.agents == []

    def test_nor_is_it_for_a_scene(self, network):
        with pytest.raises(UsageError, match="not one text"):
            network.client.lan.request_scene("auth", "user-auth")

    def test_nor_for_the_asynchronous_client(self, network):
        client = AsyncClient(network.folder)
        with pytest.raises(UsageError, match="not one text"):
            asyncio.run(client.lan.discover(capabilities="user-auth"))  # type: ignore[arg-type]  # mypy sees it, too
        with pytest.raises(UsageError, match="not one text"):
            asyncio.run(client.lan.request_scene("auth", "user-auth"))  # type: ignore[arg-type]  # same

    def test_what_is_no_text_is_refused(self, network):
        numbers: Any = [7]
        with pytest.raises(UsageError, match="capabilities holds 7, which is no text"):
            network.client.lan.discover(capabilities=numbers)

    @pytest.mark.parametrize(("scene", "able", "named"), [("", (), "scene"), ("auth", [""], "capabilities")])
    def test_the_argument_that_is_no_identifier_is_named(self, network, scene, able, named):
        with pytest.raises(ValidationError, match=f"{named}: not an identifier: ''"):
            network.client.lan.request_scene(scene, able)

    @pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
    def test_any_collection_of_texts_is_good(self, network, kind):
        network.agent.skills.append(FIRST)
        assert network.client.lan.discover(capabilities=kind(["org-data-read"])) == [FIRST]


class TestAddresses:
    def test_only_the_port_of_the_skill_is_opened(self, network):
        network.serves(FIRST, done(1))
        with pytest.raises(TrustError):
            network.client._session.access.addresses.check_url(parse_url("http://192.168.1.1:8000/"))
        network.call()
        policy = network.client._session.access.addresses
        policy.check_url(parse_url("http://192.168.1.1:8000/"))
        for other in ("http://192.168.1.1:8001/", "http://192.168.1.2:8000/"):
            with pytest.raises(TrustError):
                policy.check_url(parse_url(other))

    def test_finding_opens_nothing(self, network):
        network.serves(FIRST, done(1))
        assert network.client.lan.discover()
        assert not network.client._session.access.addresses.named

    @pytest.mark.parametrize(("is_verified", "sent"), [(True, "Bearer secret"), (False, None)])
    def test_a_stored_credential_goes_to_a_verified_skill_alone(self, network, is_verified, sent):
        open_store().keep(Credential("http://192.168.1.1:8000", "api_key", "secret", "api-key"))
        network.client = network.open()
        network.serves(FIRST._replace(is_verified=is_verified), done(1))
        network.call(use_unverified=True)
        assert {one.headers.get("Authorization") for one in network.publisher.requests} == {sent}


class TestByName:
    def test_a_skill_without_the_capability_is_called_by_its_name(self, network):
        network.serves(FIRST._replace(capabilities=()), done(1))
        assert network.client.lan.call(FIRST.skill_id, {"city": "Bern"}).output == {"from": 1}

    def test_a_capability_comes_before_a_name(self, network):
        network.serves(FIRST._replace(capabilities=()), done(1))
        network.serves(SECOND._replace(skill_id="almanac", capabilities=("forecast",)), done(2))
        found = network.client.lan.providers("forecast", use_unverified=True)
        assert network.client.lan.next_provider(found).name == "almanac"

    def test_a_remembered_skill_is_found_by_its_name_on_a_silent_network(self, network):
        network.serves(FIRST._replace(capabilities=()), done(1))
        network.client.lan.discover()
        network.agent.skills = []
        assert network.client.lan.call(FIRST.skill_id, {"city": "Bern"}).output == {"from": 1}


def test_a_hint_of_the_cache_is_in_no_scene_and_its_health_is_marked_as_old():
    hint = FIRST._replace(scenes=("auth",), status="UNKNOWN", is_verified=False, found_via=FoundVia.CACHE)
    heard = hint._replace(skill_id="other", status="HEALTHY")
    (scene,) = lan_flows.scenes_of([hint, heard], {})
    assert [member.skill_id for member in scene.members] == ["other"]
    assert [status_text(one).text for one in (hint, heard)] == ["UNKNOWN?", "HEALTHY?"]
    assert status_text(heard._replace(found_via=FoundVia.MULTICAST)).text == "HEALTHY"


class SlowAgent(FakeLanAgent):
    """Takes 1.5 s of ``now`` to start."""

    now = 0.0
    patience = 0.0

    async def start(self):
        await super().start()
        self.now += 1.5

    async def discover(self, *, patience=0.0, **options):
        self.patience = patience
        return await super().discover(**options)


@pytest.fixture
def slow(network):
    network.agent = agent = SlowAgent(FIRST)
    network.client._session.context.open_ladder().clock = lambda: agent.now
    return agent


def test_a_slow_start_leaves_the_network_the_whole_patience(network, slow):
    assert [one.skill_id for one in network.client.lan.discover()] == ["forecast"]
    assert slow.patience == pytest.approx(2.0)


def test_the_start_of_the_agent_is_part_of_a_time_limit(network, slow):
    found = network.client.lan.providers("org-data-read", use_unverified=True, timeout=2.0)
    assert network.client.lan.next_provider(found).name == "forecast"
    assert 0 < slow.patience < 0.5


class TestTroubles:
    def test_an_agent_with_another_group_key_is_reported_once_by_every_use(self, network):
        network.agent.warnings = (TrustError("LAN_UNHEARD", "192.168.1.9 signs with a group key"),)
        network.client.lan.discover()
        network.client.lan.scenes()
        assert network.notes == [("LAN_UNHEARD", "192.168.1.9 signs with a group key")]

    def test_without_an_interface_the_network_has_failed(self, network):
        network.agent.warnings = (FetchError("DISC_005", "no network interface but loopback is up"),)
        error = network.failing()
        assert (error.code, error.message[:40]) == ("DISC_005", "no agent on this machine answered within")
        network.agent.scenes["auth"] = SceneResult("auth")
        with pytest.raises(FetchError) as caught:
            network.client.lan.request_scene("auth")
        assert caught.value.code == "DISC_005"
        assert network.notes == [("DISC_005", "no network interface but loopback is up")]


class TestCache:
    def silent(self, network):
        network.client.close()
        network.agent = FakeLanAgent()
        network.client = network.open()

    def test_what_was_found_is_used_when_nobody_answers_and_says_so(self, network):
        network.serves(FIRST, done(1))
        network.call()
        written = json.loads((cache_directory() / "lan.json").read_text())
        assert written["skills"]["forecast"]["endpoint"] == "192.168.1.1:8000"
        self.silent(network)
        (skill,) = network.client.lan.discover()
        assert skill.found_via is FoundVia.CACHE
        assert network.call().output == {"from": 1}

    def test_it_is_used_when_there_is_no_network(self, network):
        network.serves(FIRST, done(1))
        network.call()
        self.silent(network)
        network.agent.error = FetchError("DISC_005", "the interface is down")
        assert [skill.skill_id for skill in network.client.lan.discover()] == ["forecast"]
        assert network.notes == [("DISC_005", "the interface is down")]

    def test_it_is_not_used_when_others_answer_and_is_forgotten(self, network):
        network.serves(FIRST, done(1))
        network.call()
        self.silent(network)
        network.agent.skills.append(lan_skill("other", capabilities=("user-auth",)))
        assert network.failing().code == "DISC_002"
        self.silent(network)
        assert network.client.lan.discover("forecast") == []

    def test_refreshing_does_without_it(self, network):
        network.serves(FIRST, done(1))
        network.call()
        self.silent(network)
        assert network.client.lan.discover(refresh=True) == []
        self.silent(network)
        assert network.client.lan.discover() == []

    def test_offline_asks_nobody(self, network):
        network.serves(FIRST, done(1))
        network.call()
        started = len(network.agents)
        network.client = network.open(offline=True)
        assert [skill.skill_id for skill in network.client.lan.discover()] == ["forecast"]
        with pytest.raises(FetchError) as caught:
            network.client.lan.request_scene("auth")
        assert caught.value.code == "OFFLINE"
        assert len(network.agents) == started

    @staticmethod
    def refreshes_within(network, monkeypatch, milliseconds):
        """Have a client look all the time whether anything ends within so long."""
        monkeypatch.setattr(lan_flows, "_LEAST_PAUSE", 0.01)
        config = cache_directory().parent / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "skillwire.toml").write_text(f"[discovery.cache]\nrefreshBeforeExpiry = {milliseconds}\n")
        network.client = network.open()

    def test_a_cache_that_is_none_is_an_empty_one(self, network):
        folder = cache_directory()
        folder.mkdir(parents=True)
        (folder / "lan.json").write_text("[]")
        assert network.client.lan.discover() == []
        network.serves(FIRST, done(1))
        assert network.call().output == {"from": 1}


def scene(skill=FIRST, **facts):
    told = {"protocol": "http", "host": skill.host, "port": skill.port, "endpoint": skill.endpoint}
    member = LanMember(skill.agent_id, skill.skill_id, "PRIMARY")
    result = SceneResult("auth", "group-auth-001", told, skill.skill_id, skill.version, skill.capabilities, (member,))
    return result._replace(**facts)


class TestScenes:
    def test_a_scene_is_joined(self, network):
        network.agent.skills = [FIRST]
        network.agent.scenes = {"auth": scene()}
        result = network.client.lan.request_scene("auth", ["org-data-read", "user-auth"])
        assert result.is_joined
        assert result.connection_info["endpoint"] == "192.168.1.1:8000"
        network.client.close()
        assert network.agent.asked == [
            "start",
            ("request", "auth", ("org-data-read", "user-auth")),
            "stop",
        ]

    def test_one_that_is_not_there_is_no_error(self, network):
        result = network.client.lan.request_scene("print")
        assert (result.is_joined, result.is_missing) == (False, True)

    def test_one_whose_provider_nobody_vouches_for_is_refused_unless_the_user_says_otherwise(self, network):
        network.agent.skills, network.agent.scenes = [FIRST._replace(is_verified=False)], {"auth": scene()}
        with pytest.raises(TrustError) as caught:
            network.client.lan.request_scene("auth")
        assert caught.value.code == "DISC_004"
        assert network.client.lan.request_scene("auth", use_unverified=True).is_joined
        assert network.agent.trusted == [False, True]

    def test_scenes_are_listed_with_who_provides_them(self, network):
        network.agent.skills = [FIRST._replace(is_verified=False), SECOND, lan_skill("printer", scenes=("print",))]
        network.agent.orders = {"auth": [("agent-1", "forecast"), ("agent-2", "forecast")]}
        auth, printing = network.client.lan.scenes()
        assert [(member.agent_id, member.role) for member in auth.members] == [
            ("agent-2", "PRIMARY"),  # certified
            ("agent-1", "BACKUP"),
        ]
        assert (auth.group_id, printing.name) == ("group-auth-001", "print")

    def test_providers_of_one_trust_are_in_the_order_of_a_registry_that_answers(self, network):
        network.agent.skills = [FIRST, SECOND, THIRD]
        network.agent.orders = {"auth": [(THIRD.agent_id, "forecast"), (SECOND.agent_id, "forecast")]}
        [auth] = network.client.lan.scenes()
        assert [member.agent_id for member in auth.members] == [one.agent_id for one in (THIRD, SECOND, FIRST)]


class TestThread:
    def test_a_thread_with_a_loop_may_use_the_synchronous_client(self, network):
        network.agent.skills, network.agent.scenes = [FIRST], {"auth": scene()}

        async def main():
            return network.client.lan.request_scene("auth").is_joined

        assert asyncio.run(main())

    def test_an_asynchronous_client_keeps_its_agent_from_one_loop_to_the_next(self, network):
        network.agent.skills, network.agent.scenes = [FIRST], {"auth": scene()}
        client = AsyncClient(network.folder)
        assert asyncio.run(client.lan.request_scene("auth")).is_joined
        assert [one.skill_id for one in asyncio.run(client.lan.discover())] == ["forecast"]
        asyncio.run(client.close())
        assert (network.agent.asked[0], network.agent.asked[-1]) == ("start", "stop")
        assert len(network.agents) == 1

    def test_no_thread_is_left_and_the_client_may_be_used_again(self, network):
        network.client.lan.discover()
        assert "skillwire-lan" in {thread.name for thread in threading.enumerate()}
        network.client.close()
        assert "skillwire-lan" not in {thread.name for thread in threading.enumerate()}
        network.agent = FakeLanAgent(FIRST)
        assert [one.skill_id for one in network.client.lan.discover()] == ["forecast"]

    def test_changes_come_as_they_happen(self, network):
        network.client.lan.discover()
        heard = threading.Event()

        def hear():
            for change in network.client.lan.listen():
                assert change.skill == FIRST
                heard.set()
                return

        listener = threading.Thread(target=hear)
        listener.start()
        network.agent.tell(LanChange("registered", 1.0, FIRST), listeners=2)
        assert heard.wait(PATIENCE)
        listener.join(PATIENCE)

    def test_many_threads_share_one_agent(self, network):
        network.agent.skills = [FIRST]
        found = []
        threads = [threading.Thread(target=lambda: found.extend(network.client.lan.discover())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(found) == 8
        assert network.agent.asked.count("start") == 1


class TestSource:
    """The local network as a row of the table of sources."""

    def test_it_is_searched_like_any_other(self, network):
        network.agent.skills += [FIRST, lan_skill("staff-directory", "192.168.1.9")]
        hits = network.client.find("staff", ["lan:"])
        assert [(skill.name, skill.ref.found_via) for skill, _ in hits] == [("staff-directory", "lan multicast")]
        assert network.client.find("", ["lan:"], capability_type="api") == []
        with pytest.raises(TrustError, match="announced on the local network") as caught:
            hits[0][0].body()
        assert caught.value.code == "NO_DIGEST"

    def test_a_bare_name_is_read_at_the_server_of_its_best_provider(self, network):
        network.serves(SECOND._replace(status="UNKNOWN"))
        network.serves(FIRST)
        client = network.open(settings=Settings(sources=("lan:",)))
        assert client.show("forecast").ref.origin == "http://192.168.1.1:8000"
        with pytest.raises(NotFoundError):
            client.show("forecasts")

    def test_what_is_not_certified_is_not_read(self, network):
        network.serves(FIRST._replace(is_verified=False))
        with pytest.raises(TrustError, match="no certified key"):
            network.open(settings=Settings(sources=("lan:",))).show("forecast")

    def test_an_uncertified_provider_does_not_hide_a_certified_one(self, network):
        network.serves(SECOND._replace(status="UNKNOWN"))
        network.serves(FIRST._replace(is_verified=False))
        client = network.open(settings=Settings(sources=("lan:",)))
        assert client.show("forecast").ref.origin == "http://192.168.1.2:8000"

    @pytest.mark.parametrize("verb", ["index", "add"])
    def test_a_whole_network_is_no_reference(self, network, verb):
        with pytest.raises(UsageError, match="names a whole network"):
            getattr(network.client, verb)("lan:")
