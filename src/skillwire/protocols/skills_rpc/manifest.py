"""The manifest that ``describe_skill`` gives: what ``skill.toml`` says, with what it leaves to defaults.

A skill without a ``skill.toml`` has the same shape: the fields that the Skills Protocol wants are always there, first
and in its order. What follows is the document as it was read. To those who may know of a skill and not use it, the
manifest tells what the catalog holds and nothing of the folder.

Spec: SKP ``describe_skill``, "Parsed skill.toml as JSON"; specs §0, §4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillwire.protocols.skills_rpc.index import dotted_name, namespace_of
from skillwire.trust.guarded_toml import load_toml

if TYPE_CHECKING:
    from skillwire.model.skill import Skill


def full_manifest(skill: Skill, skill_toml: bytes | None) -> dict[str, Any]:
    """Return the manifest of a skill; ``skill_toml`` is that file, None where the folder has none.

    Raises:
        DecodeError: a ``skill.toml`` that cannot be read, which is never published.
    """
    document = load_toml(skill_toml, source="skill.toml") if skill_toml is not None else {}
    return {**_head(skill), **document}


def known_manifest(skill: Skill) -> dict[str, Any]:
    """Return the manifest that the catalog alone tells."""
    facts = skill.sharing
    manifest = {**_head(skill), "access": skill.access.value}
    if facts is not None and facts.inputs:
        manifest["inputs"] = {
            one.name: {"type": one.input_type, "description": one.description, "required": one.required}
            for one in facts.inputs
        }
    return manifest


def known_frontmatter(skill: Skill) -> dict[str, Any]:
    """Return as much of the frontmatter as every list tells."""
    return {"name": skill.name, "description": skill.description}


def _head(skill: Skill) -> dict[str, Any]:
    return {
        "name": dotted_name(skill),
        "version": skill.version,
        "description": skill.description,
        "kind": skill.kind,
        "namespace": namespace_of(skill),
        "tags": list(skill.sharing.tags) if skill.sharing is not None else [],
    }
