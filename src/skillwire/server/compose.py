"""Putting the server together: folders, blobs, publication, authentication, application."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.loading import check_publisher, published_roots
from skillwire.adapters.sqlite.open import open_tokens
from skillwire.protocols.agent_skills.server import check_base_url
from skillwire.server.application import Application
from skillwire.server.auth.configuration import ServerConfiguration
from skillwire.server.authentication import Authentication
from skillwire.server.folders import PublishedFolders
from skillwire.server.publication import Publication

if TYPE_CHECKING:
    from collections.abc import Iterable


def app(
    folders: Iterable[str | os.PathLike[str]],
    *,
    base_url: str | None = None,
    publisher: str = "local",
    poll: float | None = None,
    blobs: str | os.PathLike[str] | None = None,
    access_log: bool = True,
    configuration: str | os.PathLike[str] | None = None,
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
        configuration: the file that says who may authenticate, and how; API keys and signed requests without it.

    Raises:
        UsageError: ``FOLDER_MISSING``, ``PUBLISHER_FORM``, ``SERVER_CONFIGURATION``.
        ValidationError: ``URL`` when ``base_url`` is none.
    """
    roots = published_roots(folders)
    store = FileBlobs(Path(blobs).absolute() if blobs is not None else state_directory() / "blobs")
    base = check_base_url(base_url)
    name = check_publisher(publisher)
    publication = Publication(PublishedFolders(roots, name, store), store, base_url=base, poll=poll)
    authentication = make_authentication(configuration, base)
    return Application(publication, authentication, publisher=name, access_log=access_log, base_url=base)


def make_authentication(configuration: str | os.PathLike[str] | None, base_url: str = "") -> Authentication:
    """Return what recognises those who ask, by the file ``configuration`` and the tokens in the state folder."""
    if configuration is None:
        return Authentication(ServerConfiguration(), open_tokens, base_url=base_url)
    from skillwire.server.auth.files import load_configuration, load_credentials  # noqa: PLC0415  # few have such a file

    settings = load_configuration(Path(configuration))
    if settings.oauth2 is None:
        return Authentication(settings, open_tokens, base_url=base_url)
    from skillwire.adapters.http.asynchronous import AsyncDriver  # noqa: PLC0415  # with an authorization server only
    from skillwire.server.auth.oauth import BearerTokens, issuer_policy  # noqa: PLC0415  # same
    from skillwire.trust.address import AddressPolicy  # noqa: PLC0415  # same

    driver = AsyncDriver(issuer_policy(AddressPolicy(), settings.oauth2))
    credentials = load_credentials(settings, os.environ)
    bearer = BearerTokens(settings.oauth2, settings.grants, driver, credentials=credentials)
    return Authentication(settings, open_tokens, bearer=bearer, driver=driver, base_url=base_url)
