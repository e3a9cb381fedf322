"""Values of installing: where skills go, what the lock holds, and what is stored about origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from skillwire.model.ref import GitFacts


class OriginRecord(NamedTuple):
    """What is stored about an origin."""

    first_seen: str  # RFC 3339 in UTC
    accepted: bool = False  # by the user, to install from there
    generation: str | None = None  # the highest index generation that it has served, such as "0.2.0"


class CachedResponse(NamedTuple):
    """A stored response to a request for ``url``."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    fetched_at: float  # seconds since the epoch
    answered_by: str = ""  # the URL after redirects

    @property
    def base_url(self) -> str:
        """The base of relative URLs in the body. Spec: RFC 3986 §5.1.3."""
        return self.answered_by or self.url


class InstallLocation(NamedTuple):
    """The skills folders that hold a skill's files, and those that link to the first; relative POSIX paths."""

    folders: tuple[str, ...]
    links: tuple[str, ...] = ()


class LockedSkill(NamedTuple):
    """One skill of ``skills.lock``."""

    name: str
    origin: str  # a URL without the well-known part, or "path:" and a local folder
    index: str  # type: ignore[assignment]  # URL, empty for a local folder; hides tuple.index, which is unused
    url: str  # of the download
    digest: str | None  # of the artifact, from the index; of a git one, as it is packed here
    artifact_type: str  # "skill-md", "archive", "files", "folder" or "git"
    version: str | None
    first_seen: str  # when this digest was first installed here, RFC 3339 in UTC
    agents: tuple[str, ...]
    placement: InstallLocation
    files: Mapping[str, str]  # path → SHA-256 in hexadecimal
    wanted: str = ""  # the version or range that it was asked for in; updates stay within it
    capabilities: tuple[str, ...] = ()
    requires: Mapping[str, str] = {}  # requirement → name of the installed skill that meets it
    git: GitFacts | None = None


class Lock(NamedTuple):
    """The whole of ``skills.lock``, by name."""

    skills: Mapping[str, LockedSkill] = {}

    def with_skills(self, skills: Sequence[LockedSkill]) -> Lock:
        """Return a lock in which ``skills`` are added or replaced."""
        return Lock({**self.skills, **{skill.name: skill for skill in skills}})

    def without(self, names: Sequence[str]) -> Lock:
        """Return a lock without ``names``."""
        return Lock({name: skill for name, skill in self.skills.items() if name not in names})
