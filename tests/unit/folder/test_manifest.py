"""skill.toml: every field, every rule, and where the fault is."""

import base64
import json
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from skillwire.errors import DecodeError, SkillwireError, ValidationError
from skillwire.folder.fields import Fields
from skillwire.folder.frontmatter import FIELDS, parse_skill_md
from skillwire.folder.load import check_folder
from skillwire.folder.manifest import SCHEMAS, Input, Manifest, Runtime, parse_manifest, read_manifest, schema_file
from skillwire.folder.scaffold import _SCHEMA_PAGE
from skillwire.model.access import Access

FULL = """\
name = "example.leads.sync"
version = "1.2.3-rc.1+b5"
description = "Syncs leads."
kind = "action"
namespace = "example.leads"
tags = ["crm", "leads"]
access = "restricted"
capability_type = "api"
id = "example-corp/leads-sync"
skill_id = "skill-leads-sync"
skill_type = "tool-skill"
capabilities = ["org-data-read"]
scenes = ["auth"]
idempotent = true

[runtime]
language = "python"
entrypoint = "code/main.py"
export = "run"

[permissions]
network = ["https://*.example.com", "https://api.example.co.uk:8443"]
secrets = ["EXAMPLE_API_KEY", "GITHUB_TOKEN", "NPM_TOKEN"]

[inputs.sheet_blob]
type = "blob"
description = "Blob id of the sheet"

[inputs.env]

[executor]
kind = "http"
url = "https://api.example.com/v2/forecast"

[auth]
type = "api_key"
header = "X-API-Key"

[output]
content_type = "application/json"

[endpoint]
timeout_ms = 30000
retry = { max_attempts = 3, backoff_ms = 500 }
"""


def flaws(text):
    return [(flaw.code, str(flaw.place)) for flaw in read_manifest(text.encode(), source="skill.toml")[1]]


def test_every_field():
    manifest = parse_manifest(FULL.encode())
    assert not manifest.unknown
    assert manifest.document["executor"] == manifest.executor
    assert manifest == Manifest(
        name="example.leads.sync",
        version="1.2.3-rc.1+b5",
        description="Syncs leads.",
        kind="action",
        namespace="example.leads",
        tags=("crm", "leads"),
        runtime=Runtime("code/main.py", "run"),
        network=("https://*.example.com", "https://api.example.co.uk:8443"),
        secrets=("EXAMPLE_API_KEY", "GITHUB_TOKEN", "NPM_TOKEN"),
        inputs={"sheet_blob": Input("blob", "Blob id of the sheet"), "env": Input("string", "")},
        access=Access.RESTRICTED,
        capability_type="api",
        sharing_id="example-corp/leads-sync",
        discovery_id="skill-leads-sync",
        skill_type="tool-skill",
        capabilities=("org-data-read",),
        scenes=("auth",),
        idempotent=True,
        executor={"kind": "http", "url": "https://api.example.com/v2/forecast"},
        auth={"type": "api_key", "header": "X-API-Key"},
        output={"content_type": "application/json"},
        endpoint={"timeout_ms": 30000, "retry": {"max_attempts": 3, "backoff_ms": 500}},
        document=manifest.document,
    )


def test_nothing_has_to_be_said():
    assert parse_manifest(b"") == Manifest()


def test_unknown_fields_are_named_wherever_they_are():
    text = (
        'nmae = "x"\n[runtime]\nlanguage = "python"\nentrypoint = "a.py"\nmode = 1\n'
        '[inputs.a]\nsort = "x"\n[endpoint]\nurl = "x"\n[odd]\na = 1\n'
    )
    assert tuple(parse_manifest(text.encode()).unknown) == (
        ("nmae",),
        ("odd",),
        ("runtime", "mode"),
        ("inputs", "a", "sort"),
        ("endpoint", "url"),
    )


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ('a = 1\nname = "Upper"\n', "FIELD", ":2:1"),
        ('name = "a-b"\n', "FIELD", ":1:1"),
        ("name = 1\n", "FIELD", ":1:1"),
        ('version = "1.0"\n', "FIELD", ":1:1"),
        ('version = "1.0.0-' + "x" * 60 + '"\n', "FIELD", ":1:1"),
        ('description = ""\n', "FIELD", ":1:1"),
        ('kind = "tool"\n', "FIELD", ":1:1"),
        ('kind = "action"\n', "FIELD", ":1:1"),
        ('kind = "instruction"\n[runtime]\nentrypoint = "a.py"\n', "FIELD", ":1:1"),
        ('name = "b.c"\nnamespace = "a"\n', "FIELD", ":1:1"),
        ('tags = "a"\n', "FIELD", ":1:1"),
        ("tags = [1]\n", "FIELD", ":1:1"),
        ('access = "secret"\n', "FIELD", ":1:1"),
        ('capability_type = "exec"\n', "FIELD", ":1:1"),
        ('id = "../../x"\n', "FIELD", ":1:1"),
        ('id = "plain"\n', "FIELD", ":1:1"),
        ('skill_id = "a;b"\n', "FIELD", ":1:1"),
        ('skill_type = "other"\n', "FIELD", ":1:1"),
        ('scenes = ["a|b"]\n', "FIELD", ":1:1"),
        ('idempotent = "yes"\n', "FIELD", ":1:1"),
        ('runtime = "python"\n', "FIELD", ":1:1"),
        ('[runtime]\nlanguage = "sh"\nentrypoint = "main.py"\n', "FIELD", ":2:1"),
        ('name = "a"\n[runtime]\nexport = "main"\n', "FIELD", ":2:2"),
        ('[inputs.a]\ntype = "file"\n', "FIELD", ":2:1"),
        ("[inputs]\na = 1\n", "FIELD", ":2:1"),
        ('[executor]\nkind = "shell"\n', "FIELD", ":2:1"),
        ('[executor]\nkind = "http"\nurl = "http://example.com/"\n', "FIELD", ":3:1"),
        ('[executor]\nkind = "http"\nurl = "https://a@b/"\n', "URL", ":3:1"),
        ('[auth]\ntype = "basic"\n', "FIELD", ":2:1"),
        ("[endpoint]\ntimeout_ms = 0\n", "FIELD", ":2:1"),
        ("[endpoint]\ntimeout_ms = true\n", "FIELD", ":2:1"),
        ("[endpoint]\nretry.max_attempts = 1000\n", "FIELD", ":2:1"),
        ("permissions.network = ['*']\n", "PERMISSION_NETWORK", ":1:1"),
        ("permissions = {network = ['*']}\n", "PERMISSION_NETWORK", ":1:1"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_said_with_its_place(text, code, place):
    assert flaws(text) == [(code, "skill.toml" + place)]
    with pytest.raises(ValidationError, match=code):
        parse_manifest(text.encode())


def test_all_broken_rules_are_said_at_once():
    text = (
        'name = "A"\nkind = "x"\n[permissions]\nnetwork = ["https://a.com", "*", "https://*.com"]\nsecrets = ["PATH"]\n'
    )
    manifest, found = read_manifest(text.encode())
    assert [flaw.code for flaw in found] == ["FIELD", "FIELD", *["PERMISSION_NETWORK"] * 2, "PERMISSION_SECRET"]
    assert manifest.network == ("https://a.com",)


@pytest.mark.parametrize(
    ("requirement", "code", "fix"),
    [
        ("Bad Name", "FIELD", 'Write "name"'),
        ("capability:", "FIELD", 'Write "name"'),
        ("notes@", "FIELD", 'Write "name"'),
        ("notes@^^1", "VERSION_RANGE", "Write comparisons"),
    ],
)
def test_a_malformed_requirement_is_refused_with_its_place_and_fix(requirement, code, fix):
    manifest, [flaw] = read_manifest(f'version = "1.0.0"\nrequires = ["fine", "{requirement}"]\n'.encode())
    assert (flaw.code, str(flaw.place), manifest.requires) == (code, "skill.toml:2:1", ("fine",))
    assert (flaw.fix or "").startswith(fix)


def test_what_is_not_toml_is_a_decode_error():
    with pytest.raises(DecodeError, match="TOML_SYNTAX"):
        read_manifest(b"name = ")


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
