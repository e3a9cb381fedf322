"""What is announced: everybody's skills, each in the form that datagrams have, and nothing that has none."""

import pytest
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.protocols.skill_discovery.codec import decode, encode
from skillwire.protocols.skill_discovery.messages import Endpoint, Register, SkillType
from skillwire.server.lan.service import make_announcement, make_offer

HERE = Endpoint("", 8000)


@pytest.fixture
def skill(tmp_path):
    def make(name="leads-sync", manifest="", version="1.0.0"):
        outcome = prepare(write_skill(tmp_path, name, {"skill.toml": manifest}, version=version), "acme")
        assert isinstance(outcome, PreparedSkill)
        return outcome.skill

    return make


def test_a_skill_is_offered_as_its_folder_says(skill):
    manifest = 'skill_id = "skill-org-feishu"\nskill_type = "enterprise-skill"\ncapabilities = ["org-data-read"]\n'
    offer = make_offer(skill(manifest=manifest + 'scenes = ["auth"]\n', version="0.7.0"), HERE)
    assert offer.skill_id == "skill-org-feishu"
    assert (offer.version, offer.skill_type) == ("0.7.0", SkillType.ENTERPRISE)
    assert (offer.endpoint, offer.capabilities, offer.scenes) == (HERE, ("org-data-read",), ("auth",))


def test_a_folder_that_says_nothing_is_a_tool_under_its_own_name(skill):
    offer = make_offer(skill(), HERE)
    assert (offer.skill_id, offer.skill_type) == ("leads-sync", SkillType.TOOL)
    assert (offer.capabilities, offer.scenes) == ((), ())


def test_every_offer_has_a_datagram(skill):
    made = make_announcement([skill(), skill("other")], Endpoint("192.0.2.7", 8000), "agent-001")
    assert list(made.offers) == ["leads-sync", "other"]
    for offer in made.offers.values():
        message = Register("agent-001", *offer, timestamp=1, signature="abc=")
        assert decode(encode(message)) == message


def test_what_has_no_room_in_a_datagram_is_left_out_and_the_rest_announced(skill):
    many = ", ".join(f'"capability-number-{number:040}"' for number in range(40))
    made = make_announcement([skill("large", f"capabilities = [{many}]"), skill()], HERE, "agent-001")
    assert list(made.offers) == ["leads-sync"]
    assert "datagram of" in made.skipped["large"]


@pytest.mark.spec("SDP-tellable")
def test_what_others_could_not_tell_of_is_left_out_and_the_rest_announced(skill):
    many = ", ".join(f'"capability-{number:02}-{"x" * 40}"' for number in range(17))
    untold = [skill("large", f"capabilities = [{many}]"), skill("named", f'scenes = ["{"s" * 119}"]')]
    made = make_announcement([*untold, skill()], HERE, "agent-001")
    assert list(made.offers) == ["leads-sync"]
    assert list(made.skipped) == ["large", "named"]
    assert list(made.skipped.values()) == [
        "too long for an answer to a discovery",
        "a scene has a name of 119 letters, and up to 118 are allowed",
    ]


def test_it_fits_whatever_address_it_is_sent_from(skill):
    for count in range(12, 40):
        names = ", ".join(f'"capability-{number:035}"' for number in range(count))
        one = skill(f"skill-{count}", f"capabilities = [{names}]")
        if make_announcement([one], HERE, "agent-001").offers:
            offer = make_offer(one, Endpoint("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff", 65535))
            assert len(encode(Register("agent-001", *offer, timestamp=10**13 - 1, signature="A" * 96))) <= 1200
        else:
            break
    else:
        pytest.fail("everything fits")


def test_a_list_that_is_too_long_is_said(skill):
    names = ", ".join(f'"c{number}"' for number in range(limits.LAN_LIST_ENTRIES + 1))
    made = make_announcement([skill("large", f"capabilities = [{names}]")], HERE, "agent-001")
    assert not made.offers
    assert "65 identifiers" in made.skipped["large"]


def test_an_agent_announces_no_more_than_others_list_of_it(skill, monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS_PER_AGENT", 1)
    made = make_announcement([skill(), skill("other")], HERE, "agent-001")
    assert list(made.offers) == ["leads-sync"]
    assert made.skipped == {"other": "an agent announces at most 1 skills"}
