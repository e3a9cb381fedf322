"""From a folder to what is published."""

import hashlib
import json

import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.folder.load import check_folder
from skillwire.folder.pack import pack
from skillwire.folder.publish import PreparedSkill, RefusedFolder, prepare
from skillwire.model.access import Access
from skillwire.model.catalog import pack_skill, unpack_skill
from skillwire.model.skill import Identifiers
from skillwire.protocols.skill_sharing.judge import lint_sharing


def ready(path):
    prepared = prepare(path, "example-corp")
    assert isinstance(prepared, PreparedSkill)
    return prepared


def test_a_lone_skill_md_is_its_own_artifact(write):
    folder = write()
    prepared = ready(folder)
    content = (folder / "SKILL.md").read_bytes()
    artifact = prepared.skill.artifact
    assert prepared.artifact == content
    assert (artifact.artifact_type, artifact.media_type, artifact.extension) == ("skill-md", "text/markdown", ".md")
    assert (artifact.size, artifact.digest) == (len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")
    assert prepared.skill.files[0].digest == artifact.digest


def test_a_skill_of_several_files_is_packed(write):
    prepared = ready(write(**{"scripts/run.py": "print(1)\n", "a.bin": b"\0"}))
    assert prepared.artifact == pack(prepared.files).content
    artifact = prepared.skill.artifact
    assert (artifact.artifact_type, artifact.media_type, artifact.extension) == (
        "archive",
        "application/gzip",
        ".tar.gz",
    )
    assert artifact.digest.hex == hashlib.sha256(prepared.artifact).hexdigest()
    assert [file.path for file in prepared.skill.files] == [file.path for file in prepared.files]
    assert [file.size for file in prepared.skill.files] == [len(file.content) for file in prepared.files]


def test_what_the_folder_says_goes_into_the_skill(write):
    skill_md = (
        "---\nname: demo\ndescription: d\nlicense: MIT\ncompatibility: Needs git\nallowed-tools: Read\n"
        "metadata:\n  version: '1.2.3'\n---\n# B\n"
    )
    manifest = (
        'kind = "action"\naccess = "private"\nscenes = ["auth"]\ncapabilities = ["read"]\n'
        '[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
    )
    skill = ready(write(**{"SKILL.md": skill_md, "skill.toml": manifest, "main.py": "def main(args): ...\n"})).skill
    assert (skill.publisher, skill.name, skill.version, skill.description) == ("example-corp", "demo", "1.2.3", "d")
    assert (skill.license, skill.compatibility, skill.allowed_tools) == ("MIT", "Needs git", "Read")
    assert skill.metadata == {"version": "1.2.3"}
    assert (skill.access, skill.kind, skill.scenes, skill.capabilities) == (
        Access.PRIVATE,
        "action",
        ("auth",),
        ("read",),
    )


@pytest.mark.parametrize(
    ("files", "identifiers"),
    [
        ({}, Identifiers("example-corp/pdf-forms", "pdf-forms", "example.corp.pdf.forms", "example.corp")),
        (
            {"skill.toml": 'namespace = "docs"'},
            Identifiers("example-corp/pdf-forms", "pdf-forms", "docs.pdf.forms", "docs"),
        ),
        (
            {"skill.toml": 'name = "example.corp.forms"'},
            Identifiers("example-corp/pdf-forms", "pdf-forms", "example.corp.forms", "example.corp"),
        ),
        ({"skill.toml": 'id = "a/b"\nskill_id = "skill-b"\nname = "x.y.z"'}, Identifiers("a/b", "skill-b", "x.y.z")),
        (
            {"descriptor.json": '{"id": "com.example.pdf-v1", "name": "PDF"}'},
            Identifiers("com.example.pdf-v1", "pdf-forms", "example.corp.pdf.forms", "example.corp"),
        ),
    ],
)
def test_identifiers(write, files, identifiers):
    assert ready(write("pdf-forms", **files)).skill.identifiers == identifiers


def test_a_broken_folder_is_refused_with_every_finding(write):
    refused = prepare(write(**{"SKILL.md": "---\nname: other\ndescription: d\nodd: x\n---\n"}), "p")
    assert isinstance(refused, RefusedFolder)
    assert [finding.code for finding in refused.findings if finding.level == "error"] == [
        "NAME_FOLDER",
        "FIELD_UNKNOWN",
    ]


def test_an_artifact_that_no_client_would_unpack_is_refused(write):
    refused = prepare(write(**{"zeros.bin": bytes(8_000_000)}), "p")
    assert isinstance(refused, RefusedFolder)
    assert [finding.code for finding in refused.findings if finding.level == "error"] == ["ARCHIVE_RATIO"]


TOML = """
kind = "action"
access = "restricted"
capability_type = "task"
tags = ["a", "b"]
[runtime]
language = "python"
entrypoint = "main.py"
[inputs.file]
type = "blob"
description = "What to read."
[inputs.days]
type = "integer"
required = true
[inputs.unit]
default = "metric"
[auth]
type = "api_key"
header = "X-Key"
[endpoint]
timeout_ms = 5000
[output]
content_type = "text/plain"
"""


def prepared(path):
    outcome = prepare(path, "example-corp", judges=[lint_sharing])
    assert isinstance(outcome, PreparedSkill), outcome
    assert unpack_skill(pack_skill(outcome.skill)) == outcome.skill
    return outcome.skill


def test_skill_md_alone_is_public_knowledge(write):
    skill = prepared(write("code-review"))
    assert (skill.access, skill.sharing.capability_type, skill.sharing.name) == (
        Access.PUBLIC,
        "knowledge",
        "Code Review",
    )
    assert (skill.sharing.description, skill.sharing.version) == (skill.description, skill.version)
    assert skill.sharing.descriptor is None


def test_skill_toml_says_the_rest(write):
    skill = prepared(write(**{"skill.toml": TOML, "main.py": "def main(args): ...\n"}))
    shared = skill.sharing
    assert (skill.access, shared.capability_type, shared.tags) == (Access.RESTRICTED, "task", ("a", "b"))
    assert [(one.name, one.input_type, one.required, one.default) for one in shared.inputs] == [
        ("file", "string", False, None),
        ("days", "integer", True, None),
        ("unit", "string", False, "metric"),
    ]
    assert (shared.auth, shared.endpoint) == ({"type": "api_key", "header": "X-Key"}, {"timeout_ms": 5000})
    assert shared.output == {"content_type": "text/plain"}


def test_descriptor_is_taken_as_it_is_its_access_too(write):
    text = json.dumps({**DESCRIPTOR, "access": "private", "tags": ["x"], "name": "The Forecast", "version": "2.1.0"})
    skill = prepared(write(**{"descriptor.json": text}))
    (file,) = [file for file in skill.files if file.path == "descriptor.json"]
    assert (skill.access, skill.sharing.descriptor) == (Access.PRIVATE, file.digest)
    assert (skill.sharing.name, skill.sharing.version, skill.sharing.tags) == ("The Forecast", "2.1.0", ("x",))
    assert skill.identifiers.skill_sharing == DESCRIPTOR["id"]


@pytest.mark.parametrize(
    ("change", "line", "what"),
    [
        ({"capability_type": "exec"}, 8, "/capability_type must be equal to one of the allowed values"),
        ({"name": None}, 6, "/name must be of type string"),
        ({"protocol": {"version": "3.0.0"}}, 3, "Protocol version 3.0.0 is not compatible"),
        ({"auth": {"type": "api_key", "header": "Host"}}, 23, "/auth/header must name a header field that is free"),
    ],
)
def test_descriptor_that_is_none_is_not_published_and_its_line_is_told(write, change, line, what):
    folder = write(**{"descriptor.json": json.dumps({**DESCRIPTOR, **change}, indent=1)})
    findings = check_folder(folder, judges=[lint_sharing]).findings
    assert [(one.level, one.place.line) for one in findings] == [("error", line)]
    assert what in findings[0].message


def test_descriptor_of_an_inner_network_is_let_pass(write):
    endpoint = {"url": "http://10.0.0.7:8080/invoke", "method": "POST"}
    folder = write(**{"descriptor.json": json.dumps({**DESCRIPTOR, "endpoint": endpoint})})
    assert not check_folder(folder, judges=[lint_sharing]).findings


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('type = "integer"\nschema = { maximum = 14 }\nexample = 30', "30 is greater than the maximum of 14"),
        ("example = 5", '5 is not of type "string"'),
        ("example = 2026-01-01", "is no JSON value"),
        ('type = "blob"\nexample = "report.pdf"', None),
        ('schema = { enum = ["a", "b"] }\nexample = "b"', None),
    ],
)
def test_an_example_that_does_not_fit_its_input_is_reported_at_its_line(write, lines, message):
    manifest = f'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n[inputs.day]\n{lines}\n'
    folder = write(**{"skill.toml": manifest, "main.py": "def main(args): ...\n"})
    findings = [one for one in check_folder(folder, judges=[lint_sharing]).findings if one.level == "error"]
    assert [one.message for one in findings] == ([f"inputs.day.example: {message}"] if message else [])
    assert all(one.place.line == manifest.count("\n") and one.fix.startswith("Write an example") for one in findings)
