"""What every test has: a home of its own, no clock pressure on properties, and a closing line that counts."""

import gc
import os
import re
import signal
import socket
import subprocess
import sys
from asyncio import AbstractEventLoop, new_event_loop
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import structlog
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings
from tests.support.documents import check_document
from tests.support.examples import FEW, MANY
from tests.support.free_port import free_port
from tests.support.virtual_time import VirtualTimeLoop

# Two cores that other work shares make a slow example no finding. ``./dev test`` tries the same few examples each time,
# so that a change is refused for what it does; ``./dev test-deep`` looks for new ones, outside CI.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("test", _COMMON, derandomize=True, max_examples=FEW)
settings.register_profile("deep", _COMMON, derandomize="CI" in os.environ, max_examples=MANY)
settings.load_profile("test")

# Each program that a test starts would otherwise compile all that it imports: a second, thousands of times.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("PYTHONUNBUFFERED", None)  # programs write into pipes as those of a user do

# Under nohup or in the background of a script these signals are ignored, also in the programs that tests start, and a
# program that ignores a signal never ends by it. A handler of our own is not inherited: there they end a program again.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

_OF_THE_USER = ("SKILLWIRE_", "XDG_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NETRC", "LOCALAPPDATA")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes transcripts anew."""
    parser.addoption("--update-transcripts", action="store_true", help="write tests/e2e/transcripts anew")


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], AbstractEventLoop]]:
    """Run what is marked so in virtual time."""
    is_virtual = item.get_closest_marker("virtual_time")
    return {"virtual": VirtualTimeLoop} if is_virtual else {"real": new_event_loop}


gc.disable()  # until all tests are collected

# The coloured tracebacks of rich, with all variables, take a second each, and no test reads them.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback


def pytest_collection_finish() -> None:
    """Let no search for cycles look again through what was imported for all tests: it costs more than most of them."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _new_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what makes a folder that nobody had: pytest's own looks at all that there are, each time."""
    above, numbers = tmp_path_factory.mktemp("each"), count()

    def new_folder(name: str) -> Path:
        folder = above / f"{re.sub(r'[^a-zA-Z0-9_]', '_', name)[:30]}{next(numbers)}"
        folder.mkdir(0o700)
        return folder

    return new_folder


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, _new_folder: Callable[[str], Path]) -> Path:
    """Give an empty folder, in place of the one of pytest."""
    return _new_folder(request.node.name)


@pytest.fixture
def unused_udp_port() -> int:
    """Give a free port of UDP, in place of the one of pytest-asyncio, which the system may give to others meanwhile."""
    return free_port(socket.SOCK_DGRAM)


@pytest.fixture(autouse=True)
def _own_home(_new_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests away from the user's settings, cache, credentials and agents, in this process and below."""
    for name in [name for name in os.environ if name.upper().startswith(_OF_THE_USER)]:
        if not name.startswith("SKILLWIRE_TEST_"):  # it says what to test with
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(_new_folder("home")))


@pytest.fixture(autouse=True)
def _documented_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold what the command line prints with ``--json``, in this process and below, against its schema."""
    communicate, echo = subprocess.Popen.communicate, click.echo

    def checked_communicate(process, *arguments, **options):
        out, errors = communicate(process, *arguments, **options)
        check_document(out)
        return out, errors

    def checked_echo(message=None, *arguments, **options):
        if isinstance(message, str):
            check_document(message)
        echo(message, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "communicate", checked_communicate)
    monkeypatch.setattr(click, "echo", checked_echo)


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close what a test opened in its home: each database holds descriptors, and a process has a thousand."""
    yield
    if opened := sys.modules.get("skillwire.adapters.stores"):
        opened.close_stores()


@pytest.fixture(autouse=True)
def _stopped_catalogs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the threads of catalogs that a test began: they would look on, with what later tests put in place."""
    begun: list[Any] = []
    if module := sys.modules.get("skillwire.server.catalog_service"):
        start = module.CatalogService.start

        def noted_start(catalog):
            if catalog._thread is None:
                begun.append(catalog)
            start(catalog)

        monkeypatch.setattr(module.CatalogService, "start", noted_start)
    yield
    for catalog in begun:
        catalog.stop()


@pytest.fixture(scope="session")
def _postgres() -> Iterator[ModuleType]:
    """Give what starts PostgreSQL with the first test that needs it, and end that."""
    from tests.support import postgres  # noqa: PLC0415  # most tests need none

    yield postgres
    postgres.close_server()


@pytest.fixture
def postgres_url(_postgres: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the address of a database of PostgreSQL with the schema and without rows; it may be slow."""
    _postgres.set_deadlines(monkeypatch, _postgres.PATIENCE)
    with _postgres.emptied_database() as url:
        yield url


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print, after everything else, why tests were skipped and how many passed, failed and were skipped."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput") or config.option.collectonly:
        return
    for line in _closing_lines(terminal):
        terminal.write_line(line)


def _closing_lines(terminal: TerminalReporter) -> Iterator[str]:
    reports = {
        outcome: terminal.stats.get(outcome, []) for outcome in ("passed", "failed", "error", "skipped", "xfailed")
    }
    reasons = Counter(_reason(report) for outcome in ("skipped", "xfailed") for report in reports[outcome])
    for reason, number in reasons.most_common():
        yield f"skipped {number}: {reason}"
    failed = len(reports["failed"]) + len(reports["error"])
    yield f"{len(reports['passed'])} passed, {failed} failed, {reasons.total()} skipped"


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)
