"""What others tell of skills that are not listed here, and whether there is anything at their endpoints.

Anybody may answer a discovery with a thousand records, and a connection to each endpoint would send us wherever a
stranger likes. So the endpoint is probed where the answer came from that very host, a few of one host, and where
somebody has proven that it is theirs or is certified to tell of it; a name is never looked up; and all of it together
takes a bounded time. What is not probed is UNKNOWN, as what nobody knows anything of.

An answer names no agent, and whoever answers tells of all that it lists, also of other agents at its own address. So
whoever has proven to answer, and is certified, vouches for nothing of it: a skill is verified, and has an agent, by its
registration alone. For the same reason a skill that is told at an IPv4 and at an IPv6 address of one network is taken
for one. Spec: SDP §3.3; specs §3.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.model.lan import LanSkill
from skillwire.model.url import without_zone

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from skillwire.adapters.lan.link import Link
    from skillwire.adapters.lan.probe import Place, Prober
    from skillwire.protocols.skill_discovery.events import Found

#: Seconds for all probes of one discovery together.
_SECONDS: Final = 2.0
#: Endpoints of one host that nobody has proven to be: a source can be forged.
_UNPROVEN: Final = 4


async def told_skills(told: Collection[tuple[Link, Found]], prober: Prober) -> list[LanSkill]:
    """Return the skills that answers tell of, UNHEALTHY where nothing takes a connection."""
    answers: dict[Place, bool] = {}

    async def probe(place: Place) -> None:
        answers[place] = await prober.answers(*place)

    told = _once_each(told)
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            await asyncio.gather(*(probe(place) for place in _places(told)))
    return [_skill(link, found, is_there=answers.get(_place(link, found), True)) for link, found in told]


def _once_each(told: Collection[tuple[Link, Found]]) -> list[tuple[Link, Found]]:
    """Leave out what is told at an IPv6 address where it is told at an IPv4 one, too."""
    at_ipv4 = {_what(*one) for one in told if ":" not in one[1].record.endpoint.host}
    return [one for one in told if ":" not in one[1].record.endpoint.host or _what(*one) not in at_ipv4]


def _what(link: Link, found: Found) -> tuple[str, str, str, int]:
    record = found.record
    return link.name.rpartition("/")[0], record.skill_id, record.version, record.endpoint.port


def _places(told: Collection[tuple[Link, Found]]) -> Sequence[Place]:
    """Return the endpoints that are ours to connect to, those that are proven first."""
    proven: dict[Place, None] = {}
    unproven: dict[str, dict[Place, None]] = {}
    for link, found in told:
        place = _place(link, found)
        if not _is_address(place[0]):
            continue
        if found.agent_id:
            proven[place] = None
        elif found.record.endpoint.host == without_zone(found.source.host):
            unproven.setdefault(place[0], {})[place] = None
    few = [place for places in unproven.values() for place in list(places)[:_UNPROVEN] if place not in proven]
    return [*proven, *few]


def _place(link: Link, found: Found) -> Place:
    return link.reached(found.record.endpoint.host), found.record.endpoint.port


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _skill(link: Link, found: Found, *, is_there: bool) -> LanSkill:
    """Return a skill that somebody told of, and that is not listed here."""
    record = found.record
    host, port = _place(link, found)
    return LanSkill(
        "",
        record.skill_id,
        record.version,
        found.skill_type,
        host,
        port,
        record.capabilities,
        record.scenes,
        "UNKNOWN" if is_there else "UNHEALTHY",
        heard=moment().wall,
    )
