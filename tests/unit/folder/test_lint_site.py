"""Rules about an index and the site around it."""

import hashlib
import json

import pytest

from skillwire.folder.lint.site import SCHEMA_URI, examine_index, find_indexes
from skillwire.protocols.agent_skills import messages

SKILL_MD = b"---\nname: demo\ndescription: d\n---\n# B\n"
DIGEST = "sha256:" + hashlib.sha256(SKILL_MD).hexdigest()
ENTRY = {"name": "demo", "type": "skill-md", "description": "d", "url": "demo/SKILL.md", "digest": DIGEST}


def site(root, *entries, schema=SCHEMA_URI, content=SKILL_MD):
    index = root / ".well-known/agent-skills/index.json"
    (index.parent / "demo").mkdir(parents=True)
    (index.parent / "demo/SKILL.md").write_bytes(content)
    document = {"$schema": schema, "skills": list(entries)}
    index.write_text(json.dumps({key: value for key, value in document.items() if value is not None}, indent=1))
    return index


def found(index, level="strict"):
    return [f"{one.level} {one.code} {one.place.line}" for one in examine_index(index, level=level)]


def test_the_schema_is_the_one_that_the_protocol_names():
    assert SCHEMA_URI == messages.SCHEMA_URI


@pytest.mark.parametrize(
    "url",
    ["demo/SKILL.md", "/.well-known/agent-skills/demo/SKILL.md", "./demo/SKILL%2emd", "../agent-skills/demo/SKILL.md"],
)
def test_a_good_site(tmp_path, url):
    assert found(site(tmp_path, {**ENTRY, "url": url})) == []


def test_archives_are_hashed(tmp_path):
    index = site(
        tmp_path,
        {**ENTRY, "type": "archive", "url": "/demo.zip", "digest": f"sha256:{hashlib.sha256(b'x').hexdigest()}"},
    )
    (tmp_path / "demo.zip").write_bytes(b"x")
    assert found(index) == []


@pytest.mark.parametrize(
    ("entry", "finding"),
    [
        ({"name": "A b"}, "INDEX_ENTRY 5"),
        ({"name": None}, "INDEX_ENTRY 5"),
        ({"type": "wasm"}, "INDEX_TYPE 6"),
        ({"type": ["skill-md"]}, "INDEX_TYPE 6"),
        ({"description": ""}, "INDEX_ENTRY 7"),
        ({"description": "d" * 1025}, "INDEX_ENTRY 7"),
        ({"description": "a\u202eb"}, "HIDDEN_CHARACTERS 7"),
        ({"url": "javascript:alert(1)"}, "INDEX_ENTRY 8"),
        ({"url": "//"}, "INDEX_ENTRY 8"),
        ({"url": "http://[::1"}, "INDEX_ENTRY 8"),
        ({"url": 5}, "INDEX_ENTRY 8"),
        ({"url": "other/SKILL.md"}, "ARTIFACT_ABSENT 8"),
        ({"url": "/%2e%2e/%2e%2e/etc/passwd"}, "ARTIFACT_ABSENT 8"),
        ({"url": "demo%00/SKILL.md"}, "ARTIFACT_ABSENT 8"),
        ({"digest": DIGEST.upper()}, "INDEX_DIGEST 9"),
        ({"digest": DIGEST.replace(":", "-")}, "INDEX_DIGEST 9"),
        ({"digest": "sha256:" + "0" * 64}, "ARTIFACT_DIGEST 9"),
        ({"name": "other"}, "INDEX_ENTRY 5"),
    ],
)
def test_a_fault_in_an_entry(tmp_path, entry, finding):
    assert found(site(tmp_path, {**ENTRY, **entry})) == [f"error {finding}"]


def test_a_missing_field_is_told_at_its_entry(tmp_path):
    assert found(site(tmp_path, {key: value for key, value in ENTRY.items() if key != "digest"})) == [
        "error INDEX_DIGEST 4"
    ]


@pytest.mark.parametrize(
    "url",
    [
        "https://raw.githubusercontent.com/o/r/main/SKILL.md",
        "https://raw.githubusercontent.com/o/r/refs/heads/x/SKILL.md", "https://github.com/o/r/raw/master/SKILL.md",
        "https://github.com/o/r/archive/refs/heads/main.tar.gz", "https://github.com/o/r/archive/main.zip",
        "https://github.com/o/r/releases/latest/download/s.zip",
        "https://codeload.github.com/o/r/tar.gz/refs/heads/main", "https://gitlab.com/o/r/-/raw/main/SKILL.md",
        "https://codeberg.org/o/r/raw/branch/x/SKILL.md", "https://cdn.jsdelivr.net/gh/o/r/SKILL.md",
        "https://cdn.jsdelivr.net/npm/@o/p/SKILL.md", "https://unpkg.com/p/SKILL.md",
        "https://unpkg.com/p@latest/SKILL.md", "https://cdn.example.com/latest/s.zip",
    ],
)  # fmt: skip
def test_a_digest_of_a_mutable_url(tmp_path, url):
    assert found(site(tmp_path, {**ENTRY, "url": url})) == ["warning URL_MUTABLE 8"]


@pytest.mark.parametrize(
    "url",
    [
        "https://raw.githubusercontent.com/o/r/0123456789abcdef0123456789abcdef01234567/SKILL.md",
        "https://github.com/o/r/archive/refs/tags/v1.0.0.tar.gz",
        "https://github.com/o/r/releases/download/v1/s.zip",
        "https://cdn.jsdelivr.net/npm/p@1.0.0/SKILL.md",
        "https://unpkg.com/@o/p@1.0.0/SKILL.md",
        "https://cdn.example.com/main/s.zip",
    ],
)
def test_urls_that_stay(tmp_path, url):
    assert found(site(tmp_path, {**ENTRY, "url": url})) == []


@pytest.mark.parametrize(
    ("schema", "line"), [("https://schemas.agentskills.io/discovery/0.3.0/schema.json", 2), (5, 2), (None, 1)]
)
def test_the_wrong_schema(tmp_path, schema, line):
    index = site(tmp_path, ENTRY, schema=schema)
    assert found(index) == [f"error INDEX_SCHEMA {line}"]
    assert found(index, "lenient") == [f"warning INDEX_SCHEMA {line}"]


def test_a_name_twice(tmp_path):
    assert found(site(tmp_path, ENTRY, ENTRY)) == ["error INDEX_NAME_TWICE 12"]


def test_the_text_of_a_link_served_as_skill_md(tmp_path):
    content = b"../../shared/SKILL.md"
    entry = {**ENTRY, "digest": "sha256:" + hashlib.sha256(content).hexdigest()}
    assert found(site(tmp_path, entry, content=content)) == ["error SYMLINK_TEXT 8"]


def test_a_broken_skill_md_that_is_served(tmp_path):
    content = b"# no frontmatter\n"
    entry = {**ENTRY, "digest": "sha256:" + hashlib.sha256(content).hexdigest()}
    assert found(site(tmp_path, entry, content=content)) == ["error FRONTMATTER 1"]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("{", "JSON_SYNTAX 1"),
        ('{"skills": [], "skills": []}', "JSON_DUPLICATE_KEY 1"),
        ("[]", "INDEX_ENTRY 1"),
        ('{"skills": {}}', "INDEX_ENTRY 1"),
        (f'{{"$schema": "{SCHEMA_URI}", "skills": [5]}}', "INDEX_ENTRY 1"),
    ],
)
def test_what_is_no_index(tmp_path, text, finding):
    (tmp_path / "index.json").write_text(text)
    assert found(tmp_path / "index.json") == [f"error {finding}"]


def test_an_index_without_a_site_is_judged_alone(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"$schema": SCHEMA_URI, "skills": [ENTRY]}))
    assert found(tmp_path / "index.json") == []


def test_an_index_of_0_1_0(tmp_path):
    index = tmp_path / ".well-known/skills/index.json"
    (index.parent / "demo").mkdir(parents=True)
    (index.parent / "demo/SKILL.md").write_bytes(SKILL_MD)
    entries = [
        {"name": "demo", "description": "d", "files": ["SKILL.md"]},
        {"name": "gone", "description": "d", "files": ["SKILL.md", "a.md"]},
        {"name": "odd", "description": "d", "files": ["a.md"]},
    ]
    index.write_text(json.dumps({"skills": entries}, indent=1))
    assert found(index) == ["error ARTIFACT_ABSENT 14", "error ARTIFACT_ABSENT 15", "error INDEX_ENTRY 21"]


def test_indexes_are_found_in_a_site(tmp_path):
    index = site(tmp_path, ENTRY)
    assert find_indexes(tmp_path) == [index]
    assert find_indexes(index) == [index]
    assert find_indexes(index.parent / "demo/SKILL.md") == []
    assert find_indexes(index.parent) == []


def test_an_unreadable_index_is_a_finding(tmp_path):
    assert [finding.code for finding in examine_index(tmp_path / "absent.json")] == ["STORAGE"]


def test_many_faults_cost_little(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"$schema": SCHEMA_URI, "skills": [{"name": "A"}] * 20_000}))
    findings = examine_index(tmp_path / "index.json")
    assert len(findings) == 100_000
    assert findings[0].place.line == 1
    assert findings[-1].place.line is None
