"""A skill at its origin, loaded progressively: what the index says, the instructions, single files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import NotFoundError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.trust.paths import check_path

if TYPE_CHECKING:
    from skillwire.client.asynchronous import AsyncClient
    from skillwire.client.synchronous import Client
    from skillwire.model.ref import SkillRef
    from skillwire.resolver.locate import Files, LocatedSkill

_SKILL_MD: Final = "SKILL.md"


class _Remote:
    """What is known of a skill without loading it."""

    def __init__(self, located: LocatedSkill) -> None:
        self.located = located
        self._files: Files | None = None

    @property
    def ref(self) -> SkillRef:
        """Everything that the index says."""
        return self.located.ref

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.ref.name

    @property
    def description(self) -> str:
        """What it does and when to use it; hidden characters are shown as escapes."""
        return self.ref.description

    @property
    def version(self) -> str | None:
        """Its version, where the index says it."""
        return self.ref.version

    @property
    def digest(self) -> str | None:
        """Its artifact's digest; None where the index has none."""
        return self.ref.digest

    def _open(self, path: str, files: Files) -> bytes:
        checked = check_path(path)
        for file in files:
            if file.path == checked:
                return bytes(file.content)
        raise NotFoundError("FILE_NOT_FOUND", f"{self.name} has no file {checked}")

    def _body(self, files: Files) -> str:
        return parse_skill_md(self._open(_SKILL_MD, files), source=f"{self.name}/{_SKILL_MD}").body


class RemoteSkill(_Remote):
    """A skill at its origin: level 1 is at hand, ``body`` is level 2, ``open`` level 3.

    Spec: ASD Progressive Disclosure.
    """

    def __init__(self, client: Client, located: LocatedSkill) -> None:
        super().__init__(located)
        self._client = client

    def files(self) -> Files:
        """Return all files with their bytes, sorted by path; fetched and verified once."""
        if self._files is None:
            self._files = self._client.run(self._client.files(self.located))
        return self._files

    def body(self) -> str:
        """Return the instructions: ``SKILL.md`` without its frontmatter."""
        return self._body(self.files())

    def open(self, path: str) -> bytes:
        """Return the bytes of one file.

        Raises:
            TrustError: a path that leads out. NotFoundError: ``FILE_NOT_FOUND``.
        """
        return self._open(path, self.files())


class AsyncRemoteSkill(_Remote):
    """A skill at its origin, as :class:`RemoteSkill`, awaited."""

    def __init__(self, client: AsyncClient, located: LocatedSkill) -> None:
        super().__init__(located)
        self._client = client

    async def files(self) -> Files:
        """Return all files with their bytes, sorted by path; fetched and verified once."""
        if self._files is None:
            self._files = await self._client.run(self._client.files(self.located))
        return self._files

    async def body(self) -> str:
        """Return the instructions: ``SKILL.md`` without its frontmatter."""
        return self._body(await self.files())

    async def open(self, path: str) -> bytes:
        """Return the bytes of one file, as :meth:`RemoteSkill.open` does."""
        return self._open(path, await self.files())
