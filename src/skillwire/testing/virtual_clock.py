"""A clock that a test turns: ten minutes pass when the test says so."""

from __future__ import annotations

from skillwire.model.execution import Moment

#: When virtual time begins, in seconds since the epoch: the registration of SDP 2.1.
EPOCH = 1_707_868_800.0


class VirtualClock:
    """Time as a number.

    Args:
        epoch: what its wall clock says at the beginning, in seconds since the epoch.
    """

    def __init__(self, epoch: float = EPOCH) -> None:
        self.epoch = epoch
        self.steady = 0.0

    def moment(self, skew: float = 0.0) -> Moment:
        """Return now, by a wall clock that is ``skew`` seconds ahead."""
        return Moment(self.epoch + self.steady + skew, self.steady)

    def move_to(self, steady: float) -> None:
        """Let it be ``steady`` seconds after the beginning; never earlier than it is."""
        self.steady = max(self.steady, steady)
