"""Fuzz the reader of datagrams: ``python tests/fuzz/fuzz_datagram.py [CORPUS] [-max_total_time=60]``.

Seeds are the datagrams of the corpus that fit into one.
"""

import base64
import json

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import TESTS, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire import limits
    from skillwire.errors import DecodeError
    from skillwire.protocols.skill_discovery.codec import SHAPES, decode, encode
    from skillwire.protocols.skill_discovery.messages import Profile, Unknown

CASES = TESTS / "corpus" / "documents" / "datagram.json"


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Decode ``data``; only ``DecodeError`` may come out, and a message must be one that can be sent."""
    for profile in Profile:
        try:
            message = decode(data, profile)
        except DecodeError:
            continue
        if not isinstance(message, Unknown):
            assert decode(encode(message, profile), profile) == message


def seeds() -> dict[str, bytes]:
    """Return the datagrams of the corpus by number, and a beginning of each type."""
    cases = json.loads(CASES.read_text())
    contents = [base64.b64decode(case["b64"]) if "b64" in case else case["data"].encode() for case in cases]
    contents += [f"{name}:a;s;1;SIG".encode() for name in SHAPES]
    return {f"{number}": content for number, content in enumerate(contents) if len(content) <= limits.DATAGRAM_BYTES}


if __name__ == "__main__":
    fuzz("datagram", TestOneInput, seeds(), max_bytes=int(limits.DATAGRAM_BYTES))
