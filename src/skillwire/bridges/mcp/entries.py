"""The entries of skills: frontmatter, and every file with its digest and size, as hosts verify what they read.

A skill beyond the extension's bounds is served nowhere in it, since no host has to take it; its tools go on working.
Spec: MCP Skills "Skill Entries", "Limits".
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from skillwire.bridges.mcp.bounds import why_not
from skillwire.bridges.mcp.frontmatter import frontmatter_of
from skillwire.bridges.mcp.uris import SKILL_MD, uri_of
from skillwire.protocols.agent_skills.codec import encode_index
from skillwire.protocols.agent_skills.messages import IndexEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.bridges.mcp.caller import Caller
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill

#: Entries that are kept; the largest takes 100 KiB.
_KEPT: Final = 256


class Entries:
    """Makes the entries of skills, and keeps those that were asked for lately.

    They are kept by the digest of the artifact, which the content decides alone: whoever may use the skill gets what
    everyone who may use it gets.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Digest, dict[str, Any]] = OrderedDict()

    async def of(self, skill: Skill, caller: Caller) -> dict[str, Any]:
        """Return the entry of a skill that ``caller`` may use."""
        digest = skill.artifact.digest
        entry = self._kept.get(digest)
        if entry is None:
            entry = self._kept[digest] = _entry(skill, await caller.read(skill_md_of(skill)))
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return entry


def _entry(skill: Skill, skill_md: bytes) -> dict[str, Any]:
    return {
        "uri": uri_of(skill),
        "frontmatter": frontmatter_of(skill_md),
        "resources": [
            {"uri": uri_of(skill, file.path), "digest": str(file.digest), "size": file.size} for file in skill.files
        ],
    }


def skill_md_of(skill: Skill) -> Digest:
    """Return the digest of its ``SKILL.md``."""
    return next(file.digest for file in skill.files if file.path == SKILL_MD)


def index_of(skills: Iterable[Skill]) -> bytes:
    """Return ``skill://index.json``: an index of Agent Skills Discovery 0.2.0 whose URLs are resources.

    Every entry is a ``skill-md``, whatever the skill holds: its other files are resources beside that one.
    """
    return encode_index(
        IndexEntry(
            name=skill.name,
            description=skill.description,
            artifact_type="skill-md",
            url=uri_of(skill),
            digest=skill_md_of(skill),
            version=skill.version,
        )
        for skill in skills
        if why_not(skill) is None
    )
