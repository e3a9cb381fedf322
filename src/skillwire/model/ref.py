"""A skill that was found, the same value from every source; its installation, lock, and what is kept of its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from skillwire.model.skill import FileContent

if TYPE_CHECKING:
    from skillwire.model.digest import Digest
    from skillwire.model.lan import Freshness, LanSkill

#: The files of a skill, with their bytes.
Files = tuple[FileContent, ...]
#: The id of a blob at an endpoint begins with it. Spec: specs §4.
BLOB_PREFIX: Final = "blob:"
#: The origin of a skill from a folder or a repository of this machine begins with it.
LOCAL: Final = "path:"
#: How the files of a skill are had; ``none`` of one that is only described or called.
AnyArtifactType = Literal["skill-md", "archive", "files", "folder", "git", "none"]


class SharedFacts(NamedTuple):
    """The facts about a skill in a Skill Sharing index. Spec: SSP §4.3.3."""

    id: Annotated[str, "ID in Skill Sharing"]
    title: Annotated[str, "Name for people"]
    capability_type: Annotated[str, "Capability type", Literal["plugin", "api", "knowledge", "task"]]
    access: Annotated[str, "Who may see and invoke it", Literal["public", "restricted", "private"]]
    provider: Annotated[str | None, "Publisher; null if a registry does not name it"]
    descriptor_url: Annotated[str, "URL of its descriptor"]


class RpcFacts(NamedTuple):
    """The facts about a skill at a Skills Protocol endpoint; unstated ones are empty. Spec: SKP ``list_skills``."""

    endpoint: Annotated[str, "URL of the endpoint"]
    namespace: Annotated[str, "Namespace; empty if the endpoint does not name one"]
    kind: Annotated[str, "Kind; empty if the endpoint does not name one", Literal["action", "instruction", ""]]


class GitFile(NamedTuple):
    """A file or link of a commit: its path, its mode, and the name of its content."""

    path: str
    mode: str
    blob: str


class GitFacts(NamedTuple):
    """Where a skill is in a Git repository.

    Args:
        commit: its name, of 40 hexadecimal characters.
        path: of the skill's folder; empty for the whole repository.
        tree: the name of that folder's content, which other commits may have, too.
        ref: the branch, tag, commit or range that was asked for; empty for the default branch.
        files: of the folder, as far as they are known; their paths are relative to it.
    """

    commit: str
    path: str
    tree: str
    ref: str = ""
    files: tuple[GitFile, ...] = ()


class IndexedFile(NamedTuple):
    """One file of an index: its path in the skill, its URL, its digest if given."""

    path: str
    url: str
    digest: Digest | None = None


class Release(NamedTuple):
    """The state of a version; ``published`` is seconds since the epoch, and only in the list of a skill's versions."""

    status: str = "active"  # archived, deprecated, yanked, quarantined
    reason: str = ""
    successor: str = ""
    published: float | None = None
    published_by: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether a range resolves to it."""
        return self.status in {"active", "archived", "deprecated"}


class SkillRef(NamedTuple):
    """A skill that was found, and how to get it: the same value from every source.

    Args:
        origin: a URL without the well-known part, an endpoint's URL, or ``path:`` and a local folder.
        digest: of its artifact; None where the source has none, so nothing can be verified.
        found_via: the sources, such as ``agent-skills 0.2.0``, ``skill-sharing`` or ``skills-rpc``.
        fetched_at: when the source was read, or heard the skill, in seconds since the epoch.
        rpc: from a Skills Protocol endpoint, which is then the only source.
        artifact_type: ``files`` are fetched one by one.
        url: of its artifact, its ``SKILL.md`` or its descriptor; a path for a local folder.
        index_url: of the index that lists it; empty for a local folder.
        files: with their bytes, if already loaded.
        release: None if it comes from an index and is active.
        requires: see :mod:`skillwire.model.package`.
        tags: words for search.
        described: an endpoint's description of a skill requested by name.
        freshness: ``live``, or ``cached`` since :attr:`fetched_at`; ``stale`` when the cache is older than the source
            allows, which is used offline only.
        lan: of a local network: its announcement, with health and trust.
        former_origin: of its namespace before its registry renamed that, and redirected it to :attr:`origin`.
    """

    name: str
    origin: str
    description: str
    version: str | None
    digest: Digest | None
    found_via: str
    fetched_at: float
    shared: SharedFacts | None = None
    rpc: RpcFacts | None = None
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    artifact_type: AnyArtifactType = "none"
    url: str = ""
    index_url: str = ""
    indexed_files: tuple[IndexedFile, ...] = ()
    files: Files | None = None
    requested_by_name: bool = True
    described: Any = None
    requires: tuple[str, ...] = ()
    release: Release | None = None
    git: GitFacts | None = None
    freshness: Freshness = "live"
    lan: LanSkill | None = None
    tags: tuple[str, ...] = ()
    former_origin: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, whose bytes are loaded, or in a repository of this machine."""
        return self.files is not None or self.origin.startswith(LOCAL)

    @property
    def is_only_described(self) -> bool:
        """Whether only Skill Sharing lists it: a descriptor without an artifact that has a digest."""
        return self.shared is not None and self.name == self.shared.id

    @property
    def has_no_artifact(self) -> bool:
        """Whether it cannot be installed, only called or read at its endpoint."""
        return self.is_only_described or self.rpc is not None or not (self.url or self.files is not None)


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
    artifact_type: AnyArtifactType
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
