"""Who does not take a registration of ours is told to whoever announces; who takes it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from skillwire.adapters.lan.agent import LanAgent
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.protocols.skill_discovery.events import Acknowledged
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Outcome
from skillwire.wire.node import Peer

if TYPE_CHECKING:
    from skillwire.adapters.lan.link import Link
    from skillwire.errors import TrustError

KEY = GroupKey(b"a secret that all of us share")


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (Outcome.SUCCESS, []),
        (Outcome.DUPLICATE, []),
        (Outcome.INVALID, ["DISC_003"]),
        (Outcome.UNAUTHORIZED, ["DISC_003"]),
    ],
)
def test_a_refusal_is_told(status, codes):
    told: list[TrustError] = []
    settings = LanSettings(agent_id="agent-001")
    agent = LanAgent(settings, identity=KEY, authority=KEY, keeps_state=False, on_trouble=told.append)
    agent._news.take(
        cast("Link", None), [Acknowledged("skill-a", Peer("192.0.2.1", 54321), status, "the clock\x1b[2J is wrong")]
    )
    assert [error.code for error in told] == codes
    assert all("192.0.2.1 does not register skill-a" in error.message for error in told)
    assert not any("\x1b" in error.message for error in told)
