"""What the operator is told of agents that do not take our registrations.

Anybody on the network may refuse, as often as they like; so each reason is told once, and not many of them.
Spec: SDP §2.3, §12.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from skillwire.errors import SkillwireError

_TOLD: Final = 50


class Refusals:
    """Tells each refusal once."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._log = structlog.get_logger("skillwire.lan")

    def tell(self, error: SkillwireError) -> None:
        """Log a refusal, unless it was, or too many were."""
        if error.message in self._told or len(self._told) >= _TOLD:
            return
        self._told.add(error.message)
        self._log.warning(
            "not registered on the LAN", code=error.code, reason=error.message, fix=error.diagnostics().fix
        )
