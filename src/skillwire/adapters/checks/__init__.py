"""What the doctor looks at: what a check finds, good facts included, and what it may look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillwire.model.url import Url, parse_url
from skillwire.resolver.references import parse_source
from skillwire.resolver.settings import Settings
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from skillwire.errors import SkillwireError
    from skillwire.resolver.sources import Lookup


Severity = Literal["ok", "warning", "problem"]
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


def judge_secret_file(path: Path) -> Diagnosis:
    """Judge the permissions of a file that holds credentials."""
    mode = path.stat().st_mode
    if not mode & _FOR_OTHERS:
        return Diagnosis("ok", f"{path} is for you alone")
    why = "It holds passwords, and other users of this machine can read or change it."
    return Diagnosis("problem", f"{path} is open to others ({mode & 0o777:04o})", why, f"chmod 600 {path}")


@dataclass(frozen=True, slots=True)
class Environment:
    """The facts that the checks share."""

    root: Path  # the project, or the home folder for the user's own skills
    environment: Mapping[str, str]
    now: float  # seconds since the epoch
    for_user: bool = False
    offline: bool = False
    store: str = ""  # the URL of the shared database, by default that of SKILLWIRE_STORE
    settings: Settings = field(default_factory=Settings)  # the defaults with a ``settings_error``
    settings_error: SkillwireError | None = None

    def policy(self) -> AddressPolicy:
        """Return the address policy of a command here: the user's own sources are named, the project's are not."""
        policy = AddressPolicy(allow=self.settings.allow)
        for source in sorted(self.settings.own_sources):
            if (url := url_of(parse_source(source))) is not None:
                policy = policy.naming(url)
        return policy


def url_of(location: Lookup) -> Url | None:
    """Return the URL of a source; None for the local network, a repository of this machine and the like."""
    return parse_url(location.url) if "://" in location.url else None
