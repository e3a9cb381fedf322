"""A skill that was found: the same value from every source. Spec: ARCHITECTURE, "Find"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from skillwire.model.skill import FileContent

if TYPE_CHECKING:
    from skillwire.model.digest import Digest

#: The files of a skill, with their bytes.
Files = tuple[FileContent, ...]


class SharedFacts(NamedTuple):
    """What an index of Skill Sharing says of a skill. Spec: SSP §4.3.3.

    Args:
        id: its identifier there.
        title: its name for people.
        capability_type: ``plugin``, ``api``, ``knowledge`` or ``task``.
        access: ``public``, ``restricted`` or ``private``.
        provider: who publishes the index; None where a registry does not say.
        descriptor_url: where everything else about it stands.
    """

    id: str
    title: str
    capability_type: str
    access: str
    provider: str | None
    descriptor_url: str


class RpcFacts(NamedTuple):
    """What an endpoint of the Skills Protocol says of a skill. Spec: SKP ``list_skills``.

    Args:
        endpoint: its URL.
        namespace: which the skill belongs to; empty where it does not say.
        kind: ``action`` or ``instruction``; empty where it does not say.
    """

    endpoint: str
    namespace: str
    kind: str


class IndexedFile(NamedTuple):
    """One file that an index names: its path in the skill, where to fetch it, its digest when one is given."""

    path: str
    url: str
    digest: Digest | None = None


class SkillRef(NamedTuple):
    """A skill that was found, and how to get it: the same value from every source.

    Args:
        origin: the publisher's place: a URL without the well-known part, that of an endpoint, or ``path:`` and a local
            folder.
        digest: of its artifact; None where the source has none, so that nothing can be verified.
        found_via: which sources named it, such as ``agent-skills 0.2.0``, ``skill-sharing`` or ``skills-rpc``.
        fetched_at: when the source said so, in seconds since the epoch.
        shared: what Skill Sharing says of it, where that was asked and lists it.
        rpc: what the Skills Protocol says of it, where an endpoint lists it; then nothing else was asked.
        capabilities: what it can do, where its index or its folder says so, in the words of Skill Discovery.
        scenes: that it takes part in, likewise.
        artifact_type: ``skill-md``, ``archive``, ``files`` where they are fetched one by one, or ``none``.
        url: of its artifact, or its ``SKILL.md``, or else its descriptor; a path for a local folder.
        index_url: of the index that lists it; empty for a local folder.
        indexed_files: the files to fetch, where there is no artifact.
        files: with their bytes, where they are at hand.
        requested_by_name: False where it came with the others of its index.
        described: what an endpoint has said of a skill that was asked for by name.
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

    @property
    def is_local(self) -> bool:
        """Whether it comes from a folder of this machine: its bytes are at hand."""
        return self.files is not None

    @property
    def is_only_described(self) -> bool:
        """Whether Skill Sharing alone lists it, so that there is a descriptor, and no artifact that has a digest."""
        return self.shared is not None and self.name == self.shared.id

    @property
    def has_no_artifact(self) -> bool:
        """Whether nothing of it can be installed: it is called, or read where it is."""
        return self.is_only_described or self.rpc is not None
