"""What ``skillwire doctor`` examines: a table of checks, all run at once, each by itself.

A check is a function that takes the :class:`Environment` and yields a diagnosis for each fact worth knowing, good ones
included. An exception becomes its diagnosis, and a check that takes too long is abandoned, so no check stops another.
A new part of skillwire adds its checks as rows of :data:`CHECKS`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from skillwire.adapters.checks import Diagnosis, Environment, Section, Severity, from_error
from skillwire.adapters.checks.network import (
    check_authorities,
    check_dht,
    check_lan,
    check_offline,
    check_policy,
    check_proxies,
    check_source,
)
from skillwire.adapters.checks.system import (
    check_agents,
    check_cache,
    check_file_times,
    check_installed,
    check_installed_parts,
    check_leftovers,
    check_own_folders,
    check_python,
    check_sandbox,
    check_secret_files,
    check_server,
    check_settings,
    check_store,
)
from skillwire.adapters.files.settings_file import load_settings
from skillwire.adapters.http.sync import call_within, run_parallel
from skillwire.errors import SkillwireError, in_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


def count(sections: Iterable[Section]) -> Mapping[Severity, int]:
    """Return the number of diagnoses of each severity."""
    severities = Counter(diagnosis.severity for section in sections for diagnosis in section.diagnoses)
    return {severity: severities[severity] for severity in get_args(Severity)}


def read_environment(
    root: Path,
    environment: Mapping[str, str],
    now: float,
    *,
    for_user: bool = False,
    offline: bool = False,
    store: str = "",
) -> Environment:
    """Return the environment of ``root``. Settings that cannot be read are a finding."""
    try:
        settings = load_settings(root, environment)
    except SkillwireError as error:
        return Environment(root, environment, now, for_user, offline, store, settings_error=error)
    return Environment(root, environment, now, for_user, offline or settings.offline, store, settings)


class Check(NamedTuple):
    """One check: its section, its subject, the function that looks, and how many seconds it may take."""

    section: str
    subject: str
    look: Callable[[Environment], Iterator[Diagnosis]]
    deadline: float = 5.0


CHECKS: Final = (
    Check("Python", "the interpreter", check_python),
    Check("Python", "the packages that skillwire needs", check_installed_parts, 30.0),  # imports, extras included
    Check("Settings", "the settings", check_settings),
    Check("Sandbox", "the sandbox", check_sandbox),
    Check("Network", "proxies", check_proxies),
    Check("Network", "the address policy", check_policy),
    Check("Network", "being offline", check_offline),
    Check("Network", "the local network", check_lan),
    Check("Network", "the DHT", check_dht),
    Check("Network", "certificate authorities", check_authorities),
    Check("Clock", "times of files", check_file_times),
    Check("Folders", "our own folders", check_own_folders),
    Check("Folders", "the server's database and tasks", check_server),
    Check("Folders", "credentials", check_secret_files),
    Check("Folders", "the shared database", check_store, 10.0),  # several hosts, each with its own time
    Check("Cache", "the cache", check_cache),
    Check("Agents", "the agents' folders", check_agents),
    Check("Installed skills", "the lock", check_installed),
    Check("Installed skills", "what was left behind", check_leftovers),
)


def examine(surroundings: Environment, checks: Sequence[Check] = CHECKS) -> list[Section]:
    """Run ``checks``, and one for each configured source, all at once; return their sections in order."""
    sources = [] if surroundings.offline else surroundings.settings.sources
    rows = [*checks, *(Check("Network", name, partial(check_source, name), 15.0) for name in sources)]
    found: dict[int, list[Diagnosis]] = {}
    calls = [partial(_run, row, surroundings) for row in rows]
    for index, outcome in run_parallel(calls, threads=len(calls)):
        if isinstance(outcome, BaseException):
            raise outcome
        found[index] = outcome
    sections: dict[str, list[Diagnosis]] = {}
    for index, row in enumerate(rows):
        sections.setdefault(row.section, []).extend(found[index])
    return [Section(title, tuple(diagnoses)) for title, diagnoses in sections.items()]


def _run(row: Check, surroundings: Environment) -> list[Diagnosis]:
    seen: list[Diagnosis] = []

    def look() -> bool:
        for diagnosis in row.look(surroundings):
            seen.append(diagnosis)  # noqa: PERF402  # what was seen before an error or the deadline counts, too
        return True

    try:
        if call_within(look, row.deadline) is None:
            what = f"{row.subject}: no answer within {in_seconds(row.deadline)}"
            fix = "Try again; a name server, a server or a disk hangs."
            seen.append(Diagnosis("problem", what, "Commands that need it would wait as well.", fix))
    except SkillwireError as error:
        seen.append(from_error(error))
    except Exception as error:  # noqa: BLE001  # a check that breaks is a finding of its own, and stops no other
        what = f"{row.subject} could not be looked at: {type(error).__name__}: {error}"
        fix = "skillwire explain INTERNAL describes how to report it."
        seen.append(Diagnosis("problem", what, "The check itself failed.", fix))
    return seen
