"""Skill Sharing Protocol: describing, finding and opening skills under a provider's domain.

The paths are those below a publisher's address. Spec: SSP §4.2, §5.5.
"""

from __future__ import annotations

from typing import Final

WELL_KNOWN: Final = "/.well-known/skill-sharing"
REGISTRY: Final = "/skills"
EXECUTIONS: Final = "/executions"


def descriptor_path(name: str) -> str:
    """Return the path of the descriptor of the skill ``name``."""
    return f"{REGISTRY}/{name}.json"
