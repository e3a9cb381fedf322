"""Where a check-up happens: the project, the environment, the settings in force or the error in their place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skillwire.adapters.files.settings_file import load_settings
from skillwire.errors import SkillwireError
from skillwire.model.url import parse_url
from skillwire.resolver.reference import source_location
from skillwire.resolver.settings import Settings
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the checks work with.

    Args:
        root: the project, or the home folder when the user's own skills are meant.
        environment: variables; tests hand their own over.
        now: seconds since the epoch.
        settings: those in force; the defaults when ``settings_error`` says why they cannot be read.
    """

    root: Path
    environment: Mapping[str, str]
    now: float
    for_user: bool = False
    offline: bool = False
    settings: Settings = field(default_factory=Settings)
    settings_error: SkillwireError | None = None

    def policy(self) -> AddressPolicy:
        """Return the address policy of a command here: the user's own sources are named, the project's are not."""
        policy = AddressPolicy(allow=self.settings.allow)
        for source in sorted(self.settings.own_sources):
            policy = policy.naming(parse_url(source_location(source).url))
        return policy


def look_around(
    root: Path, environment: Mapping[str, str], now: float, *, for_user: bool = False, offline: bool = False
) -> Surroundings:
    """Return the surroundings of ``root``. Settings that cannot be read are a finding, not the end."""
    try:
        settings = load_settings(root, environment)
    except SkillwireError as error:
        return Surroundings(root, environment, now, for_user, offline, settings_error=error)
    return Surroundings(root, environment, now, for_user, offline or settings.offline, settings)
