"""skill.toml: every field, every rule, and where the fault is."""

import pytest

from skillwire.errors import DecodeError, ValidationError
from skillwire.folder.manifest import Input, Manifest, Runtime, parse_manifest, read_manifest
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
