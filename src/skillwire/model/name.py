"""The name of a skill: 1-64 of ``a-z 0-9 -``, no hyphen first, last or doubled. Spec: ASD URI Structure."""

from __future__ import annotations

import re
from typing import Final

from skillwire import limits

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)

#: Names that some file systems keep for devices; a folder of that name cannot be made there.
DEVICE_NAMES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10))}
)


def is_skill_name(text: object) -> bool:
    """Whether ``text`` may name a skill, and so a folder, on every system."""
    return (
        isinstance(text, str)
        and len(text) <= limits.NAME_LENGTH
        and _NAME.fullmatch(text) is not None
        and text not in DEVICE_NAMES
    )
