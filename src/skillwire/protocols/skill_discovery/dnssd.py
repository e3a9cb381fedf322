"""Skills as DNS-SD services: the instances that an agent publishes by mDNS, and the hints in those of others.

An agent publishes one instance for itself and one for each skill, under ``_agent-skills._tcp`` and, for
other implementations, under ``_ooder-skill._tcp``. The TXT record of an instance has ``txtvers=1`` first,
then

======= ============================================================================================
``id``  ``AGENT/SKILL``, or ``AGENT`` alone for the agent's own instance **[ours]**
``v``   version
``t``   the skill's type, or ``agent``
``cap`` capabilities, separated by commas
``sc``  scenes
``p``   the path, on the instance's host and port, of the details
``st``  the status at the time of publication
``kid`` the beginning of the SHA-256 of the agent's public key, in hexadecimal
``more`` ``1`` when a list was cut, so that the record keeps within 400 bytes
``dht`` in the agent's own instance, the UDP port of its node of the DHT
======= ============================================================================================

An instance is named ``SKILL @ AGENT`` for people; no fact is read from the name. It has no dots, which some libraries
take for the end of a label, and ends with a digest where it differs from the identifier. A record gives a *hint*: a
registration without a signature.

**Details.** The document at the path ``p`` has the whole lists of the skills whose lists were cut: ``{"agentId": ...,
"skills": [...]}`` with ``skillId``, ``capabilities`` and ``scenes`` of each **[ours]**. It is not signed, and worth as
much as the hint. Spec: SDP §1.2; specs §3 "mDNS"; RFC 6763 §6.

Trust: names, TXT records and details are untrusted; reading raises ``DecodeError`` and nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import DecodeError, ValidationError
from skillwire.protocols.skill_discovery import codec
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.trust.guarded_json import load_json

#: Ours first.
SERVICE_TYPES: Final = ("_agent-skills._tcp.local.", "_ooder-skill._tcp.local.")
#: The path where an agent tells more of itself.
PATH: Final = "/.well-known/skill-discovery"
#: What stands as ``t`` in the instance of an agent.
AGENT: Final = "agent"
_VERSION: Final = b"txtvers=1"
_STRING_BYTES: Final = 255
#: A TXT record that no publisher needs; RFC 6763 §6.2 asks for less.
_READ_BYTES: Final = 1_300
_PLAIN_NAME: Final = re.compile(r"[a-z0-9_-]+", re.ASCII)
#: Without ``?`` and ``#``: a reader of the hint requests the path, and must not send data that a peer chose.
_PATH: Final = re.compile(r"""/[!"$->@-~]{0,199}""", re.ASCII)
_PORT: Final = re.compile(
    r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]", re.ASCII
)
_KEY_ID: Final = re.compile(r"[0-9A-Za-z._-]{1,64}", re.ASCII)
_DIGEST_DIGITS: Final = 8
_SKILL_NAME_BYTES: Final = 32
_AGENT_NAME_BYTES: Final = 24
_NO_VERSION: Final = "0.0.0"


class Advertised(NamedTuple):
    """The facts of a TXT record."""

    agent_id: str  # empty when another implementation does not name it
    skill_id: str = ""  # empty in the instance of an agent
    version: str = _NO_VERSION
    skill_type: SkillType | None = None  # None in the instance of an agent
    capabilities: tuple[str, ...] = ()  # of all its skills for an agent
    scenes: tuple[str, ...] = ()
    path: str = ""  # of the details
    status: HealthStatus = HealthStatus.UNKNOWN  # when it was published
    key_id: str = ""  # of the key that the agent signs with
    is_cut: bool = False  # a list was cut
    dht_port: int = 0  # of the agent's node of the DHT; 0 for none


class Instance(NamedTuple):
    """A service to publish: ``skill_id`` is empty for the agent's own, ``host`` as in the offer, ``text`` its TXT."""

    skill_id: str
    host: str
    port: int
    text: bytes


def encode_txt(facts: Advertised) -> bytes:
    """Return a TXT record of at most 400 bytes; longer lists are cut. Raises: ValidationError: too long identifiers."""
    capabilities, scenes, is_cut = facts.capabilities, facts.scenes, facts.is_cut
    while True:
        named = {
            "id": f"{facts.agent_id}/{facts.skill_id}" if facts.skill_id else facts.agent_id,
            "v": facts.version,
            "t": facts.skill_type or AGENT,
            "cap": ",".join(capabilities),
            "sc": ",".join(scenes),
            "p": facts.path,
            "st": "" if facts.status is HealthStatus.UNKNOWN else facts.status,
            "kid": facts.key_id,
            "more": "1" if is_cut else "",
            "dht": str(facts.dht_port or ""),
        }
        strings = [_VERSION, *(f"{key}={value}".encode() for key, value in named.items() if value)]
        size = sum(1 + len(string) for string in strings)
        if size <= limits.LAN_TXT_BYTES and all(len(string) <= _STRING_BYTES for string in strings):
            return b"".join(bytes((len(string),)) + string for string in strings)
        if not capabilities and not scenes:
            fix = "shorten the identifiers of the agent and the skill"
            raise ValidationError("DATAGRAM_SIZE", f"{facts.skill_id or facts.agent_id}: too long for mDNS", fix=fix)
        is_cut = True
        if len(",".join(capabilities)) >= len(",".join(scenes)):
            capabilities = capabilities[:-1]
        else:
            scenes = scenes[:-1]


def decode_txt(text: bytes) -> Advertised:
    """Return the facts of a TXT record. Unknown keys are ignored. Raises: DecodeError: ``DATAGRAM``."""
    if len(text) > _READ_BYTES:
        raise DecodeError("DATAGRAM", f"a TXT record of {len(text)} bytes")
    named: dict[str, str] = {}  # the case of keys does not count, and of equal keys the first does: RFC 6763 §6.4
    place = 0
    while place < len(text):
        end = place + 1 + text[place]
        if end > len(text):
            raise DecodeError("DATAGRAM", "a TXT record that breaks off")
        key, _, value = text[place + 1 : end].partition(b"=")
        if key.isascii() and value.isascii():
            named.setdefault(key.decode().lower(), value.decode())
        place = end
    if named.get("txtvers", "1") != "1":
        codec.refuse("a TXT record of version 1", named["txtvers"])
    agent_id, slash, skill_id = named.get("id", "").rpartition("/")
    if named.get("t") == AGENT:
        agent_id, slash, skill_id = skill_id, "", ""
    status = named.get("st", "")
    return Advertised(
        agent_id=codec.read_identifier(agent_id) if slash or not skill_id else "",
        skill_id=codec.read_identifier(skill_id) if slash or skill_id else "",
        version=codec.VERSION.read(named.get("v", _NO_VERSION)),
        skill_type=codec.SKILL_TYPE.read(named.get("t", SkillType.TOOL)) if skill_id else None,
        capabilities=codec.read_identifiers(named.get("cap", "")),
        scenes=codec.read_identifiers(named.get("sc", "")),
        path=_matching(_PATH, named.get("p", "")),
        status=HealthStatus(status) if status in HealthStatus.__members__ else HealthStatus.UNKNOWN,
        key_id=_matching(_KEY_ID, named.get("kid", "")),
        is_cut=named.get("more") == "1",
        dht_port=int(named["dht"]) if _PORT.fullmatch(named.get("dht", "")) else 0,
    )


def _matching(form: re.Pattern[str], value: str) -> str:
    return value if form.fullmatch(value) else ""


def agent_name(agent_id: str) -> str:
    """Return the instance name of an agent: at most 24 bytes, without dots."""
    return _name(agent_id, _AGENT_NAME_BYTES)


def skill_name(skill_id: str, agent: str) -> str:
    """Return the instance name of a skill of an agent's own instance: at most 63 bytes, without dots."""
    return f"{_name(skill_id, _SKILL_NAME_BYTES)} @ {agent}"


def _name(identifier: str, most: int) -> str:
    """Return a label for an identifier; two identifiers have two labels, though DNS knows no case."""
    if len(identifier) <= most and _PLAIN_NAME.fullmatch(identifier):
        return identifier
    digest = hashlib.sha256(identifier.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{identifier.replace('.', '-').lower()[: most - _DIGEST_DIGITS - 1]}-{digest}"


def host_name(agent_id: str, host: str, process: str) -> str:
    """Return the mDNS host name of an agent's addresses, unique to this process: two machines may share an agentId."""
    digest = hashlib.sha256(f"{agent_id} {host} {process}".encode()).hexdigest()
    return f"skills-{digest[: 2 * _DIGEST_DIGITS]}.local."


def key_id_of(public_key: bytes) -> str:
    """Return the ``kid`` of an agent with this public key, as DER; empty where it has none."""
    return hashlib.sha256(public_key).hexdigest()[: 2 * _DIGEST_DIGITS] if public_key else ""


def instances_of(
    agent_id: str, offers: Iterable[Offer], statuses: Mapping[str, HealthStatus], key_id: str = "", dht_port: int = 0
) -> tuple[list[Instance], list[str]]:
    """Return the services of an agent, its own first, and the skills that are left out: beyond 200, or too long."""
    skills = list(offers)
    if not skills:
        return [], []
    capabilities = tuple(sorted({name for skill in skills for name in skill.capabilities}))
    scenes = tuple(sorted({name for skill in skills for name in skill.scenes}))
    own = Advertised(
        agent_id, "", "0.7.0", None, capabilities, scenes, PATH, HealthStatus.HEALTHY, key_id, dht_port=dht_port
    )
    found = [Instance("", skills[0].endpoint.host, skills[0].endpoint.port, encode_txt(own))]
    left_out = [skill.skill_id for skill in skills[limits.LAN_MDNS_SKILLS :]]
    for skill in skills[: limits.LAN_MDNS_SKILLS]:
        try:
            text = _encode_offer(agent_id, skill, statuses.get(skill.skill_id, HealthStatus.HEALTHY), key_id)
        except ValidationError:
            left_out.append(skill.skill_id)
            continue
        found.append(Instance(skill.skill_id, skill.endpoint.host, skill.endpoint.port, text))
    return found, left_out


def is_cut(agent_id: str, offer: Offer) -> bool:
    """Return whether the lists of a skill do not fit into its TXT record, with any key and status."""
    try:
        text = _encode_offer(agent_id, offer, HealthStatus.MAINTENANCE, "0" * 2 * _DIGEST_DIGITS)
    except ValidationError:  # mDNS does not publish it at all
        return False
    return decode_txt(text).is_cut


def _encode_offer(agent_id: str, offer: Offer, status: HealthStatus, key_id: str) -> bytes:
    facts = (offer.skill_id, offer.version, offer.skill_type, offer.capabilities, offer.scenes)
    return encode_txt(Advertised(agent_id, *facts, PATH, status, key_id))


def path_of_more(text: bytes) -> str:
    """Return the path of the details of a TXT record with cut lists; empty for none. Raises: DecodeError."""
    facts = decode_txt(text)
    return facts.path if facts.is_cut else ""


def hint_of(text: bytes, server: str, host: str, port: int) -> Register | None:
    """Return the unsigned registration in a TXT record; None for an agent's own instance. Raises: DecodeError.

    ``server``, the name in the SRV record, names the agent where the TXT record does not; ``host`` is its address.
    """
    facts = decode_txt(text)
    if facts.skill_type is None:
        return None
    endpoint = codec.read_endpoint(str(Endpoint(host, port)))
    agent_id = facts.agent_id or codec.read_identifier(server.split(".", 1)[0])
    what = (facts.version, facts.skill_type, endpoint, facts.capabilities, facts.scenes)
    return Register(agent_id, facts.skill_id, *what, timestamp=0)


def details_of(agent_id: str, offers: Iterable[Offer]) -> list[dict[str, object]]:
    """Return the ``skills`` of the details: those with cut lists."""
    return [
        {"skillId": offer.skill_id, "capabilities": offer.capabilities, "scenes": offer.scenes}
        for offer in islice(offers, limits.LAN_MDNS_SKILLS)
        if is_cut(agent_id, offer)
    ]


_Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=int(limits.LAN_DETAILS_NAMES))]


class SkillDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The whole lists of a skill."""

    skill_id: str
    capabilities: _Names
    scenes: _Names


class AgentDetails(msgspec.Struct, frozen=True, rename="camel"):
    """What an agent tells: its name, and the lists of its skills."""

    agent_id: str
    skills: tuple[SkillDetails, ...] = ()


def read_details(body: bytes, source: str) -> AgentDetails:
    """Return the details in the document at the URL ``source``. Raises: DecodeError."""
    try:
        details = msgspec.convert(load_json(body, max_bytes=limits.LAN_DETAILS_BYTES, source=source), AgentDetails)
    except msgspec.ValidationError as error:
        raise DecodeError("DATAGRAM", f"{source}: {error}") from None
    names = [name for one in details.skills for name in (one.skill_id, *one.capabilities, *one.scenes)]
    for name in (details.agent_id, *names):
        codec.read_identifier(name)
    return details


def completed(hint: Register, details: AgentDetails) -> Register | None:
    """Return a hint with its complete lists, which begin with those of the hint; None when the details differ."""
    skills = details.skills if details.agent_id == hint.agent_id else ()
    lists = next((one for one in skills if one.skill_id == hint.skill_id), None)
    if lists is None or not (
        lists.capabilities[: len(hint.capabilities)] == hint.capabilities
        and lists.scenes[: len(hint.scenes)] == hint.scenes
    ):
        return None
    return msgspec.structs.replace(hint, capabilities=lists.capabilities, scenes=lists.scenes)
