"""A skill that was found: the same value from every source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from skillwire.model.skill import FileContent

if TYPE_CHECKING:
    from skillwire.model.digest import Digest
    from skillwire.model.lan import Freshness, LanSkill

#: The files of a skill, with their bytes.
Files = tuple[FileContent, ...]
#: The id of a blob at an endpoint begins with it. Spec: specs §4.
BLOB: Final = "blob:"
#: The origin of a skill from a folder or a repository of this machine begins with it.
LOCAL: Final = "path:"


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

    status: str = "active"  # deprecated, yanked, quarantined
    reason: str = ""
    successor: str = ""
    published: float | None = None
    published_by: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether a range resolves to it."""
        return self.status in {"active", "deprecated"}


class SkillRef(NamedTuple):
    """A skill that was found, and how to get it: the same value from every source.

    Args:
        origin: a URL without the well-known part, an endpoint's URL, or ``path:`` and a local folder.
        digest: of its artifact; None where the source has none, so nothing can be verified.
        found_via: the sources, such as ``agent-skills 0.2.0``, ``skill-sharing`` or ``skills-rpc``.
        fetched_at: when the source was read, or heard the skill, in seconds since the epoch.
        rpc: from a Skills Protocol endpoint, which is then the only source.
        artifact_type: ``skill-md``, ``archive``, ``files`` (fetched one by one), ``git`` or ``none``.
        url: of its artifact, its ``SKILL.md`` or its descriptor; a path for a local folder.
        index_url: of the index that lists it; empty for a local folder.
        files: with their bytes, if already loaded.
        release: None if it comes from an index and is active.
        requires: see :mod:`skillwire.model.requirement`.
        tags: words for search.
        described: an endpoint's description of a skill requested by name.
        freshness: ``live``, or ``cached`` since :attr:`fetched_at`; ``stale`` when the cache is older than the source
            allows, which is used offline only.
        lan: of a local network: its announcement, with health and trust.
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
    artifact_type: str = "none"
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
