"""Whose turn it is: three priorities, and nobody waits for ever.

An execution's turn is the moment it was accepted, moved by its priority; the least is next. So *high* goes before what
was accepted up to a minute earlier, *low* behind what is accepted up to a minute later, and beyond that the order is
that of arrival: however much of a higher priority comes, it comes behind.
"""

from __future__ import annotations

from typing import Final

from skillwire.model.execution import Priority

#: Priority → seconds by which the turn moves.
SHIFTS: Final[dict[Priority, float]] = {Priority.HIGH: -60.0, Priority.NORMAL: 0.0, Priority.LOW: 60.0}


def turn_of(priority: Priority, accepted: float) -> float:
    """Return the turn of an execution that was accepted at this time."""
    return accepted + SHIFTS[priority]
