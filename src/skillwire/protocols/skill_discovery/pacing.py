"""How fast one agent says much of one kind: what waits stands in line, and is said no faster than others read.

A stranger is read 20 times a second, so nothing goes faster by itself. Who has asked for what we say, and answers that
it took it, reads as fast as it answers; so each such answer lets two more go at once, up to a bound. Where answers are
lost or late, it goes on at the pace that everybody reads. Spec: specs §3.
"""

from __future__ import annotations


class Line:
    """Skills that wait to be told of, each once, in the order in which they came.

    Args:
        pace: datagrams a second that go by themselves.
        most: datagrams a second that go at most, however many are answered.
        burst: datagrams that go at once after a quiet time.
    """

    def __init__(self, pace: float, most: float, burst: float) -> None:
        self._pause = 1 / pace
        self._least = 1 / most
        self._burst = burst
        self._next = self._next_most = 0.0
        self._waiting: dict[str, None] = {}

    def __contains__(self, skill_id: str) -> bool:
        return skill_id in self._waiting

    def join(self, skill_id: str) -> None:
        """Wait; who waits already keeps its place."""
        self._waiting.setdefault(skill_id)

    def leave(self, skill_id: str) -> None:
        """Wait no more."""
        self._waiting.pop(skill_id, None)

    def first(self) -> str | None:
        """Return who has waited longest."""
        return next(iter(self._waiting), None)

    def free(self, now: float) -> float:
        """Return when the first may go, by the steady clock; a time that is over when it may go now."""
        return max(self._next, self._next_most, now - self._burst * self._pause)

    def take(self, now: float) -> None:
        """Take note that one has gone."""
        self._next = max(self._next, now - self._burst * self._pause) + self._pause
        self._next_most = max(self._next_most, now - self._burst * self._least) + self._least

    def answered(self) -> None:
        """Let two more go, since one was taken."""
        self._next -= 2 * self._pause
