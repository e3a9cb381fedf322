"""What an agent asks: nothing is left of a question that nobody waits for, and who is certified speaks for itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from skillwire.adapters.lan import questions as questions_module
from skillwire.adapters.lan.questions import Questions
from skillwire.errors import TrustError
from skillwire.model.lan import LanSkill
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.protocols.skill_discovery.events import SceneJoined
from skillwire.protocols.skill_discovery.messages import ConnectionInfo, GroupMember, SceneAnswer, SkillInfo
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Peer

PATIENCE = 20.0
INFO = ConnectionInfo("gopher", "192.0.2.66", 66, "/evil", "bearer", "X-Evil")
ANSWER = SceneAnswer(
    "auth", "group-auth-1", INFO, SkillInfo("skill-a", "1.0.0"), (GroupMember("agent-a", "skill-a", "PRIMARY"),)
)


class Link:
    """One whose node is asked, and answers nothing by itself."""

    def __init__(self, name):
        self.name = name
        self.asked = asyncio.Event()
        self.node = SimpleNamespace(end_agent=SimpleNamespace(want_scene=self._want, leave_scene=lambda _: None))

    def _want(self, *_, **__):
        self.asked.set()

    def act(self):
        pass

    def key_of(self, _):
        return None


class Links(list):
    def open_links(self):
        return self


@pytest.fixture
def make():
    """Give what makes the questions of an agent with two links, that has heard of a provider, certified or not."""

    def made(*others, is_verified=True):
        skill = LanSkill("agent-a", "skill-a", "1.0.0", "tool-skill", "192.0.2.1", 80, is_verified=is_verified)
        settings = LanSettings(figures=DiscoverySettings(patience=0.01))
        view = SimpleNamespace(skill=lambda _: skill, skills=lambda: [skill, *others])
        questions = Questions("agent-b", settings, view)  # type: ignore[arg-type]  # as far as it is used
        questions.links = Links([Link("eth0/4"), Link("eth0/6")])  # type: ignore[assignment]  # as far as it is used
        return questions, questions.links[0]  # type: ignore[index]  # as far as it is used

    return made


def ask(questions):
    return asyncio.ensure_future(questions.request_scene("auth", (), is_join=False, use_unverified=True))


async def answered(questions, link, **how):
    async with asyncio.timeout(PATIENCE):
        asking = ask(questions)
        await link.asked.wait()
        questions.take(link, SceneJoined("auth", ANSWER, Peer("192.0.2.66", 5000), **how))
        return (await asking).connection_info


async def test_how_a_certified_provider_is_called_is_told_by_who_is_certified(make):
    said = {"basePath": "/evil", "authType": "bearer", "authHeader": "X-Evil", "protocol": "gopher"}
    plain = {"basePath": "", "authType": "", "authHeader": "", "protocol": "http"}
    at = {"host": "192.0.2.1", "port": 80, "endpoint": "192.0.2.1:80"}
    assert await answered(*make()) == plain | at
    assert await answered(*make(), is_verified=True) == said | at
    assert await answered(*make(is_verified=False)) == said | at


async def test_who_may_not_be_used_makes_room_for_whom_we_trust(make):
    facts: Any = {"capabilities": ("user-auth",), "is_verified": True}
    others = [
        LanSkill("agent-c", "skill-c", "2.0.0", "tool-skill", "192.0.2.3", 80, scenes=("print",), **facts),
        LanSkill(
            "agent-d", "skill-d", "2.0.0", "tool-skill", "192.0.2.4", 80, scenes=("auth",), status="OFFLINE", **facts
        ),
        LanSkill("agent-e", "skill-e", "2.1.0", "tool-skill", "192.0.2.5", 81, scenes=("auth",), **facts),
    ]
    questions, link = make(*others, is_verified=False)
    asking = asyncio.ensure_future(questions.request_scene("auth", ("user-auth",), is_join=False, use_unverified=False))
    await link.asked.wait()
    questions.take(link, SceneJoined("auth", ANSWER, Peer("192.0.2.66", 5000)))
    async with asyncio.timeout(PATIENCE):
        result = await asking
    assert (result.skill_id, result.version, result.capabilities) == ("skill-e", "2.1.0", ("user-auth",))
    assert result.connection_info["endpoint"] == "192.0.2.5:81"
    assert result.connection_info["authHeader"] == "", "that was said of another"


async def test_where_nobody_is_trusted_the_scene_is_left(make):
    questions, link = make(is_verified=False)
    left: list[str] = []
    link.node.end_agent.leave_scene = left.append
    questions.discover = lambda *_: asyncio.sleep(0)
    asking = asyncio.ensure_future(questions.request_scene("auth", (), is_join=False, use_unverified=False))
    await link.asked.wait()
    questions.take(link, SceneJoined("auth", ANSWER, Peer("192.0.2.66", 5000)))
    with pytest.raises(TrustError, match="nobody has certified skill-a"):
        await asking
    assert left == ["auth"]


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
    assert not questions._wishes


async def test_of_two_questions_for_one_scene_the_later_one_is_answered(make):
    questions, link = make()
    first = ask(questions)
    await link.asked.wait()
    link.asked.clear()
    assert (await answered(questions, link))["host"] == "192.0.2.1"
    assert not (await first).is_joined
