"""What a discovery configuration may say: the text's keys and ours, one row each. Spec: SDP §13.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skill_discovery import configured_values as kinds
from skillwire.protocols.skill_discovery.messages import Profile, Reason

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.configured_values import Read


class Key(NamedTuple):
    """One key: how its value is read, what it means, and what it sets.

    ``sets`` is an attribute of ``LanSettings``; ``cache.NAME`` or ``figures.NAME`` one of theirs; empty for what
    nothing uses yet.
    """

    read: Read
    meaning: str
    sets: str = ""


_LATER_DHT: Final = "of the DHT; accepted, and used by nothing yet"
_LATER_CENTER: Final = "of SkillCenter; accepted, and used by nothing yet"
_SECOND: Final = kinds.milliseconds(1_000, 3_600_000)
_DAY: Final = 86_400_000
_LONG: Final = kinds.milliseconds(0, _DAY)
_SOME: Final = kinds.milliseconds(1, _DAY)

#: Path below ``discovery`` → key.
KEYS: Final[dict[str, Key]] = {
    "agentId": Key(kinds.agent, "name of this agent; made once and kept when absent", "agent_id"),
    "goodbye": Key(
        kinds.one_of(Reason, without=(Reason.ERROR,)),
        "why a server that is told to end leaves: `SHUTDOWN`, the default, `MAINTENANCE` or `UPGRADE`",
        "goodbye_reason",
    ),
    "udp.enabled": Key(kinds.flag, "speak by multicast; `true` by default", "multicast"),
    "udp.multicastGroup": Key(kinds.group(4), "IPv4 group; `224.0.0.1` by default", "group"),
    "udp.multicastGroup6": Key(kinds.group(6), 'IPv6 group, `""` for none; `ff12::d431` by default', "group6"),
    "udp.port": Key(kinds.whole(1, 65_535), "port of the groups; `54321` by default", "port"),
    "udp.ttl": Key(kinds.whole(0, 255), "networks that a datagram may cross; `1` by default", "ttl"),
    "udp.interfaces": Key(kinds.texts, "list of names or addresses; all that are up by default", "interfaces"),
    "udp.broadcastInterval": Key(
        _SECOND, "the same as `healthCheck.heartbeatInterval`, which wins", "figures.heartbeat_interval"
    ),
    "udp.timeout": Key(_SECOND, "the same as `healthCheck.timeout`, which wins", "figures.eviction"),
    "udp.announceInterval": Key(
        _SECOND, "ms between registrations that say nothing new; `120000` by default", "figures.announce_interval"
    ),
    "udp.patience": Key(
        kinds.milliseconds(50, 60_000), "ms that answers are collected at most; `2000` by default", "figures.patience"
    ),
    "udp.quiet": Key(
        kinds.milliseconds(0, 60_000),
        "ms without news that end the search for one provider; `150` by default",
        "figures.quiet",
    ),
    "udp.quietAll": Key(
        kinds.milliseconds(0, 60_000),
        "ms without news that end the search for all; `400` by default",
        "figures.quiet_all",
    ),
    "udp.datagramsPerSecond": Key(
        kinds.number(1, 10_000), "read from one source, beside its heartbeats; `20` by default", "figures.rate"
    ),
    "mdns.enabled": Key(kinds.flag, "publish and browse by mDNS; `true` by default", "mdns"),
    "mdns.probeInterval": Key(
        _SECOND, "ms between probes of a skill that mDNS alone tells of; `30000` by default", "figures.hint_interval"
    ),
    "trust.profile": Key(
        kinds.one_of(Profile), "`open`: what the text signs is signed; `signed`: everything is", "profile"
    ),
    "trust.useUnverified": Key(
        kinds.flag, "use skills whose key nobody certified; `false` by default", "use_unverified"
    ),
    "trust.roots": Key(kinds.texts, "files with certificates that are trusted, PEM or DER", "roots"),
    "trust.intermediates": Key(kinds.texts, "files with certificates between roots and leaves", "intermediates"),
    "trust.revocations": Key(kinds.texts, "files or https URLs of signed lists of what was revoked", "revocations"),
    "trust.groupKeyFile": Key(kinds.text, "file with a secret that all share: HMAC, not ECDSA", "group_key_file"),
    "trust.renewFrom": Key(kinds.text, "URL or folder of the authority that renews our certificate", "renew_from"),
    "trust.authority": Key(kinds.text, "folder of `skillwire ca init`, where a server certifies others", "authority"),
    "healthCheck.heartbeatInterval": Key(
        _SECOND, "ms between heartbeats; `5000` by default", "figures.heartbeat_interval"
    ),
    "healthCheck.timeout": Key(
        _SECOND, "ms of silence until a skill is forgotten; `30000` by default", "figures.eviction"
    ),
    "healthCheck.retryCount": Key(
        kinds.whole(0, 20),
        "how often a silent skill is asked for a beat; `3` by default",
        "figures.retry_count",
    ),
    "healthCheck.unhealthyThreshold": Key(
        kinds.whole(1, 100), "heartbeats missed until it is UNHEALTHY; `3` by default", "figures.unhealthy_missed"
    ),
    "healthCheck.suspectThreshold": Key(
        kinds.whole(1, 100),
        "heartbeats missed until it is suspected and probed; `2` by default",
        "figures.suspect_missed",
    ),
    "healthCheck.goodBeats": Key(
        kinds.whole(1, 100), "good heartbeats until it is HEALTHY again; `2` by default", "figures.good_beats"
    ),
    "healthCheck.flapLimit": Key(
        kinds.number(1, 1000), "falls after which it is held down; `3` by default", "figures.flap_limit"
    ),
    "healthCheck.flapHalfLife": Key(
        _SOME,
        "ms in which a fall counts half; `60000` by default",
        "figures.flap_half_life",
    ),
    "healthCheck.holdDown": Key(_LONG, "ms that it is held down; `30000` by default", "figures.hold_down"),
    "healthCheck.massShare": Key(
        kinds.number(0, 1),
        "share of all skills whose silence is the network's; `0.15` by default",
        "figures.mass_share",
    ),
    "healthCheck.massLeast": Key(
        kinds.whole(1, 100_000), "skills that have to be silent for that; `3` by default", "figures.mass_least"
    ),
    "healthCheck.staleTimeout": Key(
        _LONG, "ms of silence until it is forgotten even then; `600000` by default", "figures.stale"
    ),
    "cache.enabled": Key(kinds.flag, "keep what was found; `true` by default", "cache.enabled"),
    "cache.ttl": Key(_SOME, "ms that it is good for; `300000` by default", "cache.ttl"),
    "cache.maxSize": Key(kinds.whole(1, 20_000), "skills that are kept; `1000` by default", "cache.max_size"),
    "cache.refreshBeforeExpiry": Key(
        _LONG,
        "ms before its end in which a skill is asked for again; `60000` by default",
        "cache.refresh_before_expiry",
    ),
    "dht.enabled": Key(kinds.flag, _LATER_DHT),
    "dht.bootstrapNodes": Key(kinds.places, _LATER_DHT),
    "dht.replicationFactor": Key(kinds.whole(1, 100), _LATER_DHT),
    "skillCenter.enabled": Key(kinds.flag, _LATER_CENTER),
    "skillCenter.url": Key(kinds.web_address, _LATER_CENTER),
    "skillCenter.timeout": Key(kinds.milliseconds(1, 3_600_000), _LATER_CENTER),
    "skillCenter.cache.enabled": Key(kinds.flag, _LATER_CENTER),
    "skillCenter.cache.ttl": Key(_SOME, _LATER_CENTER),
}
