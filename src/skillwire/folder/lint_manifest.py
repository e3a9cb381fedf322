"""Rules about skill.toml and descriptor.json, beside each other and beside SKILL.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.errors import Place
from skillwire.folder.health import entry_points
from skillwire.folder.toml_places import toml_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.folder.content import FolderContent
    from skillwire.folder.findings import Findings


def lint_manifest(content: FolderContent, findings: Findings) -> None:
    """Judge the skill.toml of a folder."""
    manifest = content.manifest
    for path in manifest.unknown:
        message = f"nobody reads the field {'.'.join(path)[:120]!r}"
        findings.add("MANIFEST_UNKNOWN", message, _place(content, *path))
    tables = {
        one.path: one.table for one in reversed([*entry_points(manifest)])
    }  # a file is named where it comes first
    for name, table in tables.items():
        if not any(file.path == name for file in content.files):
            findings.add("ENTRYPOINT_ABSENT", f"the folder has no file {name}", _place(content, table, "entrypoint"))
    skill_md = content.skill_md
    if skill_md is None:
        return
    version = skill_md.metadata.get("version", manifest.version)
    if manifest.version is not None and version != manifest.version:
        message = f"skill.toml gives the version {manifest.version}, SKILL.md {version!r}"
        findings.add("MANIFEST_DIFFERS", message, _place(content, "version"))


def lint_descriptor(content: FolderContent, findings: Findings) -> None:
    """Judge the descriptor.json of a folder beside skill.toml; its form is judged by Skill Sharing's own rule."""
    descriptor = content.descriptor
    if descriptor is None:
        return
    place = Place(f"{content.root}/descriptor.json", 1)
    for field, said in _said_twice(content):
        if said is not None and descriptor.get(field, said) != said:
            message = f"skill.toml gives the {field} {said}, descriptor.json another one"
            findings.add("DESCRIPTOR_DIFFERS", message, place)


def lint_executor(content: FolderContent, findings: Findings) -> None:
    """Judge whether a folder claims to be a function: a rule for folders, not for what functions are written as."""
    if (content.manifest.executor or {}).get("kind") == "function":
        message = "what is executed by a function does not come from a folder"
        findings.add("EXECUTOR_FUNCTION", message, _place(content, "executor", "kind"))


def _said_twice(content: FolderContent) -> Iterator[tuple[str, str | None]]:
    """Yield the fields that both files have, with what skill.toml says."""
    manifest = content.manifest
    yield "id", manifest.sharing_id
    yield "version", manifest.version
    yield "capability_type", manifest.capability_type
    yield "access", manifest.access.value if "access" in manifest.document else None


def _place(content: FolderContent, *path: str) -> Place:
    source = f"{content.root}/skill.toml"
    text = next((file.text for file in content.texts if file.path == "skill.toml"), "")
    return toml_place(text, path, source)
