"""Hypothesis strategies for the messages of Skill Discovery."""

from ipaddress import IPv6Address
from typing import Any

from hypothesis import strategies as st

from skillwire.protocols.skill_discovery import messages as m

identifiers = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)
names = st.lists(identifiers, max_size=4, unique=True).map(tuple)
timestamps = st.integers(0, 10**14 - 1)
signatures = st.from_regex(r"[A-Za-z0-9+/]{1,96}={0,2}", fullmatch=True)
versions = st.builds("{}.{}.{}".format, *[st.integers(0, 99)] * 3) | st.just("1.0.0-rc.1+build.5")
texts = st.text(max_size=40)
hosts = (
    st.builds("192.168.{}.{}".format, st.integers(0, 255), st.integers(0, 255))
    | st.integers(0, 2**64 - 1).map(lambda number: str(IPv6Address((0xFD00 << 112) | number)))
    | st.sampled_from(["fe80::1", "::1", "printer.local", "a-b.example.com", "2606:4700::1111"])
)
endpoints = st.builds(m.Endpoint, hosts, st.integers(1, 65535))
told = st.sampled_from([status for status in m.HealthStatus if status is not m.HealthStatus.UNKNOWN])
records = st.builds(m.SkillRecord, identifiers, versions, endpoints, names, names)
_shown = st.text('abc-:/ %;|"é', max_size=8)
answers = st.builds(
    m.SceneAnswer,
    identifiers,
    identifiers,
    endpoints.flatmap(
        lambda place: st.builds(
            m.ConnectionInfo, _shown, st.just(place.host), st.just(place.port), _shown, endpoint=st.just(str(place))
        )
    ),
    st.builds(m.SkillInfo, identifiers, versions, names),
    st.lists(
        st.builds(m.GroupMember, identifiers, identifiers, st.sampled_from(["PRIMARY", "BACKUP"])), max_size=2
    ).map(tuple),
)
_nonces = st.binary(min_size=32, max_size=64)
_scene_fields = (identifiers, identifiers, names, timestamps)

#: Messages that the text signs, with a signature.
signed_messages = st.one_of(
    st.builds(
        m.Register,
        identifiers,
        identifiers,
        versions,
        st.sampled_from(m.SkillType),
        endpoints,
        names,
        names,
        timestamps,
        signature=signatures,
    ),
    st.builds(m.Unregister, identifiers, identifiers, st.sampled_from(m.Reason), timestamps, signature=signatures),
    st.builds(m.Heartbeat, identifiers, identifiers, told, timestamps, signature=signatures),
    st.builds(m.StatusUpdate, identifiers, identifiers, told, texts, timestamps, signature=signatures),
    st.builds(m.ChallengeResponse, identifiers, _nonces, st.binary(max_size=500), timestamps, signature=signatures),
    st.builds(m.JoinScene, *_scene_fields, signature=signatures),
    st.builds(m.RequestScene, *_scene_fields, signature=signatures),
)
#: Messages that the text leaves unsigned.
unsigned_messages = st.one_of(
    st.builds(m.RegisterAck, identifiers, st.sampled_from(m.Outcome), texts, timestamps),
    st.builds(m.UnregisterAck, identifiers, identifiers, st.sampled_from(m.Outcome), timestamps),
    st.builds(
        m.Discover, identifiers, names, names, st.lists(st.sampled_from(m.SkillType), max_size=3).map(tuple), timestamps
    ),
    st.builds(m.DiscoverResponse, identifiers, st.lists(records, max_size=3).map(tuple), timestamps),
    st.builds(m.Challenge, identifiers, _nonces, timestamps),
    st.builds(m.JoinSceneResponse, identifiers, answers, timestamps),
    st.builds(m.SceneJoinResponse, identifiers, answers, timestamps),
    st.builds(m.SceneNotFound, identifiers, identifiers, timestamps),
    st.builds(
        m.SceneEvent,
        identifiers,
        st.sampled_from(m.GroupEvent),
        identifiers,
        identifiers,
        st.sampled_from(m.HealthStatus),
        timestamps,
    ),
)


def registration(agent="agent-001", skill="skill-org-feishu", *, at=1_707_868_800_000, **changes):
    """Return the registration of the text, by another agent or skill, with ``changes``."""
    facts: dict[str, Any] = {
        "version": "0.7.0",
        "skill_type": m.SkillType.ENTERPRISE,
        "endpoint": m.Endpoint("192.168.1.100", 8080),
        "capabilities": ("org-data-read", "user-auth"),
        "scenes": ("auth",),
    }
    return m.Register(agent, skill, **(facts | changes), timestamp=at, signature="SIG")
