"""How executions are run, as the command line says it over the configuration file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skillwire.server.configuration import ServerConfiguration, load_configuration


def read_server_configuration(path: str | None, *, grant_all: bool, workers: int | None) -> ServerConfiguration:
    """Return what the file at ``path`` says, if there is one, with what the command line says in its place.

    Raises:
        StorageError, DecodeError, UsageError: as :func:`skillwire.server.configuration.load_configuration`.
    """
    configuration = ServerConfiguration() if path is None else load_configuration(Path(path))
    executions = configuration.executions
    if grant_all:
        executions = replace(executions, grant_all=True)
    if workers is not None:
        executions = replace(executions, concurrency=workers)
    return replace(configuration, executions=executions)
