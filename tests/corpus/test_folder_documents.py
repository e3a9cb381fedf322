"""The corpus of hostile and benign documents: frontmatter, skill.toml and text, each within 1 s and 150 MB."""

import base64
import json
import tracemalloc
from pathlib import Path

import pytest

from skillwire.errors import DecodeError, SkillwireError, ValidationError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.manifest import parse_manifest
from skillwire.trust.hidden_text import find_hidden, neutralise

BYTES = 150_000_000

#: The corpus names classes of errors; these are our codes for each.
CODES = {
    "YAML_ALIAS": {"YAML_ALIAS"},
    "YAML_TAG": {"YAML_TAG"},
    "YAML_DEPTH": {"YAML_DEPTH", "YAML_SYNTAX"},  # libyaml refuses "- -" behind a key before it is deep
    "YAML_SYNTAX": {"YAML_SYNTAX"},
    "LIMIT_SIZE": {"LIMIT_SIZE"},
    "LIMIT_ENTRIES": {"LIMIT_ENTRIES"},
    "FRONTMATTER": {"FRONTMATTER", "YAML_SYNTAX"},
    "ENCODING": {"ENCODING"},
    "FIELD": {"FIELD", "NAME_FORM", "DESCRIPTION_FORM"},
    "NAME": {"NAME_FORM"},
    "TOML_SYNTAX": {"TOML_SYNTAX", "TOML_NUMBER"},
    "TOML_DEPTH": {"TOML_DEPTH", "LIMIT_SIZE"},  # a line too long for its key path to be looked at
    "NUMBER": {"TOML_NUMBER"},
    "ENTRYPOINT": {"ENTRYPOINT"},
    "EXPORT": {"EXPORT"},
    "PERMISSION_NETWORK": {"PERMISSION_NETWORK"},
    "PERMISSION_SECRET": {"PERMISSION_SECRET"},
}


def cases(kind):
    rows = json.loads((Path(__file__).parent / "documents" / f"{kind}.json").read_text())
    return [pytest.param(row, id=row["id"]) for row in rows]


def content(case):
    return base64.b64decode(case["b64"]) if "b64" in case else case["data"].encode()


@pytest.fixture(autouse=True)
def _within_bounds():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= BYTES


def fits(error, case):
    return isinstance(error, DecodeError | ValidationError) and any(error.code in CODES[code] for code in case["codes"])


@pytest.mark.parametrize("case", cases("frontmatter"))
def test_frontmatter(case):
    if case["expect"] == "reject":
        with pytest.raises(SkillwireError) as caught:
            parse_skill_md(content(case))
        assert fits(caught.value, case)
        return
    skill = parse_skill_md(content(case))
    hidden = find_hidden(skill.description + skill.body)
    assert bool(hidden) is (case["expect"] == "neutralise")
    assert find_hidden(neutralise(skill.description) + neutralise(skill.body)) == []


def test_words_stay_strings():
    [case] = [case.values[0] for case in cases("frontmatter") if case.id == "words-stay-strings"]
    skill = parse_skill_md(content(case))
    assert (skill.name, skill.description, skill.fields["version"]) == ("no", "12:30:45", "2026-01-01")


@pytest.mark.parametrize("case", cases("skill-toml"))
def test_skill_toml(case):
    if case["expect"] == "reject":
        with pytest.raises(SkillwireError) as caught:
            parse_manifest(content(case))
        assert fits(caught.value, case)
    else:
        assert parse_manifest(content(case)).name == "a.b"


@pytest.mark.parametrize("case", cases("text"))
def test_text(case):
    text = case["data"]
    if case["expect"] == "accept":
        assert neutralise(text) == text
    else:
        assert find_hidden(text)
        assert find_hidden(neutralise(text)) == []
