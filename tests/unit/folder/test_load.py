"""Finding skills below a root, loading one, and the one error for who wants a skill or nothing."""

import hashlib
import json
import os

import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.errors import NotFoundError, ValidationError
from skillwire.folder.files import find_bare_folders, find_folders
from skillwire.folder.load import (
    IdentifiedSkill,
    PreparedSkill,
    RefusedFolder,
    check_folder,
    find_collisions,
    identify,
    load_folder,
    prepare,
)
from skillwire.folder.pack import pack
from skillwire.model.access import Access
from skillwire.model.catalog import pack_skill, unpack_skill
from skillwire.model.skill import Identifiers
from skillwire.protocols.skill_sharing.judge import lint_sharing

MINIMAL = "---\nname: {name}\ndescription: d\n---\n# B\n"


def test_a_root_that_is_a_skill_is_the_only_one(write):
    folder = write(**{"inner/SKILL.md": "x"})
    assert find_folders(folder) == [folder]


def test_skills_are_found_below_a_root_but_not_inside_each_other(write, tmp_path):
    for name in ("b", "a", "group/c", "1/2/3/four", "1/2/3/4/five", "b/nested/x", ".hidden/h", "node_modules/n"):
        write(name)
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower/skill.md").write_text("x")
    (tmp_path / "again").symlink_to("a")
    (tmp_path / "round").symlink_to(".")
    found = [str(path.relative_to(tmp_path)) for path in find_folders(tmp_path)]
    assert len([path for path in found if path in ("a", "again")]) == 1
    assert [path for path in found if path not in ("a", "again")] == ["1/2/3/four", "b", "group/c", "lower"]


@pytest.mark.parametrize("path", ["more/SKILL.md", "a/b/skill.md"])
def test_a_skill_inside_another_is_said(found, path):
    assert found(**{path: "x", "SKILL.md.txt": "x", "OTHERSKILL.md": "x"}) == [f"warning SKILL_WITHIN_SKILL {path}"]
    assert found("lenient", **{path: "x"}) == [f"note SKILL_WITHIN_SKILL {path}"]


def test_an_empty_folder_is_said(write, found):
    (write() / "assets" / "pictures").mkdir(parents=True)
    assert found() == ["note FOLDER_EMPTY assets/pictures"]


def test_what_lies_beside_skills_and_is_none_is_said(write, tmp_path):
    for name in ("a", "group/b"):
        write(name)
    write("c", **{"SKILL.md": None, "SKIL.md": "x"})
    for name in (".git", "node_modules", "group/d"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("x")
    findings = list(find_bare_folders(tmp_path, find_folders(tmp_path)))
    assert [(one.code, one.level, one.place.source) for one in findings] == [
        ("FOLDER_WITHOUT_SKILL", "note", str(tmp_path / "c"))
    ]
    assert list(find_bare_folders(tmp_path, find_folders(tmp_path), level="lenient")) == []
    assert list(find_bare_folders(tmp_path, [tmp_path / "group" / "b"])) == []  # here it holds other things


def test_nothing_is_found_where_there_is_nothing(tmp_path):
    assert find_folders(tmp_path) == []
    assert find_folders(tmp_path / "absent") == []


def test_a_loaded_folder(write):
    folder = write(
        **{"a.md": "x", "skill.toml": 'version = "2.0.0"\n', "descriptor.json": '{"id": "p/demo", "name": "D"}'}
    )
    loaded = load_folder(folder, level="lenient")
    assert (loaded.name, loaded.version) == ("demo", "2.0.0")
    assert loaded.description == "Does it. Use when it is to be done."
    assert loaded.descriptor == {"id": "p/demo", "name": "D"}
    assert [file.path for file in loaded.files] == ["SKILL.md", "a.md", "descriptor.json", "skill.toml"]


@pytest.mark.parametrize(
    ("metadata", "manifest", "version"),
    [
        ("", None, "0.1.0"),
        ("metadata:\n  version: '1.2.3'\n", None, "1.2.3"),
        ("metadata:\n  version: '1.2'\n", None, "0.1.0"),
        ("metadata:\n  version: '1.2.3'\n", 'version = "2.0.0"', "2.0.0"),
    ],
)
def test_the_version(write, metadata, manifest, version):
    text = f"---\nname: demo\ndescription: d\n{metadata}---\n# B\n"
    assert load_folder(write(**{"SKILL.md": text, "skill.toml": manifest})).version == version


@pytest.mark.parametrize("level", ["strict", "lenient"])
def test_a_skill_that_only_the_skills_protocol_describes(write, found, level):
    skill_md = "---\nname: Lead Sync\nshort_description: s\ntags: [crm, leads]\n---\n# B\n"
    skill_toml = 'name = "a.b"\nversion = "1.0.0"\ndescription = "Sync leads."\n'
    folder = {"SKILL.md": skill_md, "skill.toml": skill_toml}
    loaded = load_folder(write(**folder), level=level)
    assert (loaded.name, loaded.description, loaded.version) == ("demo", "Sync leads.", "1.0.0")
    assert found(level, **folder) == ["warning SKILLS_PROTOCOL_ONLY SKILL.md:1"]
    for toml in ('name = "a.b"', 'description = "Sync leads."'):
        assert "error DESCRIPTION_FORM SKILL.md:1" in found(level, **{**folder, "skill.toml": toml})


def test_a_skill_md_that_cannot_be_read_is_not_an_absent_one(tmp_path):
    (tmp_path / "demo").mkdir()
    os.mkfifo(tmp_path / "demo" / "SKILL.md")
    with pytest.raises(ValidationError, match="FILE_SPECIAL: this is neither a file nor a folder"):
        load_folder(tmp_path / "demo")


def test_a_folder_without_a_skill_is_not_found(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NotFoundError, match="SKILL_NOT_FOUND"):
            load_folder(path)


def test_an_invalid_folder_is_one_error_that_has_all(write):
    folder = write(**{"SKILL.md": "---\nname: other\ndescription: d\nodd: x\n---\n# B\n"})
    with pytest.raises(ValidationError) as caught:
        load_folder(folder)
    error = caught.value
    assert error.code == "SKILL_INVALID"
    assert error.message == "NAME_FOLDER: the skill is named 'other', its folder 'demo' (and 1 more)"
    assert str(error.place) == f"{folder}/SKILL.md:2:1"
    assert len(error.details["findings"]) == 2  # type: ignore[arg-type]  # a list
    assert load_folder(folder, level="lenient").name == "demo"


def test_where_the_folder_has_no_name_of_a_skill_the_frontmatter_gives_it(write):
    folder = write("My Skill", **{"SKILL.md": MINIMAL.format(name="my-skill")})
    assert load_folder(folder, level="lenient").name == "my-skill"
    folder = write("Two", **{"SKILL.md": MINIMAL.format(name="Two")})
    assert [finding.code for finding in check_folder(folder, level="lenient").findings][-1] == "NAME_FORM"
    with pytest.raises(ValidationError):
        load_folder(folder, level="lenient")


def test_skill_md_in_lower_case_is_read_leniently(write):
    folder = write(**{"SKILL.md": None, "skill.md": MINIMAL.format(name="demo")})
    assert [file.path for file in load_folder(folder, level="lenient").files] == ["SKILL.md"]
    assert check_folder(folder).folder is None


def test_the_folder_may_be_named_by_a_dot(write, monkeypatch):
    from pathlib import Path as _Path  # noqa: PLC0415  # the only use at run time

    monkeypatch.chdir(write())
    assert load_folder(_Path()).name == "demo"


@pytest.mark.parametrize("level", ["strict", "lenient"])
@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"SKILL.md": "no frontmatter"}, "FRONTMATTER"),
        ({"SKILL.md": "---\nname: demo\n---\n"}, "DESCRIPTION_FORM"),
        ({"SKILL.md": b"---\nname: demo\ndescription: d\n---\n\xff"}, "ENCODING"),
        ({"skill.toml": "x = "}, "TOML_SYNTAX"),
        ({"skill.toml": 'kind = "x"'}, "FIELD"),
        ({"skill.toml": '[permissions]\nnetwork = ["*"]\n'}, "PERMISSION_NETWORK"),
        ({"descriptor.json": "{"}, "JSON_SYNTAX"),
        ({"descriptor.json": "[]"}, "DESCRIPTOR_FORM"),
        ({"descriptor.json": '{"id": "a/b", "name": "x"}', "skill.toml": 'id = "a/c"'}, "DESCRIPTOR_DIFFERS"),
        ({"skill.toml": '[runtime]\nlanguage = "python"\nentrypoint = "a.py"\n'}, "ENTRYPOINT_ABSENT"),
    ],
)
def test_what_no_level_lets_pass(write, files, code, level):
    examination = check_folder(write(**files), level=level)
    assert examination.folder is None
    assert [finding.code for finding in examination.findings if finding.level == "error"] == [code]


def named(path):
    folder = load_folder(path)
    return IdentifiedSkill(str(path), folder.name, identify(folder, "example-corp"))


def test_skills_that_share_an_identifier(write):
    skills = [
        named(write("a")),
        named(write("group/a")),
        named(write("b", **{"skill.toml": 'id = "example-corp/a"\n'})),
        named(write("c", **{"skill.toml": 'skill_id = "a"\n'})),
        named(write("d-e")),
        named(write("f", **{"skill.toml": 'name = "example.corp.d.e"\n'})),
        named(write("g")),
    ]
    findings = find_collisions(skills)
    assert [(finding.code, finding.level) for finding in findings] == [("IDENTIFIER_COLLISION", "error")] * 4
    protocols = ["Agent Skills Discovery", "Skill Sharing", "Skill Discovery", "Skills Protocol"]
    assert [finding.message.split(" has ")[0] for finding in findings] == protocols
    for finding, (first, second) in zip(findings, [(0, 1), (0, 2), (0, 3), (4, 5)], strict=True):
        assert str(skills[first].path) in finding.message
        assert finding.place.source == f"{skills[second].path}/SKILL.md"


def test_different_skills_do_not_collide(write):
    assert find_collisions(named(write(name)) for name in ("a", "b", "a-b")) == []


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
