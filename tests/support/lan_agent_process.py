"""An agent of the local network in a process of its own: settings and orders are lines of JSON, and so is its news.

The first line is ``{"settings": {...}, "figures": {...}, "offers": [...], "port": ...}`` with the port of its skills.
Each line after it is an order by name: ``snapshot``, ``discover``, ``scene``, ``announce``, ``report``, ``counters``,
``stop``; its answer is a line with ``answer``. Changes are lines with ``change``.
"""

import asyncio
import json
import sys
import time
from typing import Any

from skillwire.adapters.lan.agent import LanAgent
from skillwire.errors import SkillwireError
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings


def offers_of(wanted: list[dict[str, Any]]) -> list[Offer]:
    return [
        Offer(
            one["skill"],
            one.get("version", "1.0.0"),
            SkillType(one.get("skill_type", "tool-skill")),
            Endpoint(one.get("host", ""), one["port"]),
            tuple(one.get("capabilities", ("user-auth",))),
            tuple(one.get("scenes", ("auth",))),
        )
        for one in wanted
    ]


def lists_as_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def told(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: told(one) for name, one in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [told(one) for one in value]
    return dict(value) if hasattr(value, "items") else value


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def obey(agent: LanAgent, order: dict[str, Any]) -> Any:
    match order["do"]:
        case "snapshot":
            return agent.snapshot()
        case "discover":
            filters = {name: order.get(name, ()) for name in ("capabilities", "scenes", "types")}
            return await agent.discover(**filters, patience=order.get("patience"))
        case "scene":
            return await agent.request_scene(order["scene"], order.get("capabilities", ()))
        case "announce":
            return agent.announce(offers_of(order["offers"]))
        case "report":
            return agent.report(order["skill"], HealthStatus(order["status"]), order.get("detail", ""))
        case "counters":
            return agent.counters
    raise AssertionError(order)


async def main() -> None:
    """Live until told to stop, or until nobody is there to tell."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    first = json.loads(await reader.readline())
    figures = DiscoverySettings(**lists_as_tuples(first["figures"]))
    settings = LanSettings(**lists_as_tuples(first["settings"]), discovery=figures)
    agent = LanAgent(settings, keeps_state=first.get("keeps_state", False))
    # Takes connections at the endpoint of the offers, which others probe; several agents of a host share a port.
    server = await asyncio.start_server(lambda _, writer: writer.close(), None, first["port"], reuse_port=True)
    agent.announce(offers_of(first["offers"]))
    changes = agent.listen()
    began = time.time()
    await agent.start()
    say(answer="started", began=began)

    async def hear() -> None:
        async for change in changes:
            say(change=told(change))

    hearing = asyncio.create_task(hear())
    while line := await reader.readline():
        order = json.loads(line)
        if order["do"] == "stop":
            break
        try:
            say(answer=told(await obey(agent, order)))
        except SkillwireError as error:
            say(answer={"error": error.code})
    await agent.stop()
    await hearing
    server.close()
    say(answer="stopped")


if __name__ == "__main__":
    asyncio.run(main())
