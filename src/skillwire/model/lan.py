"""What is known of a local network: its skills, scenes and changes, as everybody above the protocol sees them.

Spec: SDP §2 to §5, §8, §11.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from skillwire.model.skill import Finding

_RANKS: Final = {"HEALTHY": 0, "DEGRADED": 1, "UNKNOWN": 2}
#: A skill with one of these may be called.
USABLE_STATUSES: Final = frozenset(_RANKS)
#: The words for whether somebody vouches for a skill: in texts, in JSON and on pages.
Trust = Literal["verified", "unverified", "not known"]
#: Keys of a connection that are shown on demand only. Spec: SDP §4.3.
SECRET_KEYS: Final = frozenset({"apiKey"})


def host_and_port(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FoundVia(StrEnum):
    """Where a skill was heard of."""

    MULTICAST = "multicast"
    MDNS = "mdns"
    CACHE = "cache"


class LanSkill(NamedTuple):
    """One skill of one agent.

    Args:
        agent_id: who offers it.
        skill_id: its identifier in Skill Discovery.
        version: SemVer.
        skill_type: such as ``tool-skill``.
        host: an address; IPv6 without brackets.
        port: of its HTTP server.
        capabilities: what it can do.
        scenes: that it takes part in.
        status: ``HEALTHY``, ``DEGRADED``, ``UNHEALTHY``, ``MAINTENANCE``, ``OFFLINE`` or ``UNKNOWN``.
        is_verified: whether its key is certified; what is not is used only when the user says so.
        found_via: where it was heard of.
        heard: when the last sign of life came, in seconds since the epoch.
        is_stale: whether the network is suspected, and not the skill.
    """

    agent_id: str
    skill_id: str
    version: str
    skill_type: str
    host: str
    port: int
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    status: str = "UNKNOWN"
    is_verified: bool = False
    found_via: FoundVia = FoundVia.MULTICAST
    heard: float = 0.0
    is_stale: bool = False

    @property
    def endpoint(self) -> str:
        """``host:port``, an IPv6 address in brackets."""
        return host_and_port(self.host, self.port)

    @property
    def place(self) -> tuple[str, str, int]:
        """Skill, host and port: what two that have the same say is said of the same skill, whoever says it."""
        return self.skill_id, self.host, self.port

    @property
    def publisher_label(self) -> str:
        """``of AGENT at HOST:PORT``, for a sentence; without the agent where none has said that it is its own."""
        return f"of {self.agent_id} at {self.endpoint}" if self.agent_id else f"at {self.endpoint}"

    @property
    def is_trust_known(self) -> bool:
        """Whether it was seen who vouches for it, or nobody: not of what mDNS or other agents merely told."""
        is_hearsay = not self.agent_id or self.found_via is FoundVia.MDNS
        is_old_hearsay = self.found_via is FoundVia.CACHE and self.status == "UNKNOWN"
        return self.is_verified or not (is_hearsay or is_old_hearsay)

    @property
    def trust(self) -> Trust:
        """Who vouches for it, in the word that every surface has for it."""
        if self.is_verified:
            return "verified"
        return "unverified" if self.is_trust_known else "not known"

    @property
    def trust_label(self) -> str:
        """The same where nothing around it says that it is about trust."""
        return self.trust if self.is_trust_known else f"trust {self.trust}"

    @property
    def is_usable(self) -> bool:
        """Whether it may be called now."""
        return self.status in USABLE_STATUSES

    @property
    def call_order(self) -> tuple[int, bool, str, str, str]:
        """What skills are sorted by, so that who is called first stands first: by health, then certified, then name."""
        rank = _RANKS.get(self.status, len(_RANKS))
        return rank, not self.is_verified, self.skill_id, self.agent_id, self.endpoint

    def fits(self, capabilities: Iterable[str], scenes: Collection[str], types: Collection[str]) -> bool:
        """Whether it has all the capabilities, is in one of the scenes, and of one of the types; empty lets all pass.

        Spec: SDP §3.1.
        """
        return (
            set(capabilities) <= set(self.capabilities)
            and (not scenes or not set(scenes).isdisjoint(self.scenes))
            and (not types or self.skill_type in types)
        )


class LanMember(NamedTuple):
    """A provider in a scene's group; ``role`` is ``PRIMARY`` or ``BACKUP``."""

    agent_id: str
    skill_id: str
    role: str


def members_of(providers: Iterable[LanSkill]) -> tuple[LanMember, ...]:
    """Return the members of a group, the PRIMARY first: certified before not, well before unknown, then by name.

    All agents rank them so, by what they list: it is the order of :mod:`skillwire.protocols.skill_discovery.scenes`.
    """
    ranked = sorted(
        (skill for skill in providers if skill.is_usable),
        key=lambda skill: (not skill.is_verified, skill.status == "UNKNOWN", skill.agent_id, skill.skill_id),
    )
    return tuple(
        LanMember(skill.agent_id, skill.skill_id, "BACKUP" if place else "PRIMARY")
        for place, skill in enumerate(ranked)
    )


class LanScene(NamedTuple):
    """A scene, its group, and who provides it, the PRIMARY first."""

    name: str
    group_id: str
    members: tuple[LanMember, ...]


class LanNotice(NamedTuple):
    """What another agent tells of a scene that we are in. Nobody signs it: it is a hint.

    Args:
        scene: as it was asked for.
        group_id: of its group.
        event: ``MEMBER_JOINED``, ``MEMBER_LEFT``, ``STATUS_CHANGED`` or ``PRIMARY_CHANGED``.
        agent_id: whose skill it is about.
        skill_id: that skill.
        status: how it is, as for a skill.
    """

    scene: str
    group_id: str
    event: str
    agent_id: str
    skill_id: str
    status: str


class LanChange(NamedTuple):
    """Something that has happened on the network.

    Args:
        kind: ``registered``, ``updated``, ``status``, ``suspected``, ``stale``, ``left`` or ``evicted`` of a skill;
            ``scene`` when a group has another PRIMARY or other members; ``notice`` when others tell of a scene that we
            are in what does not look so from here, a heartbeat later; ``missed`` when a slow listener lost changes and
            has to look at everything again.
        at: seconds since the epoch.
        skill: as it is, or as it last was; of a notice, as it is seen from here, if it is.
        scene: as it is, as seen from here.
        reason: why a skill is gone: one that was ``evicted`` is ``silent``, ``revoked`` (its certificate was taken
            back), or ``crowded`` (it has given way to a certified one); one that has ``left`` said ``shutdown``,
            ``error``, ``maintenance`` or ``upgrade``. Empty where nobody says.
        notice: what others tell.
    """

    kind: str
    at: float
    skill: LanSkill | None = None
    scene: LanScene | None = None
    reason: str = ""
    notice: LanNotice | None = None


class LanSnapshot(NamedTuple):
    """The network as one agent knows it. ``is_suspected`` says that so many fell silent that it is the network."""

    agent_id: str
    at: float
    skills: tuple[LanSkill, ...]
    scenes: tuple[LanScene, ...]
    is_suspected: bool = False


class SceneResult(NamedTuple):
    """What came of asking for a scene. Spec: SDP §4.

    Args:
        scene: that was asked for.
        group_id: of the group that was joined; empty when there is none.
        connection_info: SDP 4.3's keys, with ``endpoint`` (``host:port``): a path of the provider is at
            ``{protocol}://{endpoint}{basePath}``. With ``apiKey`` and ``expiresAt`` when the provider handed out a
            short-lived key, which goes into the field ``authHeader``; ``authType`` and ``authHeader`` are empty where
            nobody whom we believe has said how one is used.
        skill_id: of the provider.
        version: of it.
        capabilities: of it.
        members: of the group, the PRIMARY first.
        is_missing: whether somebody said that the scene is not here, rather than nobody answering.
        no_key: why we have no key that the provider could have given, a note with its code and what to do:
            ``DISC_005`` when it could not be reached, ``DISC_004`` when it is not who it says, or refuses us. None when
            there is a key, or none is handed out.

    Its ``repr`` shows no key, so that none gets into logs.
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
        """Whether we are in the scene's group."""
        return bool(self.group_id)
