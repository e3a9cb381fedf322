"""Registrations that are refused, each for its own reason, with the real signatures and certificates.

Each begins with a true one that is taken, so that the refusal is for the reason that is named and for no other.
"""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.certificates import NOW, Issuer, TakenBackNumbers, center, other_curve, root, serial
from tests.support.datagrams import registration
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode, encode_signed
from skillwire.protocols.skill_discovery.identity import ChainAuthority, GroupKey
from skillwire.protocols.skill_discovery.ingress import PeerMismatch
from skillwire.protocols.skill_discovery.limits import ReplayGuard
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Outcome, Profile, Reason
from skillwire.protocols.skill_discovery.node import Refused
from skillwire.protocols.skill_discovery.route_agent import Acknowledged
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.certificates import Chain, RequestedNames
from skillwire.trust.ecdsa import EcdsaIdentity, new_key, self_signed
from skillwire.wire.node import Peer

R, A, EVIL = "192.168.1.1", "192.168.1.100", "192.168.1.66"
AGENT, SKILL = "agent-001", "skill-org-feishu"
KEY = AGENT, SKILL
AT = int(EPOCH * 1000)
PROFILES = pytest.mark.parametrize("profile", Profile)


class World(Lan):
    """A registry that takes whom the authority certifies, and nobody else; ``arrived`` is what it heard of others."""

    def __init__(self, *, strangers=False, profile=Profile.OPEN):
        self.revoked: set[int] = set()
        self.arrived: list[bytes] = []
        self.profile = profile
        chain = Chain(
            [root().certificate],
            [center().certificate],
            revocations=TakenBackNumbers(self.revoked),
            accepts_self_signed=strangers,
        )
        self.authority = ChainAuthority(chain)
        super().__init__()
        self.start_registry()

    def start_registry(self, replay=None):
        identity = center().issue(agents=["registry"])
        trust = {"identity": identity, "authority": self.authority, "profile": self.profile, "replay": replay}
        self.node(R, REGISTRY, agent_id="registry", **trust)

    def _deliver(self, receiver, data, source):
        if receiver.peer.host == R:
            self.arrived.append(data)
        super()._deliver(receiver, data, source)

    @property
    def stopped(self):
        return self.nodes[R].ingress.stopped

    def offers(self, identity, host=A, agent=AGENT, **changes):
        """Let an agent offer the skill; return what became of it, as it was told."""
        before = len(self.events(Acknowledged, host))
        self.node(host, OFFERS, agent_id=agent, identity=identity, authority=self.authority, profile=self.profile)
        self.offer(host, SKILL, **changes)
        self.run(3)
        return {ack.status for ack in self.events(Acknowledged, host)[before:]}

    def is_listed(self, key=KEY):
        return key in self.listed(R)

    def taken(self):
        """Return the skill as the registry lists it."""
        listed = self.nodes[R].registry.get(KEY)
        assert listed is not None
        return listed

    def forge(self, data, host=EVIL):
        """Let a datagram arrive; return why it was stopped."""
        before = self.stopped.copy()
        self.inject(data, Peer(host, 40_000), R)
        return set(self.stopped - before)


def certified(**options):
    return center().issue(agents=[AGENT], **options)


def test_a_true_registration_is_taken():
    world = World()
    assert world.offers(certified()) == {Outcome.SUCCESS}
    assert world.is_listed()


@pytest.mark.spec("SDP-signature")
@PROFILES
def test_a_forged_registration_of_a_known_agent_is_refused(profile):
    world = World(profile=profile)
    world.offers(certified())
    at = int(world.moment(R).wall * 1000)
    forged = registration(at=at, version="6.6.6", endpoint=Endpoint(EVIL, 80))
    assert world.forge(encode_signed(forged, self_signed(AGENT, new_key(), NOW).sign, profile)) == {"forged"}
    assert world.taken().registration.version == "0.7.0"


@pytest.mark.spec("SDP-signature")
def test_a_registration_that_was_changed_on_its_way_is_refused():
    world = World()
    identity = certified()
    world.offers(identity)
    at = int(world.moment(R).wall * 1000)
    data = encode_signed(registration(at=at), identity.sign)
    assert world.forge(data.replace(b";0.7.0;", b";0.7.1;"), A) == {"forged"}
    assert world.forge(data, A) == set()
    assert world.taken().registration.timestamp == at


@pytest.mark.spec("SDP-replay")
@PROFILES
def test_a_registration_that_is_replayed_after_the_goodbye_is_refused(profile):
    world = World(profile=profile)
    world.offers(certified())
    taken = next(data for data in world.arrived if data.startswith(b"SKILL_REGISTER:"))
    world.do(A, lambda node, now: node.route_agent.withdraw(SKILL, Reason.SHUTDOWN, now))
    world.run(1)
    assert not world.is_listed()
    for host in (A, EVIL):
        world.forge(taken, host)
        assert not world.is_listed()
    world.run(31)
    assert world.forge(taken, A) == {"outside the window"}


@pytest.mark.spec("SDP-replay")
def test_a_registration_that_is_replayed_after_a_restart_of_the_registry_is_refused():
    world = World()
    world.offers(certified())
    taken = next(data for data in world.arrived if data.startswith(b"SKILL_REGISTER:"))
    kept = world.nodes[R].ingress.replay.changed()
    world.crash(A)
    world.crash(R)
    world.start_registry(ReplayGuard(30.0, kept))
    assert world.forge(taken, A) == {"replayed"}
    world.run(5)
    assert not world.is_listed()


@pytest.mark.spec("SDP-replay")
def test_an_older_registration_than_the_newest_is_refused():
    world = World()
    identity = certified()
    world.offers(identity)
    old = encode_signed(registration(at=AT - 20_000, version="0.6.0"), identity.sign)
    assert world.forge(old, A) == {"replayed"}
    assert world.taken().registration.version == "0.7.0"


def revoked(world):
    identity = certified()
    world.revoked.add(serial(identity))
    return identity


def by_a_leaf(_):
    holder, key = certified(), new_key()
    below = CertificateAuthority(holder.key, holder.certificate)
    return EcdsaIdentity(key, below.issue(RequestedNames((AGENT,)), key.public_key(), EPOCH))


def below_a_revoked_authority(world):
    world.revoked.add(serial(EcdsaIdentity(new_key(), center().certificate)))
    return certified()


CHAIN, NAME, SIGNED = (
    pytest.mark.spec(f"SDP-{clause}") for clause in ("certificate-chain", "certificate-name", "signature")
)


@pytest.mark.parametrize(
    ("identity", "answers", "reason"),
    [
        pytest.param(
            lambda _: center().issue(agents=[AGENT], key=other_curve()), "refused", "certificate",
            marks=CHAIN, id="curve",
        ),
        pytest.param(
            lambda _: certified(key=ec.generate_private_key(ec.SECP384R1())), "refused", "certificate",
            marks=CHAIN, id="P-384",
        ),
        pytest.param(lambda _: certified(start=-8, days=7), "refused", "certificate", marks=CHAIN, id="expired"),
        pytest.param(lambda _: certified(start=1, days=7), "refused", "certificate", marks=CHAIN, id="not yet"),
        pytest.param(revoked, "refused", "certificate", marks=CHAIN),
        pytest.param(below_a_revoked_authority, "refused", "certificate", marks=CHAIN),
        pytest.param(by_a_leaf, "refused", "certificate", marks=CHAIN),
        pytest.param(
            lambda _: Issuer("SkillCenter CA", Issuer("Root CA")).issue(agents=[AGENT]), "refused", "certificate",
            marks=CHAIN, id="another root",
        ),
        pytest.param(
            lambda _: self_signed(AGENT, new_key(), NOW), "refused", "certificate",
            marks=pytest.mark.spec("SDP-unverified"), id="self-signed",
        ),
        pytest.param(lambda _: center().issue(skills=["skill-other"]), "refused", "", marks=NAME, id="another skill"),
        pytest.param(
            lambda _: EcdsaIdentity(new_key(), certified().certificate), "nothing", "forged", marks=SIGNED, id="stolen"
        ),
        pytest.param(
            lambda _: GroupKey(b"known to everybody"), "refused", "another group key", marks=SIGNED, id="group key"
        ),
    ],
)  # fmt: skip
def test_a_registration_by_another_identity_is_refused(identity, answers, reason):
    world = World(strangers=reason == "another group key")
    assert world.offers(identity(world)) == ({Outcome.UNAUTHORIZED} if answers == "refused" else set())
    assert not reason or world.stopped[reason] > 0
    assert not world.is_listed()


@pytest.mark.spec("SDP-certificate-chain")
def test_a_registration_after_the_certificate_has_expired_is_refused():
    world = World()
    seconds = 60
    world.offers(certified(start=-7, days=7 + seconds / 86_400))
    assert world.is_listed()
    world.run(seconds)
    before = world.taken()
    world.offer(A, SKILL, version="0.8.0")
    world.run(3)
    after = world.taken()
    assert after.registration.version == before.registration.version == "0.7.0"
    assert not after.is_verified
    world.run(60)  # its endpoint answers probes, which puts off each step of its silence once
    assert not world.is_listed(), "its beats count for nothing either"


@pytest.mark.spec("SDP-certificate-chain")
def test_what_was_registered_before_the_certificate_was_revoked_is_forgotten():
    world = World()
    identity = certified()
    world.offers(identity)
    world.run(10)
    assert world.listed(R) == {KEY: "HEALTHY"}
    world.revoked.add(serial(identity))
    world.run(6)
    assert not world.taken().is_verified
    world.run(22)  # its endpoint answers probes, which puts off each step of its silence once
    assert world.listed(R) == {KEY: str(HealthStatus.UNHEALTHY)}
    world.run(35)
    assert not world.is_listed()


@pytest.mark.spec("SDP-certificate-name")
def test_a_registration_in_the_name_of_another_agent_is_refused():
    world = World()
    world.offers(certified())
    before = world.taken()
    assert world.offers(center().issue(agents=["agent-666"]), EVIL, AGENT) == set()
    assert world.taken().registration == before.registration
    assert world.taken().host == A


@pytest.mark.spec("SDP-endpoint-source")
@pytest.mark.parametrize("host", [A, "fd00::1", "printer.local"])
def test_a_registration_of_a_stolen_endpoint_is_refused(host):
    world = World()
    identity = center().issue(agents=["agent-666"])
    assert world.offers(identity, EVIL, "agent-666", endpoint=Endpoint(host, 8080)) == {Outcome.INVALID}
    assert not world.is_listed(("agent-666", SKILL))
    allowed = center().issue(agents=["agent-667"], hosts=["192.168.1.101"])
    place = Endpoint("192.168.1.101", 8080)
    assert world.offers(allowed, "192.168.1.67", "agent-667", endpoint=place) == {Outcome.SUCCESS}


@pytest.mark.spec("SDP-endpoint-source")
def test_a_registration_is_refused_for_an_address_that_does_not_answer_the_challenge():
    world = World()
    identity = certified()
    data = encode_signed(registration(at=AT, endpoint=Endpoint("192.168.1.200", 8080)), identity.sign)
    assert world.forge(data, "192.168.1.200") == {"held"}
    world.run(3)
    assert not world.is_listed()


@pytest.mark.spec("SDP-key-stays")
def test_a_registration_by_a_key_that_nobody_certified_does_not_replace_a_certified_one():
    world = World(strangers=True)
    world.offers(certified())
    assert world.offers(self_signed(AGENT, new_key(), NOW), EVIL) <= {Outcome.UNAUTHORIZED}
    listed = world.taken()
    assert (listed.host, listed.is_verified) == (A, True)


@pytest.mark.spec("SDP-signature")
def test_a_goodbye_and_a_beat_by_another_key_change_nothing():
    world = World()
    world.offers(certified())
    at, evil = int(world.moment(R).wall * 1000), self_signed(AGENT, new_key(), NOW)
    assert world.forge(encode_signed(m.Unregister(AGENT, SKILL, Reason.ERROR, at), evil.sign)) == {"forged"}
    beat = m.Heartbeat(AGENT, SKILL, HealthStatus.OFFLINE, at)
    assert world.forge(encode_signed(beat, evil.sign)) == {"forged"}
    assert world.listed(R) == {KEY: "HEALTHY"}


@pytest.mark.spec("SDP-register-status")
@pytest.mark.parametrize(("skew", "said"), [(-300, "300 s behind ours"), (300, "300 s ahead of ours")])
def test_whose_clock_is_wrong_is_told_so(skew, said):
    world = World()
    world.node(A, OFFERS, agent_id=AGENT, identity=certified(), authority=world.authority, skew=skew)
    world.offer(A, SKILL)
    world.run(3)
    (told,) = {(ack.status, ack.message) for ack in world.events(Acknowledged, A)}
    assert told == (Outcome.INVALID, f"its clock is {said}, and up to 30 s count")
    assert not world.is_listed()


@pytest.mark.spec("SDP-register-status")
def test_who_is_refused_is_told_why():
    world = World(strangers=True)
    world.offers(certified())
    world.offers(certified(start=-8), "192.168.1.7", "agent-007")
    world.offers(self_signed(AGENT, new_key(), NOW), EVIL)
    told = {host: {ack.message for ack in world.events(Acknowledged, host)} for host in ("192.168.1.7", EVIL)}
    assert told["192.168.1.7"] == {"the certificate is refused: it has expired"}
    assert told[EVIL] <= {"another key has this name", "another key is certified"}


@pytest.mark.spec("SDP-register-status")
@pytest.mark.parametrize(
    ("identity", "why"),
    [
        (revoked, "its key was revoked"),
        (lambda _: certified(start=1, days=7), "it is not valid yet"),
        (lambda _: center().issue(agents=["agent-009"]), "it names another agent"),
        (
            lambda _: Issuer("SkillCenter CA", Issuer("Root CA")).issue(agents=[AGENT]),
            "it leads to no root that is trusted here",
        ),
        (lambda _: certified(key=ec.generate_private_key(ec.SECP384R1())), "it cannot be read, or its key is on"),
    ],
)
def test_whose_certificate_is_refused_is_told_what_is_wrong_with_it(identity, why):
    world = World()
    world.offers(identity(world))
    (told,) = {ack.message for ack in world.events(Acknowledged, A)}
    assert told.startswith(f"the certificate is refused: {why}")


def registers(world, data):
    """Let a provider that knows only the text register; return the acknowledgments, and what is reported."""
    sent = world.sent_from(R)
    world.inject(data, Peer(EVIL, 40_000), R)
    world.run(11)
    acks = [one for to, data in sent if to and isinstance(one := decode(data), m.RegisterAck)]
    assert sum(len(one) for to, one in sent if to) <= 3 * len(data)
    return [(ack.agent_id, ack.status, ack.message) for ack in acks], world.events(Refused)


@pytest.mark.spec("SDP-register-status")
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (";0.7.0;", ";v0.7.0;", "not a version: 'v0.7.0'"),
        (";tool-skill;", ";robot-skill;", "not one of enterprise-skill, tool-skill, integration-skill, "),
        (f";{EVIL}:80;", f";http://{EVIL}/;", f"not an endpoint: 'http://{EVIL}/'"),
        (";tool-skill;", ";", "SKILL_REGISTER with a wrong number of fields"),
        (";auth;", f";{'x' * 1200};", "a datagram of 1"),
    ],
)
def test_a_malformed_registration_is_invalid_and_reported_once(old, new, why):
    world = World()
    data = encode_signed(registration(skill_type=m.SkillType.TOOL, endpoint=Endpoint(EVIL, 80)), certified().sign)
    assert old.encode() in data
    bad = data.replace(old.encode(), new.encode())
    for _ in range(3):
        acks, reported = registers(world, bad)
        ((agent, status, message),) = acks
        assert (agent, status) == (AGENT, Outcome.INVALID)
        assert message.startswith(f"{SKILL} {why}")
    (refused,) = reported
    assert (refused.by.host, refused.agent_id, refused.skill_id) == (EVIL, AGENT, SKILL)
    assert refused.reason.startswith(why)


@pytest.mark.spec("SDP-register-status")
def test_a_registration_by_no_identifier_is_reported_and_not_answered():
    acks, reported = registers(World(), b"SKILL_REGISTER:agent 001;skill;1.0.0")
    assert acks == []
    assert [(one.agent_id, one.skill_id, one.status) for one in reported] == [("", "skill", Outcome.INVALID)]


@pytest.mark.spec("SDP-register-status")
def test_a_registration_whose_challenge_is_not_answered_is_unauthorized_and_reported_once():
    world = World()
    for _ in range(2):
        data = encode_signed(registration(at=int(world.moment(R).wall * 1000)), certified().sign)
        acks, reported = registers(world, data)
        assert acks == [(AGENT, Outcome.UNAUTHORIZED, f"{SKILL} no answer to the challenge")]
    assert [(one.by.host, one.reason) for one in reported] == [(EVIL, "no answer to the challenge")]
    assert world.stopped["unanswered"] == 2
    assert not world.is_listed()
    world.offers(certified())
    world.run(30)
    assert {ack.status for ack in world.events(Acknowledged, A)} == {Outcome.SUCCESS}, (
        "who answers is not refused later"
    )


@pytest.mark.spec("SDP-register-status")
def test_what_is_forged_is_answered_to_nobody():
    world = World()
    world.offers(certified())
    before = len(world.events(Acknowledged, A))
    at = int(world.moment(R).wall * 1000)
    world.forge(encode_signed(registration(at=at), self_signed(AGENT, new_key(), NOW).sign), A)
    world.run(2)
    assert len(world.events(Acknowledged, A)) == before


A, B, C = "192.168.1.100", "192.168.1.101", "192.168.1.102"
OURS, OTHER = GroupKey(b"a secret that all of us share"), GroupKey(b"a secret of somebody else's")


def own_key(agent_id):
    return {"identity": self_signed(agent_id, new_key(), NOW), "authority": ChainAuthority(Chain([], []))}


def network(others):
    """Let two agents and one that is set up otherwise speak for a while; return what each was told of whom."""
    lan = Lan()
    for host, options in ((A, {}), (B, {}), (C, others)):
        lan.node(host, REGISTRY, OFFERS, ASKS, **options)
        lan.offer(host, f"skill-at-{host.rpartition('.')[2]}")
    lan.run(30)
    return lan, {
        (host, event.by.host, event.difference) for _, host, event in lan.told if isinstance(event, PeerMismatch)
    }


@pytest.mark.spec("SDP-mismatch")
def test_another_profile_is_told_on_both_sides():
    lan, told = network({"profile": Profile.SIGNED})
    for host in (A, B):
        assert (host, C, "speaks the profile signed, and we open") in told
        assert (C, host, "speaks the profile open, and we signed") in told
        assert lan.nodes[host].ingress.stopped["another profile"]
        assert not lan.nodes[host].ingress.stopped["malformed"]
    assert len(told) == len(lan.events(PeerMismatch))


@pytest.mark.spec("SDP-mismatch")
@pytest.mark.parametrize(
    ("others", "seen", "sees"),
    [
        (
            {"identity": OTHER, "authority": OTHER},
            "signs with another group key than we",
            "signs with another group key than we",
        ),
        (
            own_key("agent-192.168.1.102"),
            "signs with a key of its own, and we with a group key",
            "signs with a group key, and we have none",
        ),
    ],
)
def test_another_group_key_is_told_on_both_sides(others, seen, sees):
    lan, told = network(others)
    for host in (A, B):
        assert {(host, C, seen), (C, host, sees)} <= told
        assert lan.nodes[host].ingress.stopped["another group key"]
        assert not lan.nodes[host].ingress.stopped["forged"]
        assert {key[1] for key in lan.listed(host)} == {"skill-at-100", "skill-at-101"}
    assert len(told) == len(lan.events(PeerMismatch))


@pytest.mark.spec("SDP-mismatch")
@pytest.mark.parametrize("theirs", [(key, profile) for key in ("own", "group", "other") for profile in Profile])
@pytest.mark.parametrize("ours", [(key, profile) for key in ("own", "group") for profile in Profile])
def test_a_search_names_who_is_set_up_otherwise_before_a_heartbeat_comes(ours, theirs):
    lan = Lan()
    keys = {"own": own_key, "group": lambda _: {}, "other": lambda _: {"identity": OTHER, "authority": OTHER}}
    for (key, profile), host, roles in ((theirs, A, (REGISTRY, OFFERS)), (ours, B, (ASKS,))):
        lan.node(host, *roles, profile=profile, **keys[key](f"agent-{host}"))
    lan.offer(A, "skill-a")
    lan.run(2)
    lan.do(B, lambda node, now: node.searches.discover(now))
    lan.run(2)
    assert {event.by.host for event in lan.events(PeerMismatch, B)} == ({A} if theirs != ours else set())


@pytest.mark.spec("SDP-mismatch")
def test_made_up_hosts_are_reported_at_most_16_times_and_rubbish_never():
    lan = Lan()
    ingress = lan.node(A).ingress
    data = encode_signed(m.Heartbeat("agent-x", "skill", HealthStatus.HEALTHY, AT), OTHER.sign)
    for number in range(1000):
        ingress.accept(data, Peer(f"10.0.{number // 256}.{number % 256}", 1), lan.moment(A))
        for rubbish in (b"\xff" * 100, b"UNKNOWN:1;2"):
            ingress.accept(rubbish, Peer(f"10.1.{number // 256}.{number % 256}", 1), lan.moment(A))
    assert len(ingress.events) == 16
    assert ingress.stopped["malformed"] == 1000
    assert ingress.stopped["unknown type"] == 1000


def test_agents_that_are_set_up_alike_are_told_nothing():
    assert not network({})[1]
