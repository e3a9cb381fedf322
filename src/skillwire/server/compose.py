"""Putting the server together: folders, blobs, publication, application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.loading import check_publisher, published_roots
from skillwire.protocols.agent_skills.server import check_base_url
from skillwire.server.application import Application
from skillwire.server.folders import PublishedFolders
from skillwire.server.publication import Publication

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable


def app(
    folders: Iterable[str | os.PathLike[str]],
    *,
    base_url: str | None = None,
    publisher: str = "local",
    poll: float | None = None,
    blobs: str | os.PathLike[str] | None = None,
    access_log: bool = True,
) -> Application:
    """Return an ASGI application that publishes the skills in ``folders`` and follows their changes.

    It runs alone under any ASGI server, or mounted below any path of another application. Where the framework
    hands it no lifespan events, it starts with the first request; call its ``startup()`` and ``shutdown()`` to
    decide yourself.

    Args:
        folders: folders of skills, or skills.
        base_url: put before the URLs in indexes, which are relative without it.
        publisher: the provider's part of identifiers, such as ``example-corp``.
        poll: seconds between two looks at the folders, instead of notifications of changes.
        blobs: where the bytes that are served are kept; in the user's state folder unless given.
        access_log: whether each request is logged, with structlog.

    Raises:
        UsageError: ``FOLDER_MISSING``, ``PUBLISHER_FORM``.
        ValidationError: ``URL`` when ``base_url`` is none.
    """
    roots = published_roots(folders)
    store = FileBlobs(Path(blobs).absolute() if blobs is not None else state_directory() / "blobs")
    base = check_base_url(base_url)
    publication = Publication(
        PublishedFolders(roots, check_publisher(publisher), store), store, base_url=base, poll=poll
    )
    return Application(publication, access_log=access_log, base_url=base)
