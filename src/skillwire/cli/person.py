"""Who sits at this terminal, as far as the machine knows: for people to read, and no proof of anything."""

from __future__ import annotations

import getpass
from typing import Final

from skillwire.trust.hidden_text import neutralise

_LENGTH: Final = 64


def login_name() -> str:
    """Return the name that the user logged in with; ``somebody`` where it is not known."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # neither the environment nor the list of users says
        return "somebody"
    return neutralise(name)[:_LENGTH] or "somebody"
