"""What is remembered of a publisher's place between two runs.

An answer that is kept for a later request, which may ask whether it still holds.

Values of installing: where skills go and what the lock says of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.model.skill import FileContent


class OriginRecord(NamedTuple):
    """What is remembered of a publisher's place.

    Args:
        first_seen: RFC 3339 in UTC.
        accepted: whether the user has agreed to install from there.
        generation: the highest index generation that it has given, such as ``0.2.0``.
    """

    first_seen: str
    accepted: bool = False
    generation: str | None = None


class CachedResponse(NamedTuple):
    """An answer kept from an earlier request.

    Args:
        url: that was asked.
        fetched_at: seconds since the epoch.
        answered_by: the URL that answered, where redirects led elsewhere.
    """

    url: str
    body: bytes
    headers: Mapping[str, str]
    fetched_at: float
    answered_by: str = ""

    @property
    def base_url(self) -> str:
        """What relative URLs in the body are resolved against. Spec: RFC 3986 §5.1.3."""
        return self.answered_by or self.url


class Placement(NamedTuple):
    """Where a skill's folder stands: relative POSIX paths of skills folders.

    ``folders`` hold the skill's files; ``links`` hold a symbolic link to the first of ``folders``.
    """

    folders: tuple[str, ...]
    links: tuple[str, ...] = ()


class LockedSkill(NamedTuple):
    """One skill of ``skills.lock``.

    Args:
        origin: the publisher's place (a URL without the well-known part), or ``path:`` and a local folder.
        index: URL of the index that named it; empty for a local folder.
        url: what was downloaded.
        digest: of the artifact, as the index promised; None where an index has no digests.
        artifact_type: ``skill-md``, ``archive``, ``files`` or ``folder``.
        first_seen: when this digest was first installed here, RFC 3339 in UTC.
        files: ``path → SHA-256`` in hexadecimal of what was installed.
    """

    name: str
    origin: str
    index: str  # type: ignore[assignment]  # a tuple has a method of this name, which nobody calls here
    url: str
    digest: str | None
    artifact_type: str
    version: str | None
    first_seen: str
    agents: tuple[str, ...]
    placement: Placement
    files: Mapping[str, str]


class Lock(NamedTuple):
    """The whole of ``skills.lock``, by name."""

    skills: Mapping[str, LockedSkill] = {}

    def with_skills(self, skills: Sequence[LockedSkill]) -> Lock:
        """Return a lock in which ``skills`` are added or replaced."""
        return Lock({**self.skills, **{skill.name: skill for skill in skills}})

    def without(self, names: Sequence[str]) -> Lock:
        """Return a lock without ``names``."""
        return Lock({name: skill for name, skill in self.skills.items() if name not in names})


class StagedSkill(NamedTuple):
    """A skill that is ready to be put in place."""

    name: str
    files: Sequence[FileContent]
    placement: Placement
