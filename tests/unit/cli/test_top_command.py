"""``top``: what is drawn of the local network before its agents had time to answer."""

import asyncio
from typing import Any

from skillwire.cli import top
from skillwire.cli.lan_view import text_of
from skillwire.cli.output import Output
from skillwire.model.lan import LanSnapshot
from skillwire.protocols.skill_discovery.settings import LanSettings


class Agent:
    """An agent that hears nobody."""

    settings = LanSettings(port=50123)

    async def discover(self):
        return ()

    async def adopt_group_orders(self):
        pass

    def snapshot(self):
        return LanSnapshot("agent-me", 0.0, (), ())


def test_what_helps_with_a_firewall_is_shown_once_it_was_listened(monkeypatch):
    monkeypatch.setattr(top, "chosen_stores", lambda: None)
    agent: Any = Agent()
    view = top._View(Output(), None, None, agent)

    def shown():
        return "\n".join("".join(map(text_of, line)) for line in view._lines((80, 24)))

    assert "listening ..." in shown()
    assert "firewall" not in shown()
    asyncio.run(view._listen(agent))
    assert "behind a firewall: allow UDP port 50123" in shown()
