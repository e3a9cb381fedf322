"""What is known of a skill at its origin, and what is read out of its files once they are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import DecodeError, NotFoundError
from skillwire.folder.frontmatter import parse_skill_md, split_body
from skillwire.trust.paths import check_path

if TYPE_CHECKING:
    from skillwire.model.ref import RpcFacts, SharedFacts, SkillRef
    from skillwire.resolver.locate import Files, LocatedSkill

_SKILL_MD: Final = "SKILL.md"


class IndexedSkill:
    """Level 1: what the index says of a skill. Nothing else was fetched."""

    def __init__(self, located: LocatedSkill) -> None:
        self._located = located

    @property
    def ref(self) -> SkillRef:
        """Name, origin, description, version and digest as one value."""
        return self._located.ref

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
    def shared(self) -> SharedFacts | None:
        """What Skill Sharing says of it: id, capability type, access; None where that was not asked or is silent."""
        return self.ref.shared

    @property
    def rpc(self) -> RpcFacts | None:
        """What an endpoint of the Skills Protocol says of it; None where it was not found at one."""
        return self.ref.rpc

    @property
    def digest(self) -> str | None:
        """Its artifact's digest; None where the index has none."""
        return self.ref.digest

    @property
    def artifact_type(self) -> str:
        """``skill-md``, ``archive`` or ``files``; ``none`` where there is a descriptor alone."""
        return "none" if self.ref.is_only_described else self._located.entry.artifact_type

    @property
    def url(self) -> str:
        """Where its artifact, or its ``SKILL.md``, or else its descriptor, is fetched from."""
        return self._located.entry.url


def read_file(name: str, path: str, files: Files) -> bytes:
    """Return the bytes of the file at ``path`` of the skill ``name``.

    Raises:
        TrustError: a path that leads out. NotFoundError: ``FILE_NOT_FOUND``.
    """
    checked = check_path(path)
    for file in files:
        if file.path == checked:
            return bytes(file.content)
    raise NotFoundError("FILE_NOT_FOUND", f"{name} has no file {checked}")


def read_body(name: str, files: Files) -> str:
    """Return the instructions of the skill ``name``: ``SKILL.md`` without its frontmatter."""
    return parse_skill_md(read_file(name, _SKILL_MD, files), source=f"{name}/{_SKILL_MD}").body


def body_of(content: bytes, name: str) -> str:
    """Return the instructions of a ``SKILL.md`` of an endpoint, whatever its frontmatter says: all of it without one.

    The Skills Protocol knows fields of its own there, and names with spaces.
    """
    source = f"{name}/{_SKILL_MD}"
    try:
        return split_body(content, source=source)
    except DecodeError as error:
        if error.code != "FRONTMATTER":
            raise
        return content.decode()
