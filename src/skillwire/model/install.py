"""Values of installing: where skills go, what the lock holds, and what is stored about origins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class OriginRecord(NamedTuple):
    """What is stored about an origin.

    Args:
        first_seen: RFC 3339 in UTC.
        accepted: whether the user agreed to install from there.
        generation: the highest index generation that it has served, such as ``0.2.0``.
    """

    first_seen: str
    accepted: bool = False
    generation: str | None = None


class CachedResponse(NamedTuple):
    """A stored response.

    Args:
        url: of the request.
        fetched_at: seconds since the epoch.
        answered_by: the URL after redirects.
    """

    url: str
    body: bytes
    headers: Mapping[str, str]
    fetched_at: float
    answered_by: str = ""

    @property
    def base_url(self) -> str:
        """The base of relative URLs in the body. Spec: RFC 3986 §5.1.3."""
        return self.answered_by or self.url


class InstallLocation(NamedTuple):
    """Where a skill's folder goes: ``folders`` hold its files, ``links`` a symbolic link to the first of them.

    All are relative POSIX paths of skills folders.
    """

    folders: tuple[str, ...]
    links: tuple[str, ...] = ()


class LockedSkill(NamedTuple):
    """One skill of ``skills.lock``.

    Args:
        origin: a URL without the well-known part, or ``path:`` and a local folder.
        index: URL of the index; empty for a local folder.
        url: of the download.
        digest: of the artifact, from the index; None without digests.
        artifact_type: ``skill-md``, ``archive``, ``files`` or ``folder``.
        first_seen: when this digest was first installed here, RFC 3339 in UTC.
        files: ``path → SHA-256`` in hexadecimal of the installed files.
    """

    name: str
    origin: str
    index: str  # type: ignore[assignment]  # hides tuple.index, which is unused
    url: str
    digest: str | None
    artifact_type: str
    version: str | None
    first_seen: str
    agents: tuple[str, ...]
    placement: InstallLocation
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
