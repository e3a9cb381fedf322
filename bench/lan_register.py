"""Verified registrations beside the bare verify call: ``python bench/lan_register.py [ROUNDS]``.

Ours is the whole path of a datagram through a node: rate, form, replay, key, signature, registry, acknowledgment. As in
the driver, all received datagrams are processed before the node sends and notifies. The peer is the minimum of any
implementation: ECDSA P-256 over the same bytes, by ``cryptography``, with the signature decoded before. Both run on one
core, in turns, over the same signed datagrams of one agent with a known key.
"""

from __future__ import annotations

import base64
import sys
import time
from datetime import UTC, datetime
from random import Random
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from comparison import Goal, compare
from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import encode_signed, signed_part
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.protocols.skill_discovery.node import DiscoveryNode, Role
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.server.run import keep_what_is_loaded
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import EcdsaIdentity, new_key, self_signed
from skillwire.wire.node import Peer

ROUNDS: Final = 7
DATAGRAMS: Final = int(limits.LAN_SKILLS_PER_AGENT)
#: Of 200 a second, as fast as an agent registers, in the pause of a driver.
AT_ONCE: Final = 10
#: Of each in turn, some milliseconds long: what else a machine does meets both.
TURN: Final = 100
HOST: Final = Peer("192.168.1.100", 40_000)


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    key = new_key()
    wall = time.time()
    identity = self_signed("agent-001", key, datetime.fromtimestamp(wall, UTC))
    datagrams = [_registration(number, int(wall * 1000), identity) for number in range(DATAGRAMS)]
    checks = [(base64.b64decode(data.rpartition(b";")[2]), signed_part(data)) for data in datagrams]
    keep_what_is_loaded()  # as a server does when it has started
    ours, bare = zip(*[_round(datagrams, checks, identity, wall) for _ in range(rounds)], strict=True)
    goal = Goal("at least", 0.6)
    compare("LAN: verified registrations", ours, bare, goal, peer="the bare verify call", unit="/s")


def _registration(number: int, at: int, identity: EcdsaIdentity) -> bytes:
    endpoint = m.Endpoint(HOST.host, 8080)
    both = ("org-data-read", "user-auth")
    facts = ("0.7.0", m.SkillType.ENTERPRISE, endpoint, both, ("auth",), at)
    return encode_signed(m.Register("agent-001", f"skill-org-feishu-{number}", *facts), identity.sign)


def _round(
    datagrams: list[bytes], checks: list[tuple[bytes, bytes]], identity: EcdsaIdentity, wall: float
) -> tuple[float, float]:
    """Return how many a second a node registers that knows the key, and how many are verified, some at a time each."""
    node = DiscoveryNode(
        "registry",
        identity=identity,
        authority=ChainAuthority(Chain()),
        random=Random(1),  # noqa: S311 - nothing is secret here
        roles=frozenset({Role.MCP_AGENT}),
        settings=DiscoverySettings(rate=1e9, burst=1e9),
    )
    judgement = ChainAuthority(Chain()).judge("agent-001", identity.certificate, wall)
    assert judgement
    node.ring.learn("agent-001", judgement, HOST, 0.0)
    ours = bare = 0.0
    for number in range(0, len(datagrams), TURN):
        turn = slice(number, number + TURN)
        ours += _register(node, datagrams[turn], Moment(wall, number / 1e6))
        bare += _verify(checks[turn], identity.key.public_key())
    assert len(node.registry) == DATAGRAMS
    return DATAGRAMS / ours, DATAGRAMS / bare


def _register(node: DiscoveryNode, datagrams: list[bytes], now: Moment) -> float:
    """Return the processor seconds that a node takes for registrations."""
    begin = time.process_time()
    for number in range(0, len(datagrams), AT_ONCE):
        for data in datagrams[number : number + AT_ONCE]:
            node.receive(data, HOST, now)
        node.datagrams_to_send(now)
        node.events(now)
        node.timer()
    return time.process_time() - begin


def _verify(checks: list[tuple[bytes, bytes]], key: ec.EllipticCurvePublicKey) -> float:
    """Return the processor seconds that verifying takes."""
    algorithm = ec.ECDSA(hashes.SHA256())
    begin = time.process_time()
    for signature, data in checks:
        key.verify(signature, data, algorithm)
    return time.process_time() - begin


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
