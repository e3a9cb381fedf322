"""The skill ``skills.protocol.guide``, which teaches a model to use an endpoint of this protocol.

It lies in this package as the folder of a skill, and is prepared as any other. Every endpoint knows it by its name,
whatever is published there; a published skill of that name takes its place. Spec: specs §4, "every runtime ships the
instruction skill".
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.folder.publish import Prepared, prepare_files
from skillwire.model.skill import FileContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill

#: Its dotted name.
GUIDE: Final = "skills.protocol.guide"
_FOLDER: Final = PurePosixPath("guide", "skills-protocol-guide")
_FILES: Final = ("SKILL.md", "skill.toml")
_PUBLISHER: Final = "skills"


class Guide(NamedTuple):
    """The skill, and its files by their digests."""

    skill: Skill
    contents: Mapping[Digest, bytes]

    def read(self, digest: Digest) -> bytes | None:
        """Return a file, as a blob store does."""
        return self.contents.get(digest)

    @property
    def text(self) -> str:
        """Its SKILL.md."""
        return self.contents[self.skill.files[0].digest].decode()


@cache
def load_guide() -> Guide:
    """Return the guide."""
    folder = resources.files(__package__).joinpath(*_FOLDER.parts)
    files = tuple(FileContent(name, folder.joinpath(name).read_bytes()) for name in _FILES)
    prepared = prepare_files(_FOLDER.name, files, _PUBLISHER)
    if not isinstance(prepared, Prepared):
        raise TypeError(f"the guide cannot be published: {prepared.findings}")
    digests = [file.digest for file in prepared.skill.files]
    return Guide(prepared.skill, dict(zip(digests, (bytes(file.content) for file in prepared.files), strict=True)))
