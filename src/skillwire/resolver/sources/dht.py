"""Skills of the DHT as those of any other network, and the errors of a question to it.

A found skill has the health ``UNKNOWN``, since a record says nothing of it, and the time at which its publisher signed
the record. A publisher puts its records again every one or two minutes; a record that is older than two such pauses is
``stale``. What its server publishes must have the digest of the record
(:func:`skillwire.resolver.sources.lan.matching`).

Spec: SDP §6, §12. Trust: the signature of a record was verified, its content is its publisher's: a record whose
endpoint is no URL is dropped, and no endpoint is opened before the user uses the skill.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from skillwire.errors import (
    DecodeError,
    FetchError,
    NotFoundError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
    in_seconds,
)
from skillwire.model.digest import Digest
from skillwire.model.lan import FoundVia, LanSkill, host_and_port
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.codec import read_endpoint
from skillwire.protocols.skill_discovery.settings import PUT_AGAIN, DhtSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.model.lan import DhtAnswer, DhtPut, DhtSkill
    from skillwire.protocols.skill_discovery.settings import LanSettings

_AT_ONCE: Final = 0.05  # seconds: nothing was asked
_NAMED: Final = 8  # nodes in one message
NAME_FIX: Final = (
    "If you trust this server, name its address: {place}. Otherwise trust its authority in [discovery.trust], "
    "or set useUnverified = true there."
)
_FIND_FIX: Final = (
    "Check the spelling, and that the skill's server runs with --dht, or search elsewhere: skillwire find QUERY."
)
_REFUSED_FIX: Final = "Check the clock of this machine, and its certificate: skillwire key show."
_FULL_FIX: Final = (
    "Announce it under another name and more specific capabilities, or have an authority of the nodes certify this "
    "machine: certified publishers displace others."
)
_REACH_FIX: Final = (
    "Check that UDP passes between this machine and a bootstrap node: skillwire dht ping HOST:PORT. To run a node "
    "here: skillwire dht serve."
)


def read_node(text: str) -> tuple[str, int]:
    """Return host and port of a node written as ``host:port``. Raises UsageError (``USAGE``)."""
    try:
        place = read_endpoint(text)
    except DecodeError as error:
        fix = "Write host:port, such as dht1.example.com:6881 or [2001:db8::1]:6881."
        raise UsageError("USAGE", f"a node of the DHT: {error.message}", fix=fix) from None
    return place.host, place.port


def with_bootstrap(settings: LanSettings, nodes: Sequence[str], *, is_required: bool = True) -> LanSettings:
    """Return settings that take part in the DHT, by ``nodes``, each ``host:port``, where any are given.

    Raises UsageError: ``USAGE`` for another form; ``DHT_BOOTSTRAP`` where neither names a node, and one is required.
    """
    bootstrap = tuple(map(read_node, nodes)) or settings.dht.bootstrap
    if is_required and not bootstrap:
        raise UsageError("DHT_BOOTSTRAP", "no bootstrap node of the DHT is configured")
    return replace(settings, dht=replace(settings.dht, enabled=True, bootstrap=bootstrap))


def skills_of(answers: Iterable[DhtAnswer], now: float) -> list[LanSkill]:
    """Return the skills of these answers, each once, as skills of a network at ``now``, seconds since the epoch."""
    found: dict[tuple[str, str, str], LanSkill] = {}
    for one in (skill for answer in answers for skill in answer.skills):
        try:
            skill = _as_lan_skill(one, is_stale=now - one.announced > 2 * PUT_AGAIN[1])
        except ValidationError:
            continue  # no server can be reached at it
        found[one.key_id, one.agent_id, one.skill_id] = skill
    return list(found.values())


def _as_lan_skill(skill: DhtSkill, *, is_stale: bool) -> LanSkill:
    url = parse_url(skill.endpoint)
    return LanSkill(
        skill.agent_id,
        skill.skill_id,
        skill.version,
        skill.skill_type,
        url.host,
        url.port,
        skill.capabilities,
        skill.scenes,
        is_verified=skill.trust == "verified",
        found_via=FoundVia.DHT,
        heard=skill.announced,
        is_stale=is_stale,
        url=str(url).rstrip("/"),
        digest=Digest.parse(skill.digest) if skill.digest else "",
    )


def unreached(answers: Iterable[DhtAnswer | DhtPut]) -> str:
    """Return the keys and nodes that did not answer, or had no room, as the end of a sentence; empty for none."""
    keys, full, nodes = dict[str, None](), dict[str, None](), dict[str, None]()
    for answer in answers:
        nodes |= dict.fromkeys(answer.unanswered)
        keys |= dict.fromkeys(getattr(answer, "keys_without_answer", ()))
        full |= dict.fromkeys(getattr(answer, "full", ()))
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    parts = [f"no node answered for {', '.join(keys)}"] if keys else []
    parts += [f"no node has room under {', '.join(full)}: each keeps 16 publishers of a name"] if full else []
    parts += [f"no answer came from {', '.join(list(nodes)[:_NAMED])}{more}"] if nodes else []
    return "".join(f"; {part}" for part in parts)


def check_answers(answers: Sequence[DhtAnswer], settings: DhtSettings) -> None:
    """Raise FetchError (``DHT_UNREACHABLE``) where no node has answered."""
    if not any(answer.asked for answer in answers):
        raise silent(settings, max((answer.seconds for answer in answers), default=0.0))


def silent(settings: DhtSettings, seconds: float) -> FetchError:
    """Return the error for a DHT whose nodes do not answer."""
    nodes = ", ".join(host_and_port(*node) for node in settings.bootstrap)
    message = f"no node of the DHT answered within {in_seconds(round(seconds, 1))}"
    if seconds < _AT_ONCE:
        message = "no bootstrap node of the DHT has a name with an address"
    return FetchError("DHT_UNREACHABLE", message, place=SourceLocation(nodes) if nodes else None, fix=_REACH_FIX)


def not_offered(wanted: str, answers: Sequence[DhtAnswer]) -> NotFoundError:
    """Return the error for a skill without a record, with what was not reached; ``wanted``: it offers or has this."""
    asked = max(answer.asked for answer in answers)
    nodes = f"{asked} node{'' if asked == 1 else 's'} answered{unreached(answers)}"
    return NotFoundError("DISC_002", f"no skill in the DHT {wanted}: {nodes}", fix=_FIND_FIX)


def check_put(done: DhtPut, settings: DhtSettings, skill_id: str) -> None:
    """Raise FetchError (``DHT_UNREACHABLE``) or TrustError (``DISC_003``) where no node has stored the record."""
    if done.stored:
        return
    if done.unanswered and not done.full:
        raise silent(settings, done.seconds)
    message = f"no node of the DHT stored {skill_id}{unreached([done])}"
    raise TrustError("DISC_003", message, fix=_FULL_FIX if done.full else _REFUSED_FIX)
