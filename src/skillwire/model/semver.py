"""The form of a version: Semantic Versioning 2.0.0. Spec: SSP §6.1."""

from __future__ import annotations

import re
from typing import Final

#: The expression of its own page, for a whole text.
SEMVER_PATTERN: Final = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?\Z"
)
_SEMVER: Final = re.compile(SEMVER_PATTERN)
_LENGTH: Final = 64


def is_version(text: str) -> bool:
    """Whether ``text`` is a version of Semantic Versioning."""
    return len(text) <= _LENGTH and _SEMVER.match(text) is not None


def major(version: str) -> int:
    """Return the first number of a version."""
    return int(version.partition(".")[0])
