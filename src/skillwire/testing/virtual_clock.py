"""A clock that a test sets."""

from __future__ import annotations

from skillwire.model.execution import Moment

#: The start of virtual time, in seconds since the epoch: the registration of SDP 2.1.
EPOCH = 1_707_868_800.0


class VirtualClock:
    """Time as a number, starting at ``epoch`` by its wall clock."""

    def __init__(self, epoch: float = EPOCH) -> None:
        self.epoch = epoch
        self.steady = 0.0

    def moment(self, skew: float = 0.0) -> Moment:
        """Return the time, by a wall clock that is ``skew`` seconds ahead."""
        return Moment(self.epoch + self.steady + skew, self.steady)

    def move_to(self, steady: float) -> None:
        """Set the time to ``steady`` seconds after the start, never back."""
        self.steady = max(self.steady, steady)
