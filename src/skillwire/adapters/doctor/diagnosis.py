"""The findings of ``skillwire doctor``, and the judgements that need facts alone."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from skillwire.errors import SkillwireError


Severity = Literal["ok", "warning", "problem"]

_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_SKEW_NOTICED: Final = 60.0  # seconds; a Date header has whole seconds and answers take some, too
_SKEW_HARMFUL: Final = 3600.0  # seconds; certificates and freshness are judged by a clock that is this wrong
_WIDE: Final = re.compile(r".*/[0-7]", re.ASCII)  # a network of sixteen million addresses and more
_FOR_OTHERS: Final = 0o077


class Diagnosis(NamedTuple):
    """One fact; ``why`` it matters and the ``fix`` are empty where all is well."""

    severity: Severity
    what: str
    why: str = ""
    fix: str = ""


class Section(NamedTuple):
    """The diagnoses of one subject."""

    title: str
    diagnoses: tuple[Diagnosis, ...]


def from_error(error: SkillwireError, severity: Severity = "problem", lead: str = "") -> Diagnosis:
    """Return an error as a diagnosis, its place included."""
    parts = error.diagnostics()
    place = f" ({parts.place})" if parts.place else ""
    return Diagnosis(severity, f"{lead}{parts.message}{place} [{parts.code}]", parts.cause, parts.fix)


def judge_proxies(environment: Mapping[str, str]) -> Diagnosis:
    """Judge the proxies that the environment names; their URLs may hold passwords and are not shown."""
    named = [name for name in _PROXIES if environment.get(name) or environment.get(name.lower())]
    if not named:
        return Diagnosis("ok", "no proxy is set; connections are direct")
    what = f"{', '.join(named)} set, and not used: connections are direct"
    why = "A proxy looks names up itself, so the address policy could not hold through it."
    fix = "Allow direct https connections to your sources, or publish a copy of them inside your network."
    return Diagnosis("warning", what, why, fix)


def judge_allow(entries: Sequence[str]) -> list[Diagnosis]:
    """Judge what the setting ``allow`` opens."""
    why = "Any index, redirect or DNS answer may then lead into that whole network."
    if not entries:
        return [Diagnosis("ok", "public addresses over https, and what you name yourself; allow is empty")]
    return [
        Diagnosis("warning", f"allow opens {entry}", why, "List the hosts that you mean.")
        if _WIDE.fullmatch(entry)
        else Diagnosis("ok", f"allow opens {entry}")
        for entry in entries
    ]


def judge_skew(seconds: float, source: str) -> Diagnosis:
    """Judge how far this clock is ahead (or, when negative, behind) of that of ``source``."""
    if abs(seconds) < _SKEW_NOTICED:
        return Diagnosis("ok", f"the clock agrees with that of {source} within a minute")
    direction = "ahead of" if seconds > 0 else "behind"
    why = "Whether a certificate is valid and a cached answer is fresh depends on the clock."
    severity: Severity = "problem" if abs(seconds) >= _SKEW_HARMFUL else "warning"
    what = f"the clock is {abs(seconds):,.0f} s {direction} that of {source}"
    return Diagnosis(severity, what, why, "Let the system set its time, such as with timedatectl set-ntp true.")


def judge_secret_file(path: Path) -> Diagnosis:
    """Judge the permissions of a file that holds credentials."""
    mode = path.stat().st_mode
    if not mode & _FOR_OTHERS:
        return Diagnosis("ok", f"{path} is for you alone")
    why = "It holds passwords, and other users of this machine can read or change it."
    return Diagnosis("problem", f"{path} is open to others ({mode & 0o777:04o})", why, f"chmod 600 {path}")


def count(sections: Iterable[Section]) -> Mapping[Severity, int]:
    """Return the number of diagnoses of each severity."""
    severities = Counter(diagnosis.severity for section in sections for diagnosis in section.diagnoses)
    return {severity: severities[severity] for severity in get_args(Severity)}
