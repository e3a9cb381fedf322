"""The checks of ``skillwire doctor``: a table, all run at once, each by itself.

A check is a function that takes the :class:`~skillwire.adapters.doctor.environment.Environment` and yields diagnoses.
An exception becomes its diagnosis, and a check that takes too long is abandoned, so no check stops another. A new part
of skillwire adds its checks as rows here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.adapters.doctor import environment, folders
from skillwire.adapters.doctor.diagnosis import Diagnosis, Section, from_error
from skillwire.adapters.http.sync import call_within, run_parallel
from skillwire.errors import SkillwireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skillwire.adapters.doctor.environment import Environment


DEADLINE_SECONDS: Final = 5.0


class Check(NamedTuple):
    """One check: its section, its subject, and the function that looks."""

    section: str
    subject: str
    look: Callable[[Environment], Iterator[Diagnosis]]


CHECKS: Final = (
    Check("Python", "the interpreter", environment.check_python),
    Check("Python", "the packages that skillwire needs", environment.check_installed_parts),
    Check("Settings", "the settings", folders.check_settings),
    Check("Sandbox", "the sandbox", environment.check_sandbox),
    Check("Network", "proxies", environment.check_proxies),
    Check("Network", "the address policy", environment.check_policy),
    Check("Network", "being offline", environment.check_offline),
    Check("Network", "certificate authorities", environment.check_authorities),
    Check("Clock", "times of files", environment.check_file_times),
    Check("Folders", "our own folders", folders.check_own_folders),
    Check("Folders", "credentials", folders.check_secret_files),
    Check("Cache", "the cache", folders.check_cache),
    Check("Agents", "the agents' folders", folders.check_agents),
    Check("Installed skills", "the lock", folders.check_installed),
    Check("Installed skills", "what was left behind", folders.check_leftovers),
)


def examine(
    surroundings: Environment, checks: Sequence[Check] = CHECKS, *, deadline: float = DEADLINE_SECONDS
) -> list[Section]:
    """Run ``checks``, and one for each configured source, all at once; return their sections in order.

    Each may take ``deadline`` seconds.
    """
    sources = [] if surroundings.offline else surroundings.settings.sources
    rows = [*checks, *(Check("Network", name, partial(environment.check_source, name)) for name in sources)]
    found: dict[int, list[Diagnosis]] = {}
    calls = [partial(_run, row, surroundings, deadline) for row in rows]
    for index, outcome in run_parallel(calls, threads=len(calls)):
        if isinstance(outcome, BaseException):
            raise outcome
        found[index] = outcome
    sections: dict[str, list[Diagnosis]] = {}
    for index, row in enumerate(rows):
        sections.setdefault(row.section, []).extend(found[index])
    return [Section(title, tuple(diagnoses)) for title, diagnoses in sections.items()]


def _run(row: Check, surroundings: Environment, deadline: float) -> list[Diagnosis]:
    seen: list[Diagnosis] = []

    def look() -> bool:
        for diagnosis in row.look(surroundings):
            seen.append(diagnosis)  # noqa: PERF402  # what was seen before an error or the deadline counts, too
        return True

    try:
        if call_within(look, deadline) is None:
            what = f"{row.subject}: no answer within {deadline:g} s"
            fix = "Try again; a name server, a server or a disk hangs."
            seen.append(Diagnosis("problem", what, "Commands that need it would wait as well.", fix))
    except SkillwireError as error:
        seen.append(from_error(error))
    except Exception as error:  # noqa: BLE001  # a check that breaks is a finding of its own, and stops no other
        what = f"{row.subject} could not be looked at: {type(error).__name__}: {error}"
        fix = "skillwire explain INTERNAL describes how to report it."
        seen.append(Diagnosis("problem", what, "The check itself failed.", fix))
    return seen
