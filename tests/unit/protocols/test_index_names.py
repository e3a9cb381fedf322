"""What a skill can do and takes part in stands in our index, comes back as it was, and is nothing where it is odd."""

from __future__ import annotations

import json

import pytest

from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.codec import decode_index, encode_index
from skillwire.protocols.agent_skills.messages import IndexEntry

BASE = "https://skills.example.com/.well-known/agent-skills/"
ENTRY = IndexEntry("staff", "Find people.", "skill-md", f"{BASE}staff.md", Digest.of(b"x"))


def read(data):
    [entry] = decode_index(data, f"{BASE}index.json").entries.values()
    return entry.capabilities, entry.scenes


def test_the_names_come_back():
    said = ENTRY._replace(capabilities=("org-data-read", "user-auth"), scenes=("auth",))
    assert read(encode_index([said])) == (("org-data-read", "user-auth"), ("auth",))
    assert b"scenes" not in encode_index([ENTRY])


@pytest.mark.parametrize("odd", ["auth", 7, None, {"auth": 1}, ["x"] * 1001, []])
def test_what_somebody_else_means_by_it_is_nothing(odd):
    document = json.loads(encode_index([ENTRY]))
    document["skills"][0] |= {"scenes": odd, "capabilities": [odd, "two words", "é", "well-formed"]}
    capabilities, scenes = read(json.dumps(document).encode())
    assert scenes == ()
    assert capabilities == (("auth", "well-formed") if odd == "auth" else ("well-formed",))
