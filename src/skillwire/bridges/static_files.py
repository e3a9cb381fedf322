"""Files of other ecosystems in a static site, which list the same skills.

A ``marketplace.json`` is for a site used as a folder or repository branch, because its paths are relative to its
folder. An AI Catalog contains full URLs. There is no agent card: a static host runs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.bridges.ai_catalog import CATALOG_PATH, encode_catalog
from skillwire.bridges.marketplace.documents import (
    MARKETPLACE_PATH,
    ListedSkill,
    check_marketplace_name,
    encode_marketplace,
)
from skillwire.errors import UsageError
from skillwire.protocols.agent_skills.messages import WELL_KNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from skillwire.model.skill import Skill


def check_bridges(bridges: Collection[str], publisher: str, base_url: str) -> None:
    """Check that a site of ``publisher`` can have the files of ``bridges``.

    Raises UsageError (``USAGE`` for a catalog without a base URL, ``MARKETPLACE_NAME``).
    """
    if "ai-catalog" in bridges and not base_url:
        fix = "Give --base-url with the address that the site will have."
        raise UsageError("USAGE", "an AI Catalog holds full URLs", fix=fix)
    if "marketplace" in bridges:
        check_marketplace_name(publisher)


def static_files(
    bridges: Collection[str], skills: Collection[Skill], publisher: str, base_url: str
) -> Mapping[str, bytes]:
    """Return the files of ``bridges`` by their paths in a site: ``ai-catalog``, ``marketplace``."""
    files = {}
    if "ai-catalog" in bridges:
        files[CATALOG_PATH[1:]] = encode_catalog(skills, publisher, base_url)
    if "marketplace" in bridges:
        listed = (ListedSkill(skill, f"{WELL_KNOWN[1:]}/{skill.name}") for skill in skills)
        files[MARKETPLACE_PATH] = encode_marketplace(publisher, publisher, listed)
    return files
