"""What an agent asks: nothing is left of a question that nobody waits for, and who is certified speaks for itself."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.support.eventually import PATIENCE

from skillwire.adapters.clock import moment
from skillwire.adapters.lan import queries as questions_module
from skillwire.adapters.lan.queries import Queries
from skillwire.errors import FetchError, SourceLocation, TrustError
from skillwire.model.lan import FoundVia, LanMember, LanScene, LanSkill, members_of
from skillwire.protocols.skill_discovery.credentials import ConnectionSecret
from skillwire.protocols.skill_discovery.messages import ConnectionInfo, GroupMember, SceneAnswer, SkillInfo
from skillwire.protocols.skill_discovery.scenes import SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings
from skillwire.wire.node import Peer

PEER = Peer("192.0.2.66", 5000)
INFO = ConnectionInfo("gopher", "192.0.2.66", 66, "/evil", "bearer", "X-Evil")
ANSWER = SceneAnswer(
    "auth", "group-auth-1", INFO, SkillInfo("skill-a", "1.0.0"), (GroupMember("agent-a", "skill-a", "PRIMARY"),)
)
FIRST = LanSkill(
    "agent-a", "skill-a", "1.0.0", "tool-skill", "192.0.2.1", 80, ("user-auth",), ("auth",), is_verified=True
)


class Link:
    """One whose node is asked, and answers nothing by itself."""

    def __init__(self, name):
        self.name = name
        self.asked = asyncio.Event()
        memberships = SimpleNamespace(request=self._want, cancel=lambda _: None)
        self.revoked: dict[Peer, str] = {}
        self.node = SimpleNamespace(memberships=memberships, ingress=SimpleNamespace(revoked=self.revoked))

    def _want(self, *_, **__):
        self.asked.set()

    def act(self):
        pass

    def key_of(self, _):
        return None


class Listing:
    """What is listed here."""

    def __init__(self, *skills):
        self.listed = {(one.agent_id, one.skill_id): one for one in skills}
        self.skill = self.listed.get

    def skills(self):
        return tuple(self.listed.values())

    def registrations(self):
        return ()

    def scene(self, name):
        providers = [one for one in self.skills() if name in one.scenes]
        return LanScene(name, "group", members_of(providers, lambda one: (not one.is_verified, *one[:2])))


class Links(list):
    def open_links(self):
        return self


async def accepting(*_):
    """Take a connection, as the endpoint of every provider."""
    return True


@pytest.fixture
def make():
    """Give what makes the questions of an agent with two links, that has heard of a provider, certified or not."""

    def made(*others, **facts):
        settings = LanSettings(discovery=DiscoverySettings(patience=0.01))
        questions = Queries(settings, Listing(FIRST._replace(**facts), *others), moment)  # type: ignore[arg-type]  # as far
        questions.accepts = accepting
        questions.links = Links([Link("eth0/4"), Link("eth0/6")])  # type: ignore[assignment]  # as far as it is used
        return questions, questions.links[0]  # type: ignore[index]  # as far as it is used

    return made


def ask(questions):
    return asyncio.ensure_future(questions.request_scene("auth", (), is_join=False, use_unverified=True))


async def answered(questions, link, **how):
    return (await joined(questions, link, use_unverified=True, **how)).connection_info


async def joined(questions, link, *capabilities, answer=ANSWER, use_unverified=False, **how):
    async with asyncio.timeout(PATIENCE):
        asking = asyncio.ensure_future(
            questions.request_scene("auth", capabilities, is_join=False, use_unverified=use_unverified)
        )
        await link.asked.wait()
        questions.take(link, SceneJoined("auth", answer, PEER, **how))
        return await asking


class Secrets:
    """Hands out one key, or fails."""

    def __init__(self, found):
        self._found = found

    async def ask_provider(self, *_, **__):
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


async def test_how_a_certified_provider_is_called_is_not_told_by_an_answer(make):
    said = {"basePath": "/evil", "authType": "bearer", "authHeader": "X-Evil", "protocol": "gopher"}
    plain = {"basePath": "", "authType": "", "authHeader": "", "protocol": "http"}
    at = {"host": "192.0.2.1", "port": 80, "endpoint": "192.0.2.1:80"}
    assert await answered(*make()) == plain | at
    assert await answered(*make(is_verified=False)) == said | at


@pytest.mark.parametrize("is_verified", [True, False])
async def test_how_a_key_is_used_is_told_by_who_gave_it(make, is_verified):
    """Whatever the answer said, of whomever: it came by a datagram."""
    questions, link = make(is_verified=is_verified)
    questions.secrets = Secrets(ConnectionSecret("sw_key", 2e9, "api-key", "X-Api", "/v2"))
    assert await answered(questions, link) == {
        "protocol": "http",
        "host": "192.0.2.1",
        "port": 80,
        "endpoint": "192.0.2.1:80",
        "basePath": "/v2",
        "authType": "api-key",
        "authHeader": "X-Api",
        "apiKey": "sw_key",
        "expiresAt": "2033-05-18T03:33:20Z",
    }


async def test_a_key_for_https_is_not_to_be_sent_in_clear(make):
    questions, link = make()
    questions.secrets = Secrets(ConnectionSecret("sw_key", 2e9, "api-key", "X-Api", "/v2"))
    info = ConnectionInfo("https", "192.0.2.1", 80)
    answer = SceneAnswer(ANSWER.scene_id, ANSWER.group_id, info, ANSWER.skill_info, ANSWER.members)
    result = await joined(questions, link, answer=answer, use_unverified=True)
    assert result.connection_info["protocol"] == "https"


@pytest.mark.parametrize("use_unverified", [True, False])
async def test_who_cannot_be_called_makes_room_for_who_can(make, use_unverified):
    well = FIRST._replace(agent_id="agent-b", host="192.0.2.9")
    questions, link = make(well, status="UNHEALTHY")
    result = await joined(questions, link, use_unverified=use_unverified)
    assert result.connection_info["host"] == "192.0.2.9"
    assert result.members[0] == LanMember("agent-b", "skill-a", "PRIMARY")
    alone, link = make(status="UNHEALTHY")
    assert (await joined(alone, link, use_unverified=use_unverified)).connection_info["host"] == "192.0.2.1"


@pytest.mark.parametrize("use_unverified", [True, False])
async def test_an_endpoint_that_refuses_is_never_handed_out(make, use_unverified):
    backup = FIRST._replace(agent_id="agent-b", host="192.0.2.9", is_verified=not use_unverified)
    questions, link = make(backup)
    open_hosts = {"192.0.2.9"}

    async def accepts(host, _):
        return host in open_hosts

    questions.accepts = accepts
    assert (await joined(questions, link, use_unverified=use_unverified)).connection_info["endpoint"] == "192.0.2.9:80"
    open_hosts.clear()
    link.asked.clear()
    with pytest.raises(FetchError) as caught:
        await joined(questions, link, use_unverified=use_unverified)
    assert (caught.value.code, str(caught.value.place)) == ("DISC_006", "192.0.2.1:80")
    assert "tried 192.0.2.1:80, 192.0.2.9:80" in caught.value.message


async def test_an_endpoint_that_only_an_answer_names_is_probed_too(make):
    questions, link = make(agent_id="agent-other", scenes=())

    async def refuses(*_):
        return False

    questions.accepts = questions.discover = refuses
    with pytest.raises(FetchError, match=r"no provider of the scene auth takes a connection; tried 192\.0\.2\.66:66"):
        await joined(questions, link, use_unverified=True)


async def test_why_there_is_no_key_is_told_with_its_code_place_and_what_to_do(make):
    questions, link = make()
    place = SourceLocation("192.0.2.1:8443")
    questions.secrets = Secrets(FetchError("DISC_005", "no TLS with agent-a", place=place, fix="Ask again."))
    result = await joined(questions, link)
    assert result.is_joined
    assert "apiKey" not in result.connection_info
    assert result.no_key == ("DISC_005", "note", "no key for the scene auth: no TLS with agent-a", place, "Ask again.")
    questions.secrets = Secrets(None)
    link.asked.clear()
    assert (await joined(questions, link)).no_key is None


async def test_a_provider_that_did_not_register_with_us_was_not_asked_for_a_key(make, monkeypatch):
    async def nothing(*_):
        return ()

    questions, link = make(scenes=("print",))
    monkeypatch.setattr(questions, "discover", nothing)
    questions.secrets = Secrets(ConnectionSecret("sw_key", 2e9))
    result = await joined(questions, link, use_unverified=True)
    assert "apiKey" not in result.connection_info
    assert result.no_key is not None
    assert result.no_key.code == "DISC_005"
    assert "its provider did not register with this agent in time" in result.no_key.message


OTHERS = (
    FIRST._replace(agent_id="agent-c", skill_id="skill-c", host="192.0.2.3", scenes=("print",)),
    FIRST._replace(agent_id="agent-d", skill_id="skill-d", host="192.0.2.4", status="OFFLINE"),
    FIRST._replace(agent_id="agent-e", skill_id="skill-e", version="2.1.0", host="192.0.2.5", port=81),
    FIRST._replace(agent_id="agent-f", skill_id="skill-f", host="192.0.2.6"),
)


async def test_who_may_not_be_used_makes_room_for_whom_we_trust(make):
    questions, link = make(*OTHERS, is_verified=False)
    result = await joined(questions, link, "user-auth")
    assert (result.skill_id, result.version, result.capabilities) == ("skill-e", "2.1.0", ("user-auth",))
    assert result.connection_info["endpoint"] == "192.0.2.5:81"
    assert result.connection_info["authHeader"] == "", "that was said of another"


async def test_of_a_group_from_which_we_chose_ourselves_the_members_are_those_that_we_list(make):
    questions, link = make(*OTHERS, is_verified=False)
    assert (await joined(questions, link)).members == (
        LanMember("agent-e", "skill-e", "PRIMARY"),
        LanMember("agent-f", "skill-f", "BACKUP"),
        LanMember("agent-a", "skill-a", "BACKUP"),
    )


async def test_a_group_is_told_in_the_order_of_the_registry_that_answered(make):
    questions, link = make(*OTHERS[2:])
    told = (GroupMember("agent-e", "skill-e", "PRIMARY"), GroupMember("agent-a", "skill-a", "BACKUP"))
    result = await joined(questions, link, answer=SceneAnswer("auth", "group", INFO, ANSWER.skill_info, told))
    assert [one.agent_id for one in result.members] == ["agent-e", "agent-a"]
    assert result.skill_id == "skill-a", "whom the answer has named, if we trust it"


@pytest.mark.parametrize("answers", [True, False])
async def test_the_order_of_a_group_is_asked_for_without_joining_for_good(make, answers):
    questions, link = make()
    asking = asyncio.ensure_future(questions.group_order("auth"))
    await link.asked.wait()
    event = SceneJoined("auth", ANSWER, PEER) if answers else SceneMissing("auth", is_certain=True)
    for one in questions.links:
        questions.take(one, event)
    assert await asking == ([("agent-a", "skill-a")] if answers else [])
    assert not questions._requests


@pytest.mark.parametrize("facts", [{"scenes": ("print",)}, {"capabilities": ()}])
async def test_an_answer_leads_to_nobody_who_does_something_else(make, facts):
    questions, link = make(OTHERS[2], **facts)
    assert (await joined(questions, link, "user-auth")).skill_id == "skill-e"


@pytest.mark.parametrize(
    ("facts", "why", "place"),
    [
        ({}, "skill-a, which provides the scene auth, has no certified key", "192.0.2.1:80"),
        ({"agent_id": "agent-9"}, "skill-a has not announced the scene", "192.0.2.66:66"),
        ({"found_via": FoundVia.MDNS}, "skill-a has not announced the scene", "192.0.2.66:66"),
        ({"scenes": (), "is_verified": True}, "skill-a has not announced the scene", "192.0.2.66:66"),
    ],
)
async def test_where_nobody_is_trusted_the_scene_is_refused(make, facts, why, place):
    questions, link = make(**({"is_verified": False} | facts))
    questions.discover = lambda *_: asyncio.sleep(0)
    with pytest.raises(TrustError, match=why) as caught:
        await joined(questions, link)
    assert caught.value.place == SourceLocation(place)
    assert "Ask again" in str(caught.value.fix) or "certificate" in str(caught.value.fix)


@pytest.mark.parametrize("use_unverified", [True, False])
async def test_a_scene_of_a_provider_whose_key_was_revoked_is_refused_whatever_the_user_says(make, use_unverified):
    questions, link = make(agent_id="agent-9", is_verified=False, scenes=())
    questions.discover = lambda *_: asyncio.sleep(0)
    link.revoked[Peer("192.0.2.66", 54321)] = "agent-a"
    with pytest.raises(TrustError, match="agent-a, which offers skill-a, is refused: its key was revoked") as caught:
        await joined(questions, link, use_unverified=use_unverified)
    assert caught.value.code == "DISC_004"


@pytest.mark.parametrize("ends_by", ["an answer", "a cancel", "time"])
async def test_nothing_is_left_of_a_question_for_a_scene(make, monkeypatch, ends_by):
    questions, link = make()
    if ends_by == "an answer":  # on one of two links
        await answered(questions, link)
    elif ends_by == "time":
        monkeypatch.setattr(questions_module, "_SLACK", 0.01)
        assert not (await questions.request_scene("auth", (), is_join=False, use_unverified=True)).is_joined
    else:
        asking = ask(questions)
        await link.asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
    assert not questions._requests


async def test_of_two_questions_for_one_scene_the_later_one_is_answered(make):
    questions, link = make()
    first = ask(questions)
    await link.asked.wait()
    link.asked.clear()
    assert (await answered(questions, link))["host"] == "192.0.2.1"
    assert not (await first).is_joined
