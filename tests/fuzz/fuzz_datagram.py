"""Fuzz the reader of datagrams: ``python tests/fuzz/fuzz_datagram.py [CORPUS] [-max_total_time=60]``.

Seeds are the datagrams of the corpus that fit into one.
"""

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import documents, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire import limits
    from skillwire.errors import DecodeError
    from skillwire.protocols.skill_discovery.codec import SHAPES, decode, encode
    from skillwire.protocols.skill_discovery.messages import Profile, Unknown


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Decode ``data``; only ``DecodeError`` may come out, and a message must be one that can be sent."""
    for profile in Profile:
        try:
            message = decode(data, profile)
        except DecodeError:
            continue
        if not isinstance(message, Unknown):
            assert decode(encode(message, profile), profile) == message


if __name__ == "__main__":
    most = int(limits.DATAGRAM_BYTES)
    seeds = documents("datagram", max_bytes=most) | {name: f"{name}:a;s;1;SIG".encode() for name in SHAPES}
    fuzz("datagram", TestOneInput, seeds, max_bytes=most)
