"""Every index document of the corpus comes out as its expectation says."""

import base64
import json
from pathlib import Path

import pytest

from skillwire.errors import DecodeError, SkillwireError, TrustError, ValidationError
from skillwire.protocols.agent_skills.decoder import decode_index
from skillwire.trust.hidden_text import find_hidden

CASES = json.loads((Path(__file__).parent / "documents" / "agent-skills-index.json").read_text())
INDEX_URL = "https://example.com/.well-known/agent-skills/index.json"

#: Which of our codes are of each class that the corpus names.
CLASSES = {
    "JSON_DEPTH": {"JSON_DEPTH"},
    "JSON_DUPLICATE_KEY": {"JSON_DUPLICATE_KEY"},
    "JSON_SYNTAX": {"JSON_SYNTAX"},
    "JSON_NUMBER": {"JSON_NUMBER"},
    "JSON_UNICODE": {"JSON_UNICODE"},
    "INDEX_SHAPE": {"INDEX_SHAPE"},
    "LIMIT_ENTRIES": {"INDEX_ENTRIES", "LIMIT_ENTRIES"},
    "LIMIT_SIZE": {"LIMIT_SIZE"},
    "NAME_DUPLICATE": {"NAME_DUPLICATE"},
    "NAME": {"NAME_FORM"},
    "DIGEST": {"DIGEST_FORM"},
    "URL": {"URL"},
    "TYPE": {"ARTIFACT_TYPE_UNKNOWN"},
    "DESCRIPTION": {"DESCRIPTION_FORM"},
    "HIDDEN_TEXT": {"HIDDEN_TEXT"},
}


def content(case):
    return base64.b64decode(case["b64"]) if "b64" in case else case["data"].encode()


def fitting(case):
    return set().union(*(CLASSES[code] for code in case.get("codes", ())))


def of(expect):
    cases = [case for case in CASES if case["expect"] == expect]
    assert cases
    return pytest.mark.parametrize("case", cases, ids=lambda case: case["id"])


@of("accept")
def test_accepted(case):
    index = decode_index(content(case), INDEX_URL)
    assert len(index.entries) == 1
    assert not index.findings


@of("reject")
def test_rejected_with_a_fitting_code(case):
    with pytest.raises((DecodeError, ValidationError, TrustError)) as caught:
        decode_index(content(case), INDEX_URL)
    assert caught.value.code in fitting(case)


@of("skip")
def test_bad_entry_is_skipped_saying_why_and_the_others_work(case):
    index = decode_index(content(case), INDEX_URL)
    entries = json.loads(content(case))["skills"]
    assert len(index.entries) == len(entries) - 1
    (finding,) = index.findings
    assert finding.code in fitting(case)
    assert finding.place.source.startswith(INDEX_URL)
    assert finding.fix


@of("neutralise")
def test_hidden_text_is_shown_never_handed_on(case):
    index = decode_index(content(case), INDEX_URL)
    (entry,) = index.entries.values()
    assert not find_hidden(entry.description)
    assert {finding.code for finding in index.findings} == {"HIDDEN_TEXT"}


def test_errors_are_ours_alone():
    for case in CASES:
        try:
            decode_index(content(case), INDEX_URL)
        except SkillwireError:
            continue
