"""A skill that was found: the same value from every source. Spec: ARCHITECTURE, "Find"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SkillRef:
    """What is known of a skill before anything of it is loaded.

    Args:
        origin: the publisher's place: a URL without the well-known part, or ``path:`` and a local folder.
        digest: of its artifact; None where the source has none, so that nothing can be verified.
        found_via: which source named it, such as ``agent-skills 0.2.0``.
        fetched_at: when the source said so, in seconds since the epoch.
    """

    name: str
    origin: str
    description: str
    version: str | None
    digest: str | None
    found_via: str
    fetched_at: float
