"""The names of a skill.

That of Agent Skills is 1-64 of ``a-z 0-9 -``, no hyphen first, last or doubled. Spec: ASD URI Structure.
"""

from __future__ import annotations

import re
from typing import Final

from skillwire import limits

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)

_DOTTED: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_DOTTED_LENGTH: Final = 256

_SHARING_ID: Final = re.compile(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9._-]*|[a-z0-9]+(?:\.[a-z0-9-]+){2,}")
_SHARING_ID_LENGTH: Final = 128

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


def is_sharing_id(text: object) -> bool:
    """Whether ``text`` may identify a skill in Skill Sharing: ``provider/skill`` or ``com.example.skill-v1``.

    Spec: SSB §5.7; specs §2.
    """
    return isinstance(text, str) and len(text) <= _SHARING_ID_LENGTH and _SHARING_ID.fullmatch(text) is not None


def is_dotted_name(text: object) -> bool:
    """Whether ``text`` may identify a skill in the Skills Protocol, as other servers write it: ``ns.domain.action``.

    What we publish has letters, digits and dots alone. Spec: specs §0, §4.
    """
    return isinstance(text, str) and len(text) <= _DOTTED_LENGTH and _DOTTED.fullmatch(text) is not None
