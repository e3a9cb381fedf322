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

    from skillwire.server.auth.oauth import BearerTokens


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
    authentication = make_authentication(configuration)
    return Application(publication, authentication, publisher=name, access_log=access_log, base_url=base)


def make_authentication(configuration: str | os.PathLike[str] | None) -> Authentication:
    """Return what recognises those who ask, by the file ``configuration`` and the tokens in the state folder."""
    if configuration is None:
        return Authentication(ServerConfiguration(), open_tokens)
    from skillwire.server.auth.files import load_configuration  # noqa: PLC0415  # most servers have no such file

    settings = load_configuration(Path(configuration))
    return Authentication(settings, open_tokens, bearer=_bearer_tokens(settings))


def _bearer_tokens(configuration: ServerConfiguration) -> BearerTokens | None:
    settings = configuration.oauth2
    if settings is None:
        return None
    from skillwire.adapters.http.asynchronous import AsyncDriver  # noqa: PLC0415  # with an authorization server only
    from skillwire.server.auth.files import load_credentials  # noqa: PLC0415  # same
    from skillwire.server.auth.oauth import BearerTokens, issuer_policy  # noqa: PLC0415  # same
    from skillwire.trust.address import AddressPolicy  # noqa: PLC0415  # same

    driver = AsyncDriver(issuer_policy(AddressPolicy(), settings))
    credentials = load_credentials(configuration, os.environ)
    return BearerTokens(settings, configuration.grants, driver, credentials=credentials)
