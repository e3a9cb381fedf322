"""The schemas of skill.toml and SKILL.md know the fields that the readers read, and refuse what these refuse."""

import base64
import json
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from skillwire.errors import SkillwireError
from skillwire.folder.fields import Fields
from skillwire.folder.frontmatter import FIELDS, parse_skill_md
from skillwire.folder.load import check_folder
from skillwire.folder.manifest import read_manifest
from skillwire.folder.scaffold import _SCHEMA_PAGE
from skillwire.folder.schemas import SCHEMAS, schema_file

PROJECT = Path(__file__).parents[3]
MANIFEST, SKILL_MD = (jsonschema_rs.Draft202012Validator(SCHEMAS[name]) for name in ("skill.toml", "SKILL.md"))
_HTTP = 'kind = "action"\n[executor]\nkind = "http"\nurl = "https://api.example.com/"\n'


def _tables(schema, path=()):
    """Yield the path of each table with a fixed list of fields, and its fields; NAME stands for a free key."""
    for one in (schema, *schema.get("anyOf", ())):
        if one.get("additionalProperties") is False:
            yield path, set(one["properties"])
        for name, field in one.get("properties", {}).items():
            yield from _tables(field, (*path, name))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _tables(schema["additionalProperties"], (*path, "NAME"))


def test_the_schema_has_exactly_the_fields_that_the_reader_reads(monkeypatch):
    read: dict[tuple[str, ...], set[str]] = {}
    take = Fields._take

    def recorded(self, key, kind, form):
        read.setdefault(self.path, set()).add(key)
        return take(self, key, kind, form)

    monkeypatch.setattr(Fields, "_take", recorded)
    tables = dict(_tables(SCHEMAS["skill.toml"]))
    text = "".join(f"[{'.'.join(path)}]\nunheard = 1\n" for path in tables if path and path != ("executor",))
    manifest, _ = read_manifest(f"unheard = 1\n{text}[executor]\nunheard = 1\nkind = 'http'\n".encode())
    assert {path: read[path] for path in tables} == tables
    assert set(manifest.unknown) == {(*path, "unheard") for path in tables}
    free = {("inputs",): {"NAME"}, ("auth",): {"type"}}
    assert {path: keys for path, keys in read.items() if path not in tables} == free


def test_the_frontmatter_has_the_fields_of_the_format():
    assert set(SCHEMAS["SKILL.md"]["properties"]) == set(FIELDS)


@pytest.mark.parametrize(
    "text",
    [
        'name = "A.b"', 'name = "a..b"', 'version = "1.0"', "version = 1", 'description = " "', 'kind = "skill"',
        'kind = "action"', 'kind = "action"\n[executor]\nkind = "python"', 'kind = "instruction"\n[runtime]\n',
        'tags = "pdf"', 'tags = [""]', 'access = "secret"', 'capability_type = "tool"', 'id = "pdf"',
        'skill_id = "a b"',
        'skill_type = "skill"', 'capabilities = ["a/b"]', f'requires = {["a"] * 51}', 'idempotent = "yes"',
        '[runtime]\nlanguage = "ruby"', '[runtime]\nentrypoint = "main.sh"', '[runtime]\nentrypoint = "/main.py"',
        '[runtime]\nexport = "a.b"', '[permissions]\nnetwork = ["http://example.com"]',
        '[permissions]\nnetwork = ["https://example.com/path"]', '[permissions]\nsecrets = ["LD_PRELOAD"]',
        '[permissions]\nsecrets = ["token"]', '[inputs.a]\ntype = "text"', "[inputs.a]\nrequired = true\ndefault = 1",
        f'[inputs.a]\ndescription = "{"a" * 1025}"', '[inputs]\na = "string"', '[executor]\nkind = "lambda"',
        'kind = "action"\n[executor]\nkind = "http"', _HTTP.replace("https:", "http:"), f'{_HTTP}method = "HEAD"',
        f'{_HTTP}body = "xml"', f'{_HTTP}result = "data"', f"{_HTTP}headers = {{ X-A = 1 }}",
        '[auth]\ntype = "basic"', "[endpoint]\ntimeout_ms = 0", "[endpoint]\nretry = { max_attempts = 21 }",
        "[health]\ninterval = 4", "[health]\ntimeout = 31",
    ],
)  # fmt: skip
def test_the_schema_of_the_manifest_refuses_what_the_reader_refuses(text):
    assert not MANIFEST.is_valid(tomllib.loads(text))
    assert read_manifest(text.encode())[1]


@pytest.mark.parametrize(
    "frontmatter",
    [
        "name: Demo\ndescription: d", "name: con\ndescription: d", f"name: {'a' * 65}\ndescription: d",
        f"name: demo\ndescription: {'d' * 1025}", "name: demo\ndescription: d\nlicense: ''",
        f"name: demo\ndescription: d\ncompatibility: {'c' * 501}", "name: demo\ndescription: d\nversion: '1.0.0'",
        "name: demo\ndescription: d\nallowed-tools:\n  - Read", "name: demo\ndescription: d\nmetadata: a",
        "name: demo\ndescription: d\nmetadata:\n  a:\n    - b",
    ],
)  # fmt: skip
def test_the_schema_of_the_frontmatter_refuses_what_the_check_refuses(frontmatter, write):
    text = f"---\n{frontmatter}\n---\n# Do\n"
    assert not SKILL_MD.is_valid(dict(parse_skill_md(text.encode()).fields))
    findings = check_folder(write("demo", **{"SKILL.md": text})).findings
    assert [one for one in findings if one.level == "error" and one.code != "NAME_FOLDER"]


def _corpus(kind):
    rows = json.loads((PROJECT / f"tests/corpus/documents/{kind}.json").read_text())
    return [base64.b64decode(row["b64"]) if "b64" in row else row["data"].encode() for row in rows]


def test_what_the_reader_accepts_of_the_corpus_and_the_examples_fits_the_schema():
    manifests = [path.read_bytes() for path in PROJECT.glob("examples/**/skill.toml")] + _corpus("skill-toml")
    accepted = 0
    for data in manifests:
        try:
            manifest, flaws = read_manifest(data)
        except SkillwireError:
            continue
        if not flaws and not manifest.unknown:
            accepted += 1
            MANIFEST.validate(dict(manifest.document))
    assert accepted >= 8


def test_what_the_check_accepts_of_the_corpus_and_the_examples_fits_the_schema(write):
    texts = [path.read_bytes() for path in PROJECT.glob("examples/**/SKILL.md")] + _corpus("frontmatter")
    accepted = 0
    for number, data in enumerate(texts):
        try:
            skill_md = parse_skill_md(data)
        except SkillwireError:
            continue
        folder = write(f"{number}/{skill_md.name[:80]}", **{"SKILL.md": data})
        if not [one for one in check_folder(folder).findings if one.level == "error"]:
            accepted += 1
            SKILL_MD.validate(dict(skill_md.fields))
    assert accepted >= 15


def test_the_schema_that_a_new_manifest_names_is_published():
    assert (PROJECT / _SCHEMA_PAGE).name == schema_file("skill.toml")
    assert json.loads((PROJECT / _SCHEMA_PAGE).read_text()) == SCHEMAS["skill.toml"]
