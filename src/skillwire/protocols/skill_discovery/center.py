"""The documents of a SkillCenter: searches, rows of lists, details. Spec: SDP §7; what the text leaves open is ours."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from msgspec import Meta, Struct

from skillwire.model.skill import Skill
from skillwire.protocols.skill_discovery.messages import SkillType

#: The path of the lists, and how many skills a page has at most.
SKILLS: Final = "/api/skills"
PAGE: Final = 100
#: The type of a skill that names none.
USUAL_TYPE: Final = SkillType.TOOL
_Word = Annotated[str, Meta(max_length=128)]
_Words = Annotated[list[_Word], Meta(max_length=64)]


class CenterSearch(Struct):
    """A search: skills with all the capabilities and keywords, one of the scenes, one of the types, in the versions.

    ``limit`` and ``after`` (``next`` of the page before) are **[ours]**; unknown fields are ignored.
    """

    capabilities: _Words = []
    scenes: _Words = []
    types: _Words = []
    keywords: _Words = []
    version: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE)] = PAGE
    after: str | None = None


class CenterSkill(Struct, rename="camel"):
    """A skill as lists show it; ``endpoint`` is its address here, ``digest`` **[ours]** that of its artifact."""

    id: str
    name: str
    version: str
    type: Literal["enterprise-skill", "tool-skill", "integration-skill", "infrastructure-skill"]
    capabilities: list[str]
    scenes: list[str]
    endpoint: str
    download_url: str
    digest: str


class CenterDetails(CenterSkill, rename="camel", omit_defaults=True):
    """A skill with what a client needs before it downloads it **[ours]**; the text does not say what details are."""

    description: str = ""
    publisher: str = ""
    skill: str = ""
    size: int = 0
    versions_url: str = ""
    license: str | None = None


class CenterList(Struct, omit_defaults=True):
    """A page of skills; ``total`` counts all pages, and ``next`` **[ours]** is there while another one follows."""

    total: int
    skills: list[CenterSkill]
    next: str | None = None


def center_id(skill: Skill) -> str:
    """Return the skillId of a skill."""
    return skill.identifiers.skill_discovery if skill.identifiers else skill.name


def center_skill(skill: Skill, site: str, page: str = "") -> CenterSkill:
    """Return a skill as a row; ``site`` is the address of the server, and ``page`` that of the skill there."""
    return CenterSkill(**_row(skill, site, page))


def center_details(skill: Skill, site: str, page: str = "") -> CenterDetails:
    """Return the details of a skill; see :func:`center_skill`."""
    return CenterDetails(
        **_row(skill, site, page),
        description=skill.description,
        publisher=skill.publisher,
        skill=skill.name,
        size=skill.artifact.size,
        versions_url=f"{site}/@{skill.publisher}/{skill.name}/versions.json",
        license=skill.license,
    )


def _row(skill: Skill, site: str, page: str) -> dict[str, Any]:
    skill_id = center_id(skill)
    return {
        "id": skill_id,
        "name": skill.sharing.name if skill.sharing else skill.name,
        "version": skill.version,
        "type": skill.skill_type or USUAL_TYPE.value,
        "capabilities": list(skill.capabilities),
        "scenes": list(skill.scenes),
        "endpoint": f"{site}/{page or f'skills/{skill.name}'}",
        "download_url": f"{site}{SKILLS}/{quote(skill_id, safe='')}/download",
        "digest": str(skill.artifact.digest),
    }
