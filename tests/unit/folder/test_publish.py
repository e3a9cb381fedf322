"""From a folder to what is published."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from skillwire.folder.pack import pack
from skillwire.folder.publish import Prepared, Refused, prepare
from skillwire.model.access import Access
from skillwire.model.skill import Identifiers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]


def ready(path: Path) -> Prepared:
    prepared = prepare(path, "example-corp")
    assert isinstance(prepared, Prepared)
    return prepared


def test_a_lone_skill_md_is_its_own_artifact(write: Write) -> None:
    folder = write()
    prepared = ready(folder)
    content = (folder / "SKILL.md").read_bytes()
    artifact = prepared.skill.artifact
    assert prepared.artifact == content
    assert (artifact.artifact_type, artifact.media_type, artifact.extension) == ("skill-md", "text/markdown", ".md")
    assert (artifact.size, artifact.digest) == (len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")
    assert prepared.skill.files[0].digest == artifact.digest


def test_a_skill_of_several_files_is_packed(write: Write) -> None:
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


def test_what_the_folder_says_goes_into_the_skill(write: Write) -> None:
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
        (
            {"skill.toml": 'id = "a/b"\nskill_id = "skill-b"\nname = "x.y.z"'},
            Identifiers("a/b", "skill-b", "x.y.z"),
        ),
        (
            {"descriptor.json": '{"id": "com.example.pdf-v1", "name": "PDF"}'},
            Identifiers("com.example.pdf-v1", "pdf-forms", "example.corp.pdf.forms", "example.corp"),
        ),
    ],
)
def test_identifiers(write: Write, files: dict[str, str], identifiers: Identifiers) -> None:
    assert ready(write("pdf-forms", **files)).skill.identifiers == identifiers


def test_a_broken_folder_is_refused_with_every_finding(write: Write) -> None:
    refused = prepare(write(**{"SKILL.md": "---\nname: other\ndescription: d\nodd: x\n---\n"}), "p")
    assert isinstance(refused, Refused)
    assert [finding.code for finding in refused.findings if finding.level == "error"] == [
        "NAME_FOLDER",
        "FIELD_UNKNOWN",
    ]


def test_an_artifact_that_no_client_would_unpack_is_refused(write: Write) -> None:
    refused = prepare(write(**{"zeros.bin": bytes(8_000_000)}), "p")
    assert isinstance(refused, Refused)
    assert [finding.code for finding in refused.findings if finding.level == "error"] == ["ARCHIVE_RATIO"]
