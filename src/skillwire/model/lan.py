"""The values of Skill Discovery's networks, without its protocol: skills, scenes and changes of the LAN, and the DHT.

The texts in ``Annotated`` describe the fields, here and in the documents of ``skillwire dht --json``.
Spec: SDP §2 to §6, §8, §11.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from skillwire.model.skill import Finding

_RANKS: Final = {"HEALTHY": 0, "DEGRADED": 1, "UNKNOWN": 2}
#: A skill with one of these may be called.
USABLE_STATUSES: Final = frozenset(_RANKS)
#: Whether a skill is certified: in texts, in JSON and on pages.
Trust = Literal["verified", "unverified", "not known", "revoked"]
#: The health of a skill.
LanStatus = Literal["HEALTHY", "DEGRADED", "UNHEALTHY", "MAINTENANCE", "OFFLINE", "UNKNOWN"]
#: What happened to a skill: it fell silent alone (``suspected``) or with many others (``stale``), said goodbye
#: (``left``), or was removed (``evicted``).
SkillChange = Literal["registered", "updated", "status", "suspected", "stale", "left", "evicted"]
#: Why a skill is gone. It said ``shutdown``, ``error``, ``maintenance`` or ``upgrade`` when it left; it was evicted
#: since it was ``silent``, its certificate was ``revoked``, or a certified skill replaced it (``crowded``).
GoneReason = Literal["shutdown", "error", "maintenance", "upgrade", "silent", "revoked", "crowded"]
#: Whether a record was heard now.
Freshness = Literal["live", "cached", "stale"]
#: Why an agent is refused whose certificate an authority revoked.
REVOKED: Final = "its key was revoked"
REVOKED_FIX: Final = (
    "To trust it again, run skillwire key new --replace --agent {agent} on its machine, and have the new key certified."
)
#: After an acknowledgment, which any host can forge: it must not advise to replace the key.
REVOKED_HERE_FIX: Final = "Run skillwire doctor on this machine: it asks the authority whether the key was revoked."
#: Keys of a connection that are shown on demand only. Spec: SDP §4.3.
SECRET_KEYS: Final = frozenset({"apiKey"})


def host_and_port(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FoundVia(StrEnum):
    """How a skill was found."""

    MULTICAST = "multicast"
    MDNS = "mdns"
    DHT = "dht"
    CACHE = "cache"


class LanSkill(NamedTuple):
    """One skill of one agent.

    Args:
        agent_id: the agent that offers it; empty when only others answered it.
        skill_type: such as ``tool-skill``.
        host: an address; IPv6 without brackets.
        is_verified: whether its key is certified; others are used only with the user's consent.
        heard: when the last sign of life came, in seconds since the epoch.
        is_stale: whether the network is suspected, and not the skill; in the DHT, whether its publisher has missed to
            put it again.
        url: of its server, where a record of the DHT states it; ``host`` and ``port`` are those of the URL.
        digest: of its artifact, ``sha256:...``, where a record of the DHT states it.
        is_revoked: whether the key of its agent was revoked, so that it is never used.
    """

    agent_id: str
    skill_id: str
    version: str
    skill_type: str
    host: str
    port: int
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    status: LanStatus = "UNKNOWN"
    is_verified: bool = False
    found_via: FoundVia = FoundVia.MULTICAST
    heard: float = 0.0
    is_stale: bool = False
    url: str = ""
    digest: str = ""
    is_revoked: bool = False

    @property
    def source(self) -> str:
        """The network that it was found in, and how: ``lan multicast``, ``dht``, ``dht cache``."""
        return "dht" if self.found_via is FoundVia.DHT else f"{'dht' if self.url else 'lan'} {self.found_via}"

    @property
    def endpoint(self) -> str:
        """``host:port``, an IPv6 address in brackets."""
        return host_and_port(self.host, self.port)

    @property
    def place(self) -> tuple[str, str, int]:
        """Skill, host and port, which identify a skill whatever its source."""
        return self.skill_id, self.host, self.port

    @property
    def publisher_label(self) -> str:
        """``of AGENT at HOST:PORT``, for a sentence; without an unknown agent."""
        return f"of {self.agent_id} at {self.endpoint}" if self.agent_id else f"at {self.endpoint}"

    @property
    def is_trust_known(self) -> bool:
        """Whether its key was seen: not when only mDNS or the answers of others name the skill."""
        is_hint = not self.agent_id or self.found_via is FoundVia.MDNS
        is_cached_hint = self.found_via is FoundVia.CACHE and self.status == "UNKNOWN" and not self.url
        return self.is_verified or not (is_hint or is_cached_hint)

    @property
    def freshness(self) -> Freshness:
        """``live``; ``cached`` since it was heard; ``stale`` while the network is suspected."""
        if self.found_via is FoundVia.CACHE:
            return "cached"
        return "stale" if self.is_stale else "live"

    @property
    def trust(self) -> Trust:
        """Whether it is certified, in one word."""
        if self.is_revoked:
            return "revoked"
        if self.is_verified:
            return "verified"
        return "unverified" if self.is_trust_known else "not known"

    @property
    def trust_label(self) -> str:
        """The same for a context that does not mention trust."""
        return self.trust if self.is_trust_known else f"trust {self.trust}"

    @property
    def is_usable(self) -> bool:
        """Whether it may be called now."""
        return self.status in USABLE_STATUSES and not self.is_revoked

    @property
    def call_order(self) -> tuple[int, bool, str, str, str]:
        """The sort key for calls: health, then certified first, then names."""
        rank = _RANKS[self.status] if self.is_usable else len(_RANKS)
        return rank, not self.is_verified, self.skill_id, self.agent_id, self.endpoint

    def fits(self, capabilities: Iterable[str], scenes: Collection[str], types: Collection[str]) -> bool:
        """Return whether it has all capabilities, one scene and one type; empty matches all. Spec: SDP §3.1."""
        return (
            set(capabilities) <= set(self.capabilities)
            and (not scenes or not set(scenes).isdisjoint(self.scenes))
            and (not types or self.skill_type in types)
        )


class LanMember(NamedTuple):
    """A provider in a scene's group; ``role`` is ``PRIMARY`` or ``BACKUP``."""

    agent_id: Annotated[str, "Agent"]
    skill_id: Annotated[str, "Skill"]
    role: Annotated[str, "Role in the group", Literal["PRIMARY", "BACKUP"]]
    freshness: Annotated[Freshness, "live, or cached: it may be gone"] = "live"


def members_of(providers: Iterable[LanSkill], rank: Callable[[LanSkill], tuple[Any, ...]]) -> tuple[LanMember, ...]:
    """Return the members of a group by ``rank``, the PRIMARY first; see ``protocols.skill_discovery.scenes``."""
    ranked = sorted((one for one in providers if one.is_usable), key=rank)
    return tuple(
        LanMember(*one[:2], "BACKUP" if place else "PRIMARY", one.freshness) for place, one in enumerate(ranked)
    )


class LanScene(NamedTuple):
    """A scene, its group, and its providers, the PRIMARY first."""

    name: str
    group_id: str
    members: tuple[LanMember, ...]


class LanChange(NamedTuple):
    """A change on the network.

    Args:
        kind: of a skill; ``scene`` when a group has another PRIMARY or other members; ``missed`` when a slow listener
            lost changes and has to read a snapshot.
        at: seconds since the epoch.
        skill, scene: their newest state.
        reason: why a skill is gone; empty when unknown.
    """

    kind: Literal[SkillChange, "scene", "missed"]
    at: float
    skill: LanSkill | None = None
    scene: LanScene | None = None
    reason: Literal["", GoneReason] = ""


class LanSnapshot(NamedTuple):
    """The network as one agent knows it. ``is_suspected``: so many skills fell silent that the network is suspected."""

    agent_id: str
    at: float
    skills: tuple[LanSkill, ...]
    scenes: tuple[LanScene, ...]
    is_suspected: bool = False


class SceneResult(NamedTuple):
    """The result of a request for a scene. Spec: SDP §4.

    Args:
        group_id: of the joined group; empty for none.
        connection_info: SDP 4.3's keys, with ``endpoint`` (``host:port``): a path of the provider is at
            ``{protocol}://{endpoint}{basePath}``. With ``apiKey`` and ``expiresAt`` when the provider handed out a
            short-lived key, which goes into the field ``authHeader``; ``authType`` and ``authHeader`` are empty
            unless a trusted agent said how a key is used.
        members: of the group, the PRIMARY first.
        is_missing: whether an agent answered that it knows no provider, rather than no answer at all.
        no_key: why the provider gave no key, with its code and a fix: ``DISC_005`` when it could not be reached,
            ``DISC_004`` when it is another agent, or refused. None with a key, and without keys.

    Its ``repr`` hides the key from logs.
    """

    scene: str
    group_id: str = ""
    connection_info: Mapping[str, str | int] = MappingProxyType({})
    skill_id: str = ""
    version: str = ""
    capabilities: tuple[str, ...] = ()
    members: tuple[LanMember, ...] = ()
    is_missing: bool = False
    no_key: Finding | None = None

    def __repr__(self) -> str:
        info = {key: "..." if key in SECRET_KEYS else value for key, value in self.connection_info.items()}
        shown = self._asdict() | {"connection_info": info}
        return f"SceneResult({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def is_joined(self) -> bool:
        """Whether the scene's group was joined."""
        return bool(self.group_id)


_Addresses = Annotated[tuple[str, ...], "HOST:PORT of nodes that did not answer"]
_Seconds = Annotated[float, "Time that it took, in seconds"]
_NodeId = Annotated[str, "ID of the node, hexadecimal"]


class DhtSkill(NamedTuple):
    """One skill that a publisher put into the DHT; its signature was verified here."""

    agent_id: Annotated[str, "Agent that announces it"]
    skill_id: Annotated[str, "ID in Skill Discovery"]
    version: Annotated[str, "Version"]
    skill_type: Annotated[str, "Type, such as tool-skill"]
    endpoint: Annotated[str, "URL of its server"]
    capabilities: Annotated[tuple[str, ...], "Capabilities"]
    scenes: Annotated[tuple[str, ...], "Scenes it takes part in"]
    digest: Annotated[str, "Digest of its artifact, sha256:...; empty if its publisher states none"]
    trust: Annotated[Trust, "Whether its signer is certified"]
    announced: Annotated[float, "Time at which it was signed, in seconds since the epoch"]
    expires: Annotated[float, "End of the record, in seconds since the epoch"]
    key_id: Annotated[str, "SHA-256 of the signer's public key, hexadecimal"]


class DhtAnswer(NamedTuple):
    """What a question found, and what it did not reach."""

    skills: Annotated[tuple[DhtSkill, ...], "Verified records"] = ()
    asked: Annotated[int, "Number of nodes that answered"] = 0
    unanswered: _Addresses = ()
    keys_without_answer: Annotated[tuple[str, ...], "Capabilities or names that no node answered for"] = ()
    seconds: _Seconds = 0.0


class DhtPut(NamedTuple):
    """How many nodes stored a record, or its removal, and which did not answer."""

    stored: Annotated[int, "Number of nodes that stored it, at least under each key with room"]
    unanswered: _Addresses = ()
    seconds: _Seconds = 0.0
    full: Annotated[tuple[str, ...], "Capabilities or names under which no node has room for another publisher"] = ()


class DhtPong(NamedTuple):
    """A node that answered."""

    node_id: _NodeId
    agent_id: Annotated[str, "Its agent"]
    trust: Annotated[Trust, "Whether its key is certified"]
    seconds: Annotated[float, "Round trip, in seconds"]


class DhtBucket(NamedTuple):
    """The nodes of one distance."""

    prefix: Annotated[int, "Bits that the nodes' IDs share with ours"]
    nodes: Annotated[tuple[str, ...], "HOST:PORT of each node"]


class DhtOwn(NamedTuple):
    """A skill of ours."""

    skill_id: Annotated[str, "The skill"]
    version: Annotated[str, "Version"]
    last_put: Annotated[float, "Time of the last put, in seconds since the epoch; 0 for never"]
    stored: Annotated[int, "Number of nodes that stored it"]


class DhtBootstrap(NamedTuple):
    """A bootstrap node."""

    address: Annotated[str, "HOST:PORT"]
    answers: Annotated[bool, "Whether it answers"]


class DhtStatus(NamedTuple):
    """The state of a node."""

    node_id: _NodeId
    addresses: Annotated[tuple[str, ...], "HOST:PORT that it listens on"]
    profile: Annotated[str, "open or signed"]
    buckets: Annotated[tuple[DhtBucket, ...], "Known nodes by distance"]
    held: Annotated[int, "Number of records that it stores for others, tombstones included"]
    held_bytes: Annotated[int, "Size of these records"]
    own: Annotated[tuple[DhtOwn, ...], "Skills that it announces"]
    bootstrap: Annotated[tuple[DhtBootstrap, ...], "Bootstrap nodes"]
    counters: Annotated[dict[str, int], "Datagrams and refusals by name, since the start"]

    @property
    def nodes(self) -> int:
        """How many nodes it knows."""
        return sum(len(bucket.nodes) for bucket in self.buckets)
