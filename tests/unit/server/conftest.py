import time
from dataclasses import replace

import pytest
from tests.support.invoking import Caller, Scripted

from skillwire import limits
from skillwire.model.execution import ExecutionSettings
from skillwire.server import app as app_module
from skillwire.server import create_app
from skillwire.server.configuration import ServerConfiguration


@pytest.fixture
def settle(monkeypatch):
    """Return what makes folders old enough for their signature to be relied on."""

    def settle(*_):
        # A folder settles when a tick of the clock has passed; the clock goes on a tick.
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + 1_000_000_000)

    return settle


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def executor():
    return Scripted()


@pytest.fixture
async def serving(tmp_path, home, executor, monkeypatch):  # noqa: ARG001  # the state folder is the test's
    """Return what serves ``tmp_path/skills`` to a :class:`Caller`; ended with the test."""
    monkeypatch.setattr(app_module, "make_executors", lambda *_: {"python": lambda: executor, "http": lambda: executor})
    applications = []

    async def serve(settings=None, configuration=None, **options):
        settings = settings or ExecutionSettings(grant_all=True)
        configuration = replace(configuration or ServerConfiguration(), executions=settings)
        application = create_app(
            [tmp_path / "skills"], blobs=tmp_path / "blobs", publisher="acme", configuration=configuration, **options
        )
        applications.append(application)
        await application.startup()
        await application.catalog.first(20)
        return Caller(application)

    yield serve
    monkeypatch.setattr(limits, "SERVER_SHUTDOWN_SECONDS", 0)  # nobody waits for what a test left running
    for application in applications:
        await application.shutdown()
