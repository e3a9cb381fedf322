"""Every document of Skill Sharing in the corpus comes out as its expectation says."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from skillwire.errors import ValidationError
from skillwire.protocols.skill_sharing.codec import decode_descriptor, decode_index

FOLDER = Path(__file__).parent / "documents"
INDEXES = json.loads((FOLDER / "skill-sharing-index.json").read_text())
DESCRIPTORS = json.loads((FOLDER / "descriptor.json").read_text())
INDEX_URL = "https://example.com/.well-known/skill-sharing"
DESCRIPTOR_URL = "https://example.com/skills/forecast.json"

#: Which of our codes are of each class that the corpus names.
CLASSES = {"PROTOCOL_VERSION": "VERSION_INCOMPATIBLE", "FIELD": "FIELD", "DESCRIPTOR": "DESCRIPTOR"}
GOOD: dict[str, Any] = {
    "protocol": {"version": "1.0.0"},
    "id": "example/forecast",
    "name": "Forecast",
    "version": "1.0.0",
    "capability_type": "api",
    "description": "Tells the weather.",
    "provider": {"name": "Example"},
    "endpoint": {"url": "https://example.com/invoke", "method": "POST"},
    "inputs": [{"name": "place", "type": "string", "description": "Where.", "required": True}],
    "output": {"content_type": "application/json"},
    "auth": {"type": "none"},
    "access": "public",
}


def ids(case):
    return case["id"]


@pytest.mark.parametrize("case", INDEXES, ids=ids)
def test_index(case):
    (code,) = {CLASSES[code] for code in case["codes"]}
    if case["expect"] == "reject":
        with pytest.raises(ValidationError) as caught:
            decode_index(case["data"].encode(), INDEX_URL)
        assert caught.value.code == code
        return
    assert case["expect"] == "skip"
    index = decode_index(case["data"].encode(), INDEX_URL)
    (finding,) = index.findings
    assert (finding.code, len(index.entries)) == (code, len(json.loads(case["data"])["skills"]) - 1)
    assert finding.fix


@pytest.mark.parametrize("case", DESCRIPTORS, ids=ids)
def test_fragment_alone_is_no_descriptor(case):
    with pytest.raises(ValidationError) as caught:
        decode_descriptor(case["data"].encode(), DESCRIPTOR_URL)
    assert caught.value.code == "VALIDATION_ERROR"


@pytest.mark.parametrize("case", DESCRIPTORS, ids=ids)
def test_descriptor_that_is_good_but_for_the_danger(case):
    document = copy.deepcopy(GOOD)
    decode_descriptor(json.dumps(document).encode(), DESCRIPTOR_URL)
    fragment = json.loads(case["data"])
    if "input" in fragment:
        document["inputs"][0]["schema"] = fragment["input"]
    if "invocation" in fragment:
        document["endpoint"] |= fragment["invocation"]
    if "auth" in fragment:
        document["auth"] = fragment["auth"]
        document["auth"]["oauth2"] |= {"authorization_url": "https://example.com/authorize", "scopes": {}}
    with pytest.raises(ValidationError) as caught:
        decode_descriptor(json.dumps(document).encode(), DESCRIPTOR_URL)
    assert caught.value.code == CLASSES[case["codes"][0]]
