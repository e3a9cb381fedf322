"""Where the bytes of a loaded skill go: into a blob store, to be served, or into the stage of a static site."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skillwire.adapters.files.atomic import storage_error
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.model.access import Access
from skillwire.model.catalog import Catalog
from skillwire.protocols.agent_skills.server import Site, Stored, skill_paths

if TYPE_CHECKING:
    from skillwire.folder.publish import Prepared


class Keeper(Protocol):
    """Keeps the bytes of a skill."""

    def __call__(self, prepared: Prepared) -> None:
        """Keep the files and the artifact of ``prepared``."""


class KeepBlobs:
    """Keeps them in a blob store."""

    def __init__(self, directory: str) -> None:
        self._blobs = FileBlobs(Path(directory))

    def __call__(self, prepared: Prepared) -> None:
        """Keep the files and the artifact of ``prepared``."""
        for content in (*(file.content for file in prepared.files), prepared.artifact):
            self._blobs.put(bytes(content))


class KeepStaged:
    """Writes them below ``directory``, at every path of a static site that depends on this skill alone.

    ``base_url`` is that of :class:`~skillwire.protocols.agent_skills.server.Site`.
    """

    def __init__(self, directory: str, base_url: str) -> None:
        self._directory = directory
        self._base_url = base_url
        self._folders: set[str] = set()

    def __call__(self, prepared: Prepared) -> None:
        """Write what a static site holds of ``prepared``: nothing, unless everyone may see it."""
        skill = prepared.skill
        if skill.access is not Access.PUBLIC:
            return
        bodies = {file.digest: held.content for file, held in zip(skill.files, prepared.files, strict=True)}
        bodies[skill.artifact.digest] = prepared.artifact
        site = Site(Catalog.of([skill]), self._base_url)
        for path in skill_paths(skill):
            answer = site.lookup(path)
            if isinstance(answer, Stored):
                self.write(path, bodies[answer.digest])
            elif answer is not None:
                self.write(path, answer.encode())

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write one file; ``path`` is that of a URL.

        Raises:
            StorageError: ``STORAGE``.
        """
        target = self._directory + path
        folder = target[: target.rindex("/")]
        try:
            if folder not in self._folders:
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103  # one Path object for each file is felt
                self._folders.add(folder)
            with open(target, "xb") as file:  # noqa: PTH123  # same
                file.write(content)
        except OSError as error:
            raise storage_error(error, Path(target)) from error
