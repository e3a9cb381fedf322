"""Where the bytes of a loaded skill go: into a blob store, to be served, or into the stage of a static site."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skillwire.adapters.files.atomic import storage_error
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.model.access import Access
from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.server import Listing, Site, artifact_name, skill_paths
from skillwire.protocols.skill_sharing.paths import descriptor_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.folder.publish import Prepared
    from skillwire.model.skill import Skill


class Keeper(Protocol):
    """Keeps the bytes of a skill."""

    def __call__(self, prepared: Prepared) -> None:
        """Keep the files and the artifact of ``prepared``."""


class KeepNothing:
    """Lets them go: for who only wants to know."""

    def __call__(self, prepared: Prepared) -> None:
        """Do nothing with ``prepared``."""


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

    Paths of equal content are hard links to one file: a third of the time and of the space. Nothing writes into
    a file of a site; a later build puts new ones in place.

    ``base_url`` is that of :class:`~skillwire.protocols.agent_skills.server.Site`; where there is one, a skill has a
    descriptor too, which needs it.
    """

    def __init__(self, directory: str, base_url: str) -> None:
        self._directory = directory
        self._base_url = base_url
        self._folders = {directory}

    def __call__(self, prepared: Prepared) -> None:
        """Write what a static site holds of ``prepared``: nothing, unless everyone may see it.

        Raises:
            StorageError: ``STORAGE``.
        """
        skill = prepared.skill
        if skill.access is not Access.PUBLIC:
            return
        bodies = {file.digest: held.content for file, held in zip(skill.files, prepared.files, strict=True)}
        bodies[skill.artifact.digest] = prepared.artifact
        written: dict[Digest, str] = {}
        site = Site(Catalog.of([skill]), self._base_url)
        for path in skill_paths(skill.name, artifact_name(skill), [file.path for file in skill.files]):
            answer = site.lookup(path)
            if isinstance(answer, Listing):
                self.write(path, answer.encode())
            elif answer is not None and answer.digest in written:
                self._link(written[answer.digest], path)
            elif answer is not None:
                self.write(path, bodies[answer.digest])
                written[answer.digest] = path
        if self._base_url:
            self._describe(skill, bodies)

    def _describe(self, skill: Skill, bodies: Mapping[Digest, bytes | memoryview]) -> None:
        from skillwire.protocols.skill_sharing.server import Sharing, written_descriptor  # noqa: PLC0415  # not always

        described = Sharing({skill.name: skill}, skill.publisher, self._base_url).describe(skill.name)
        content = bodies[described] if isinstance(described, Digest) else written_descriptor(described)
        self.write(descriptor_path(skill.name), content)

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write one file; ``path`` is that of a URL.

        Raises:
            StorageError: ``STORAGE``.
        """
        target = self._directory + path
        try:
            self._make_folder(target[: target.rindex("/")])
            with open(target, "xb") as file:  # noqa: PTH123  # one Path object for each file is felt
                file.write(content)
        except OSError as error:
            raise storage_error(error, Path(target)) from error

    def _link(self, path: str, other: str) -> None:
        target = self._directory + other
        try:
            self._make_folder(target[: target.rindex("/")])
            os.link(self._directory + path, target)
        except OSError:  # not every file system has links; a copy says what else may be wrong
            self.write(other, Path(self._directory + path).read_bytes())

    def _make_folder(self, folder: str) -> None:
        if folder not in self._folders:
            self._make_folder(folder[: folder.rindex("/")])
            with suppress(FileExistsError):  # another process was first
                os.mkdir(folder)  # noqa: PTH102  # as above
            self._folders.add(folder)
