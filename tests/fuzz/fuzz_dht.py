"""Fuzz a node of the DHT and its reader of records: ``python tests/fuzz/fuzz_dht.py [CORPUS] [-max_total_time=60]``.

Seeds are one message of each type and a record.
"""

from itertools import count
from random import Random

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire import limits
    from skillwire.errors import DecodeError, TrustError
    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.dht import messages as m
    from skillwire.protocols.skill_discovery.dht.node import DhtNode
    from skillwire.protocols.skill_discovery.dht.records import DhtOffer, read_record, sign_record
    from skillwire.protocols.skill_discovery.identity import GroupKey
    from skillwire.wire.node import Peer

NOW = Moment(1_707_868_800.0, 0.0)
KEY = GroupKey(b"a secret that all of us share")
SOURCE = Peer("10.0.0.9", 6881)
NODE = DhtNode("agent-a", identity=KEY, authority=KEY, random=Random(1))  # noqa: S311 - an input has to crash again
RECORD = sign_record(DhtOffer("skill-a", "1.0.0", "tool-skill", "http://10.0.0.9/"), "b", KEY, int(NOW.wall * 1000))
SECONDS = count()
HEAD = bytes(8), bytes(32), 0
CONTACTS = [(bytes(32), bytes(4), 6881)]


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Give ``data`` to a node, which takes anything; read it as a record, which raises two errors alone."""
    now = Moment(NOW.wall, float(next(SECONDS)))  # the rate of a source allows some requests a second
    NODE.receive(data, SOURCE, now)
    NODE.on_timer(now)
    for datagram in NODE.datagrams_to_send(now):
        assert datagram.to == SOURCE
    try:
        assert read_record(data, KEY, NOW).data == data
    except (DecodeError, TrustError):
        return


if __name__ == "__main__":
    messages = (
        m.Hello(*HEAD, bytes(16)),
        m.Welcome(*HEAD, "a", b"", b""),
        m.Find(*HEAD, bytes(32), True, 0),
        m.Found(*HEAD, CONTACTS, 1, 0, RECORD),
        m.Store(*HEAD, bytes(32), RECORD),
        m.Stored(*HEAD, "stored", CONTACTS),
    )
    seeds = {type(message).__name__: m.encode(message) for message in messages} | {"record": RECORD}
    fuzz("dht", TestOneInput, seeds, max_bytes=int(limits.DATAGRAM_BYTES))
