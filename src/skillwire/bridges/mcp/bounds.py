"""What every host of the Skills extension has to take, and no more is served as a skill. Spec: MCP Skills "Limits"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.model.skill import Skill


def why_not(skill: Skill) -> str | None:
    """Return why a skill is not served as one of the extension, or None when it is."""
    size = sum(file.size for file in skill.files)
    if len(skill.files) > limits.MCP_SKILL_FILES:
        return f"{skill.name} has {len(skill.files):,} files; over MCP a skill has at most {limits.MCP_SKILL_FILES:,}"
    if size > limits.MCP_SKILL_BYTES:
        return f"{skill.name} has {size:,} bytes; over MCP a skill has at most {limits.MCP_SKILL_BYTES:,}"
    return None
