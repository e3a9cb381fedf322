"""Instances of DNS-SD: what was written is what is read, within its bounds, and no TXT record does harm."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.datagrams import endpoints, identifiers, names, told, versions

from skillwire import limits
from skillwire.errors import DecodeError, ValidationError
from skillwire.protocols.skill_discovery import dnssd
from skillwire.protocols.skill_discovery.dnssd import Advertised
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer

LONG = st.from_regex(r"[A-Za-z0-9._-]{1,128}", fullmatch=True)
MANY = st.lists(LONG, max_size=limits.LAN_LIST_ENTRIES, unique=True).map(tuple)
KEYS = st.sampled_from(["", "0123456789abcdef"])
KINDS = st.sampled_from(SkillType)
PATHS = st.just(dnssd.PATH)
SKILLS = st.builds(
    Advertised, identifiers, identifiers, versions, KINDS, names, names, PATHS, told, KEYS, st.just(False), st.just(0)
)
AGENTS = st.builds(
    lambda agent, version, capabilities, scenes, port: Advertised(
        agent, version=version, capabilities=capabilities, scenes=scenes, path=dnssd.PATH, dht_port=port
    ),
    identifiers,
    versions,
    names,
    names,
    st.integers(0, 65_535),
)
OFFERS = st.builds(Offer, LONG, versions, st.sampled_from(SkillType), endpoints, MANY, MANY)


def strings(text):
    found = []
    while text:
        found.append(text[1 : 1 + text[0]])
        text = text[1 + text[0] :]
    return found


@given(SKILLS | AGENTS)
def test_what_was_written_is_what_is_read(facts):
    assert dnssd.decode_txt(dnssd.encode_txt(facts)) == facts


@pytest.mark.spec("SDP-mdns-details")
@pytest.mark.parametrize(("path", "read"), [("/a/b-c.d~1", True), ("/a?now=1", False), ("/a#b", False), ("a", False)])
def test_a_path_has_no_query_and_no_fragment(path, read):
    facts = Advertised("agent", "skill", "1.0.0", SkillType.TOOL, path=path)
    assert dnssd.decode_txt(dnssd.encode_txt(facts)).path == (path if read else "")


@pytest.mark.spec("SDP-dht-mdns")
@pytest.mark.parametrize("port", ["0", "65536", "06881", "-1", "6881x", ""])
def test_what_is_no_port_is_no_node_of_the_dht(port):
    string = f"dht={port}".encode()
    text = dnssd.encode_txt(Advertised("agent")) + bytes((len(string),)) + string
    assert dnssd.decode_txt(text) == Advertised("agent")


@pytest.mark.spec("SDP-mdns-record")
@given(LONG, LONG, versions, MANY, MANY)
def test_a_record_keeps_within_its_size_and_says_so_when_a_list_was_cut(agent, skill, version, capabilities, scenes):
    facts = Advertised(agent, skill, version, SkillType.INFRASTRUCTURE, capabilities, scenes)
    if len(f"id={agent}/{skill}") > 255:
        with pytest.raises(ValidationError, match="too long"):
            dnssd.encode_txt(facts)
        return
    text = dnssd.encode_txt(facts)
    assert len(text) <= limits.LAN_TXT_BYTES
    found = dnssd.decode_txt(text)
    assert capabilities[: len(found.capabilities)] == found.capabilities
    assert scenes[: len(found.scenes)] == found.scenes
    assert found.is_cut == ((found.capabilities, found.scenes) != (capabilities, scenes))


@pytest.mark.spec("SDP-mdns-record")
@given(SKILLS)
def test_the_keys_stand_in_their_order_the_version_of_the_record_first(facts):
    keys = [string.split(b"=")[0].decode() for string in strings(dnssd.encode_txt(facts))]
    assert keys[0] == "txtvers"
    order = ["txtvers", "id", "v", "t", "cap", "sc", "p", "st", "kid", "more"]
    assert keys == [key for key in order if key in keys]


@given(
    st.binary(max_size=600)
    | st.lists(
        st.builds(
            lambda key, value: f"{key}={value}".encode()[:255],
            st.sampled_from(["txtvers", "ID", "v", "t", "cap", "sc", "p", "st", "kid", "more", "", "é"]),
            st.text(max_size=40) | st.sampled_from(["1", "a/b", "agent", "tool-skill", "a,b", "HEALTHY", "/x"]),
        ),
        max_size=12,
    ).map(lambda found: b"".join(bytes((len(string),)) + string for string in found))
)
@example(b"")
@example(b"\xff")
@example(b"\x04id=a\x07t=agent")
@example(b"\x06id=a/b\x06id=c/d\x04st=?\x03p=x\x06kid=\xff\xff")
def test_no_txt_record_makes_reading_raise_anything_but_decode_error(text):
    try:
        facts = dnssd.decode_txt(text)
        hint = dnssd.hint_of(text, "printer.local.", "192.168.1.9", 8080)
    except DecodeError:
        return
    assert (hint is None) == (not facts.skill_id)
    assert dnssd.decode_txt(dnssd.encode_txt(facts if facts.agent_id else facts._replace(agent_id="a")))


@given(st.lists(LONG, min_size=2, max_size=2, unique=True), LONG)
def test_names_fit_into_a_label_have_no_dots_and_differ_as_the_identifiers_do(skills, agent):
    label = dnssd.agent_name(agent)
    found = [dnssd.skill_name(skill, f"{label}-999") for skill in skills]
    assert all(len(name.encode()) <= 63 and "." not in name for name in (label, *found))
    assert found[0].lower() != found[1].lower()


@given(identifiers, st.lists(OFFERS, max_size=5, unique_by=lambda offer: offer.skill_id))
def test_every_offer_is_an_instance_that_hints_at_it_or_is_left_out(agent, offers):
    found, left_out = dnssd.instances_of(agent, offers, {})
    assert [entry.skill_id for entry in found][:1] == ([""] if offers else [])
    assert {entry.skill_id for entry in found[1:]} | set(left_out) == {offer.skill_id for offer in offers}
    by_skill = {offer.skill_id: offer for offer in offers}
    for entry in found[1:]:
        offer = by_skill[entry.skill_id]
        hint = dnssd.hint_of(entry.text, "h.local.", entry.host, entry.port)
        assert hint is not None
        told = offer._replace(capabilities=hint.capabilities, scenes=hint.scenes)
        assert hint == Register(agent, *told, 0)  # type: ignore[arg-type, call-arg]  # mypy does not count the fields of an offer


@pytest.mark.spec("SDP-mdns-services")
def test_of_more_skills_than_two_hundred_the_first_are_published():
    offers = [Offer(f"skill-{number}", "1.0.0", SkillType.TOOL, Endpoint("h", 1)) for number in range(205)]
    found, left_out = dnssd.instances_of("agent-001", offers, {"skill-3": HealthStatus.DEGRADED})
    assert [entry.skill_id for entry in found] == ["", *(f"skill-{number}" for number in range(200))]
    assert left_out == [f"skill-{number}" for number in range(200, 205)]
    assert dnssd.decode_txt(found[4].text).status is HealthStatus.DEGRADED


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"\x09txtvers=2\x06id=a/b", "another version"),
        (b"\x09txtvers=1", "no identifier"),
        (b"\x08id=a/b/c", "two agents"),
        (b"\x06id=a/b\x05v=one", "a version that is none"),
        (b"\x06id=a/b\x08t=helper", "an unknown type"),
        (b"\x06id=a/b\x09cap=x;y z", "a list of what are no identifiers"),
        (b"\x20id=a/b", "a string that breaks off"),
        (b"\x06id=a/b" + b"\x01x" * 700, "more than anybody needs"),
    ],
)
def test_records_that_say_nothing_we_can_use_are_refused(text, what):
    with pytest.raises(DecodeError):
        dnssd.hint_of(text, "printer.local.", "192.168.1.9", 8080)
    assert what


@pytest.mark.parametrize("host", ["127.0.0.1%1", "0.0.0.0", "169.254.169.254", "a b", "", "255.255.255.255"])  # noqa: S104 - refused
def test_a_hint_never_leads_where_no_skill_can_be(host):
    with pytest.raises(DecodeError):
        dnssd.hint_of(b"\x06id=a/b", "printer.local.", host, 8080)


@pytest.mark.parametrize("port", [0, 65536, -1])
def test_a_hint_has_a_port(port):
    with pytest.raises(DecodeError):
        dnssd.hint_of(b"\x06id=a/b", "printer.local.", "192.168.1.9", port)


def test_who_names_no_agent_is_named_by_the_host():
    hint = dnssd.hint_of(b"\x04id=b\x07v=1.2.3", "printer.local.", "192.168.1.9", 8080)
    assert hint is not None
    assert (hint.agent_id, hint.skill_id, hint.version, hint.skill_type) == ("printer", "b", "1.2.3", SkillType.TOOL)
