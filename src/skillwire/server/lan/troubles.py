"""What the operator is told of other agents: who does not take our registrations, has our name, or is not heard.

Anybody on the network may refuse, or take our name, as often as they like; so each is told once, and not many of a
kind. Who refuses cannot hush who has our name: each kind is counted apart. Spec: SDP §2.3, §12.1.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from skillwire.errors import SkillwireError

_TOLD: Final = 50
_EVENTS: Final = {
    "DISC_003": "not registered on the LAN",
    "LAN_NAME": "another agent has our name on the LAN",
    "LAN_UNHEARD": "an agent on the LAN speaks otherwise than we do",
}


class Troubles:
    """Tells each trouble once."""

    def __init__(self) -> None:
        self._told: defaultdict[str, set[str]] = defaultdict(set)
        self._log = structlog.get_logger("skillwire.lan")

    def tell(self, error: SkillwireError) -> None:
        """Log a trouble, unless it was logged, or too many of its code were.

        Args:
            error: ``DISC_003``, ``LAN_NAME`` or ``LAN_UNHEARD``.
        """
        told = self._told[error.code]
        if error.message in told or len(told) >= _TOLD:
            return
        told.add(error.message)
        self._log.warning(_EVENTS[error.code], code=error.code, reason=error.message, fix=error.diagnostics().fix)
