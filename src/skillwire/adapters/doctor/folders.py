"""Checks of files and folders: settings, state, agents, credentials, the cache, and the installed skills."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Final

from skillwire.adapters.doctor.diagnosis import Diagnosis, from_error, judge_secret_file
from skillwire.adapters.files.atomic import cache_directory, config_directory, state_directory
from skillwire.adapters.files.client_cache import FileOriginBook, is_readable
from skillwire.adapters.files.credentials import netrc_file, open_store
from skillwire.adapters.files.install_folder import KEPT, STAGING, FileSkillsFolder
from skillwire.adapters.files.settings_file import find_project_file, user_file
from skillwire.resolver.agents import AGENTS, choose_agents, plan_placement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skillwire.adapters.doctor.environment import Environment
    from skillwire.adapters.files.credentials import StoredLogin
    from skillwire.model.install import LockedSkill


_HASHING_SECONDS: Final = 2.0  # of a check that may take five; a cache may hold gigabytes
_MEBIBYTE: Final = 1024 * 1024


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
        return Diagnosis("ok", f"{shown}: writable" if standing == folder else f"{shown}: not there yet, can be made")
    if not standing.is_dir():
        why = "It is a file, or a link to nothing, where a folder must be."
        return Diagnosis("problem", f"{shown}: {standing} is not a folder", why, f"Move {standing} away.")
    why = "Nothing can be installed or remembered there."
    fix = f"Give yourself permission to write {standing}."
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
