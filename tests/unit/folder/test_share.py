"""What a folder says for Skill Sharing, and who may see it."""

import json

import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.adapters.files.skill_rows import pack_skill, unpack_skill
from skillwire.folder.load import examine
from skillwire.folder.publish import Prepared, prepare
from skillwire.model.access import Access
from skillwire.protocols.skill_sharing.lint import lint_sharing

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
    assert isinstance(outcome, Prepared), outcome
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
    findings = examine(folder, judges=[lint_sharing]).findings
    assert [(one.level, one.place.line) for one in findings] == [("error", line)]
    assert what in findings[0].message


def test_descriptor_of_an_inner_network_is_let_pass(write):
    endpoint = {"url": "http://10.0.0.7:8080/invoke", "method": "POST"}
    folder = write(**{"descriptor.json": json.dumps({**DESCRIPTOR, "endpoint": endpoint})})
    assert not examine(folder, judges=[lint_sharing]).findings
