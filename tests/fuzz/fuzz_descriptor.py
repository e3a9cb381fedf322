"""Fuzz the reader of Skill Descriptors: ``python tests/fuzz/fuzz_descriptor.py [CORPUS] [-max_total_time=60]``.

The first byte chooses between a descriptor and an index. Seeds are the example's descriptor, a small one, and the
index documents of the corpus.
"""

import json

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import TESTS, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire.errors import DecodeError, TrustError, ValidationError
    from skillwire.model.url import parse_url
    from skillwire.protocols.skill_sharing.codec import decode_descriptor, decode_index
    from skillwire.protocols.skill_sharing.validation import parse, serialize
    from skillwire.trust.hidden_text import find_hidden

URL = "https://example.com/skills/forecast.json"
SMALL = {
    "protocol": {"version": "1.0.0"},
    "id": "example/a",
    "name": "A",
    "version": "1.0.0",
    "capability_type": "api",
    "description": "d",
    "provider": {"name": "P"},
    "endpoint": {
        "url": "https://example.com/i",
        "method": "POST",
        "status_url": "https://example.com/s/{execution_id}",
        "retry": {"max_attempts": 1, "backoff_ms": 0},
    },
    "inputs": [
        {
            "name": "a",
            "type": "string",
            "description": "d",
            "required": True,
            "default": "x",
            "schema": {"pattern": "a+"},
        }
    ],
    "output": {"content_type": "a/b", "schema": {"$ref": "#", "properties": {"p": {"enum": [1]}}}},
    "auth": {
        "type": "oauth2",
        "oauth2": {"authorization_url": "https://example.com/a", "token_url": "https://example.com/t", "scopes": {}},
    },
    "access": "public",
}


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Decode ``data``; only the three errors may come out, and what was taken must be fit for use."""
    try:
        if data[:1] == b"i":
            index = decode_index(data[1:], URL)
            for identifier, entry in index.entries.items():
                assert identifier == entry.id
                assert not find_hidden(entry.description + entry.name)
                parse_url(entry.descriptor_url)
            return
        descriptor = decode_descriptor(data[1:], URL)
    except (DecodeError, ValidationError, TrustError):
        return
    assert parse(json.loads(serialize(descriptor))) == descriptor
    parse_url(descriptor.endpoint.url)
    assert not find_hidden(descriptor.description)


def seeds() -> dict[str, bytes]:
    cases = json.loads((TESTS / "corpus" / "documents" / "skill-sharing-index.json").read_text())
    example = TESTS.parent / "examples" / "skills" / "weather-forecast" / "descriptor.json"
    found = {f"index-{number}": b"i" + case["data"].encode() for number, case in enumerate(cases)}
    return {**found, "small": b"d" + json.dumps(SMALL).encode(), "example": b"d" + example.read_bytes()}


if __name__ == "__main__":
    fuzz("descriptor", TestOneInput, seeds(), max_bytes=8192)
