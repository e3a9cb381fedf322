"""Skill Discovery, datagrams: a test's name says the sentence, its mark the clause; data are of the text."""

import json

import pytest

from skillwire.errors import DecodeError, ValidationError
from skillwire.protocols.skill_discovery import codec
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import SHAPES, encode, encode_responses, encode_signed, signed_part


def decode(data, profile=m.Profile.OPEN):
    return codec.decode(data, profile)


REGISTER = (
    b"SKILL_REGISTER:agent-001;skill-org-feishu;0.7.0;enterprise-skill;192.168.1.100:8080;"
    b"org-data-read,user-auth;auth;1707868800000;"
)
DISCOVER = b"SKILL_DISCOVER:agent-002;org-data-read;auth;enterprise-skill;1707868800000"
RESPONSE = (
    b"SKILL_DISCOVER_RESPONSE:agent-002;"
    b"skill-org-feishu|0.7.0|192.168.1.100:8080|org-data-read,user-auth|auth;"
    b"skill-org-dingding|0.7.0|192.168.1.101:8080|org-data-read,user-auth|auth;1707868800000"
)
HEARTBEAT = b"SKILL_HEARTBEAT:agent-001;skill-org-feishu;HEALTHY;1707868805000;MEUCIQDxxx..."
BOTH = ("org-data-read", "user-auth")


@pytest.mark.spec("SDP-register")
@pytest.mark.parametrize("signature", [b"a1b2c3d4e5f6...", b"MEUCIQDxxx..."])
def test_the_registrations_of_the_text_are_read_and_written_back(signature):
    message = decode(REGISTER + signature)
    endpoint = m.Endpoint("192.168.1.100", 8080)
    expected = ("agent-001", "skill-org-feishu", "0.7.0", m.SkillType.ENTERPRISE, endpoint, BOTH, ("auth",))
    assert message == m.Register(*expected, 1707868800000, signature=signature.decode())
    assert encode(message) == REGISTER + signature


@pytest.mark.spec("SDP-register-ack")
@pytest.mark.parametrize("status", ["SUCCESS", "DUPLICATE", "INVALID", "UNAUTHORIZED"])
def test_an_acknowledgment_has_one_of_four_statuses(status):
    data = f"SKILL_REGISTER_ACK:agent-001;{status};Registration successful;1707868800000".encode()
    message = decode(data)
    assert message == m.RegisterAck("agent-001", m.Outcome(status), "Registration successful", 1707868800000)
    assert encode(message) == data
    with pytest.raises(DecodeError):
        decode(data.replace(status.encode(), b"OK"))


@pytest.mark.spec("SDP-discover")
def test_the_request_of_the_text_is_read_and_written_back():
    message = decode(DISCOVER)
    filters = ("org-data-read",), ("auth",), (m.SkillType.ENTERPRISE,)
    assert message == m.Discover("agent-002", *filters, 1707868800000)
    assert encode(message) == DISCOVER
    assert decode(b"SKILL_DISCOVER:agent-002;;;;1707868800000") == m.Discover("agent-002", (), (), (), 1707868800000)


@pytest.mark.spec("SDP-discover-response")
def test_the_response_of_the_text_is_read_and_written_back():
    message = decode(RESPONSE)
    assert isinstance(message, m.DiscoverResponse)
    assert [(skill.skill_id, str(skill.endpoint)) for skill in message.skills] == [
        ("skill-org-feishu", "192.168.1.100:8080"),
        ("skill-org-dingding", "192.168.1.101:8080"),
    ]
    assert all((skill.capabilities, skill.scenes) == (BOTH, ("auth",)) for skill in message.skills)
    assert encode(message) == RESPONSE
    nothing = b"SKILL_DISCOVER_RESPONSE:agent-002;;1707868800000"
    assert encode(decode(nothing)) == nothing


@pytest.mark.spec("SDP-heartbeat")
def test_the_heartbeat_of_the_text_is_read_and_written_back():
    message = decode(HEARTBEAT)
    place = "agent-001", "skill-org-feishu"
    assert message == m.Heartbeat(*place, m.HealthStatus.HEALTHY, 1707868805000, signature="MEUCIQDxxx...")
    assert encode(message) == HEARTBEAT
    for status in ("DEGRADED", "UNHEALTHY", "MAINTENANCE", "OFFLINE"):
        assert decode(HEARTBEAT.replace(b"HEALTHY", status.encode())).status == status
    with pytest.raises(DecodeError):
        decode(HEARTBEAT.replace(b"HEALTHY", b"UNKNOWN"))


@pytest.mark.spec("SDP-unregister")
@pytest.mark.parametrize("reason", ["SHUTDOWN", "ERROR", "MAINTENANCE", "UPGRADE"])
def test_a_goodbye_has_one_of_four_reasons(reason):
    data = f"SKILL_UNREGISTER:agent-001;skill-org-feishu;{reason};1707868800000;SIG".encode()
    assert decode(data).reason == reason
    assert encode(decode(data)) == data
    with pytest.raises(DecodeError):
        decode(data.replace(reason.encode(), b"BORED"))


@pytest.mark.spec("SDP-message-types")
def test_there_are_the_types_of_the_text_and_those_it_draws():
    written = {"REGISTER", "REGISTER_ACK", "UNREGISTER", "DISCOVER", "DISCOVER_RESPONSE", "HEARTBEAT", "STATUS"}
    scenes = {"JOIN_SCENE", "JOIN_SCENE_RESPONSE", "REQUEST_SCENE", "SCENE_JOIN_RESPONSE", "SCENE_NOT_FOUND"}
    drawn = {"SKILL_UNREGISTER_ACK", "CHALLENGE", "CHALLENGE_RESPONSE", "SCENE_EVENT", *scenes}
    assert set(SHAPES) == {f"SKILL_{name}" for name in written} | drawn


@pytest.mark.spec("SDP-unknown-type")
def test_a_message_of_another_type_is_passed_over():
    assert decode(b"SKILL_DANCE:whatever;\x20it is") == m.Unknown()
    with pytest.raises(ValidationError):
        encode(m.Unknown())


@pytest.mark.spec("SDP-identifier")
@pytest.mark.parametrize("name", ["", "a b", "ä", "a|b", "a%20b", "a/b", "a\nb", "a" * 129])
def test_what_is_no_identifier_is_refused(name):
    with pytest.raises(DecodeError):
        decode(REGISTER.replace(b"agent-001", name.encode()) + b"SIG")
    with pytest.raises(ValidationError):
        encode(m.Discover(name, (), (), (), 0))


@pytest.mark.spec("SDP-identifier")
def test_an_identifier_counts_once_in_a_list():
    once = decode(DISCOVER)
    named = once.capabilities[0].encode()
    assert decode(DISCOVER.replace(named, named + b"," + named)) == once
    assert encode(m.Discover("a", ("b", "a", "b"), (), (), 1)) == b"SKILL_DISCOVER:a;b,a;;;1"


@pytest.mark.spec("SDP-free-text")
def test_free_text_is_percent_encoded():
    update = m.StatusUpdate("a", "s", m.HealthStatus.DEGRADED, "slow; 50 % of 4 ö|p", 1, signature="SIG")
    data = encode(update)
    assert data == b"SKILL_STATUS:a;s;DEGRADED;slow%3B 50 %25 of 4 %C3%B6%7Cp;1;SIG"
    assert decode(data) == update
    for bad in (b"50 %", b"%f", b"%ff", b"a\tb"):
        with pytest.raises(DecodeError):
            decode(b"SKILL_STATUS:a;s;DEGRADED;" + bad + b";1;SIG")


@pytest.mark.spec("SDP-endpoint")
@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.168.1.100:8080", "192.168.1.100", 8080),
        ("[::1]:8080", "::1", 8080),
        ("[FD00:0:0::1]:443", "fd00::1", 443),
        ("printer.local:65535", "printer.local", 65535),
    ],
)
def test_an_endpoint_is_split_at_the_last_colon(text, host, port):
    message = decode(REGISTER.replace(b"192.168.1.100:8080", text.encode()) + b"SIG")
    assert message.endpoint == m.Endpoint(host, port)


@pytest.mark.spec("SDP-endpoint")
@pytest.mark.parametrize(
    "text",
    [
        *("::1:8080", "[::1]", "[::1%eth0]:80", "[ff02::1]:80", "0.0.0.0:80", "169.254.169.254:80", "0x7f.1:80"),
        *("127.1:80", "1.2.3.4:080", "1.2.3.4:+80", "1.2.3.4", ":80", "a..b:80", "-a:80", "255.255.255.255:80", "h:"),
        *("user@h:80", "h:65536", "h:0", "http://evil/", "224.0.0.1:8080"),
    ],
)
def test_where_no_skill_can_be_is_no_endpoint(text):
    with pytest.raises(DecodeError):
        decode(REGISTER.replace(b"192.168.1.100:8080", text.encode()) + b"SIG")


@pytest.mark.spec("SDP-datagram-size")
def test_a_datagram_has_at_most_1200_bytes():
    record = decode(RESPONSE).skills[0]
    datagrams = encode_responses("agent-002", [record] * 100, 1707868800000)
    assert max(map(len, datagrams)) <= 1200
    assert len(decode(datagrams[0]).skills) == 16  # specs §3 says: about 15 records
    assert sum(len(decode(data).skills) for data in datagrams) == 100
    with pytest.raises(ValidationError, match="DATAGRAM_SIZE"):
        encode(m.StatusUpdate("a", "s", m.HealthStatus.DEGRADED, "x" * 1200, 1, signature="SIG"))
    with pytest.raises(DecodeError):
        decode(b"SKILL_STATUS:a;s;DEGRADED;" + b"x" * 1200 + b";1;SIG")


@pytest.mark.spec("SDP-profile-signed")
def test_in_the_profile_signed_every_message_is_signed_or_refused():
    for data in (DISCOVER, RESPONSE):
        with pytest.raises(DecodeError):
            decode(data, m.Profile.SIGNED)
        assert decode(data + b";MEUCIQ==", m.Profile.SIGNED).signature == "MEUCIQ=="
        with pytest.raises(DecodeError):
            decode(data + b";MEUCIQ==")
    assert decode(HEARTBEAT, m.Profile.SIGNED) == decode(HEARTBEAT)
    with pytest.raises(DecodeError):
        decode(HEARTBEAT.removesuffix(b"MEUCIQDxxx..."))


@pytest.mark.spec("SDP-signed-part")
def test_a_signature_signs_the_bytes_before_the_last_semicolon():
    asked = []

    def sign(part):
        asked.append(part)
        return "MEUCIQDxxx..."

    assert encode_signed(decode(HEARTBEAT), sign) == HEARTBEAT
    assert asked == [signed_part(HEARTBEAT)] == [b"SKILL_HEARTBEAT:agent-001;skill-org-feishu;HEALTHY;1707868805000"]


@pytest.mark.spec("SDP-scene-answer")
def test_the_answer_to_a_scene_has_the_seven_keys_of_the_text_and_an_endpoint():
    info = m.ConnectionInfo("http", "192.168.1.100", 8080, endpoint="192.168.1.100:8080")
    answer = m.SceneAnswer("auth-001", "group-auth-001", info, m.SkillInfo("skill-org-feishu", "0.7.0"))
    for kind in (m.SceneJoinResponse, m.JoinSceneResponse):
        document = json.loads(encode(kind("agent-002", answer, 1)).split(b";")[1])
        keys = {"protocol", "host", "port", "basePath", "authType", "authHeader", "apiKey", "endpoint"}
        assert document["connectionInfo"].keys() == keys
        assert document["connectionInfo"]["apiKey"] == ""


@pytest.mark.spec("SDP-no-secret")
def test_an_api_key_is_neither_written_nor_read():
    document = (
        b'{"sceneId":"auth-001","groupId":"group-auth-001","connectionInfo":{"protocol":"http","host":"192.168.1.100",'
        b'"port":8080,"basePath":"/api","authType":"api-key","authHeader":"X-API-Key","apiKey":"sk-xxxxx"},"skillInfo":'
        b'{"skillId":"skill-org-feishu","version":"0.7.0","capabilities":["org-data-read","user-auth"]}}'
    )
    message = decode(b"SCENE_JOIN_RESPONSE:agent-002;" + document + b";1707868800000")
    assert message.answer.connection_info.auth_header == "X-API-Key"
    assert message.answer.skill_info == m.SkillInfo("skill-org-feishu", "0.7.0", BOTH)
    written = encode(message)
    assert b"sk-xxxxx" not in written
    assert b'"apiKey":""' in written
    assert decode(written) == message
