"""What ``serve --json`` prints: one JSON object a line, written out at once.

Events come from the event loop and from the thread that publishes. ``listening`` is always the first line, so what
comes before it is held back. Requests are not told: a reader who stops reading would then hold up the server.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import click

from skillwire.cli.output import encode_document

if TYPE_CHECKING:
    from collections.abc import Mapping


class EventStream:
    """Prints events as lines; silent unless ``shown``."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._lock = threading.Lock()
        self._held: list[dict[str, Any]] | None = []

    def begin(self, fields: Mapping[str, Any]) -> None:
        """Tell that requests are answered, and then what was held back."""
        with self._lock:
            held, self._held = self._held or [], None
            for event in [{"event": "listening", **fields}, *held]:
                self._print(event)

    def end(self) -> None:
        """Tell that the server has ended, if it ever began."""
        with self._lock:
            if self._held is None:
                self._print({"event": "stopped"})

    def hear(self, logged: Mapping[str, Any]) -> None:
        """Take an event of the server's log; tell it if it is one of ours."""
        event = _event(logged) if self._shown else None
        if event is None:
            return
        with self._lock:
            if self._held is None:
                self._print(event)
            else:
                self._held.append(event)

    def _print(self, event: dict[str, Any]) -> None:
        if not self._shown:
            return
        try:
            click.echo(encode_document({"schema": "skillwire/serve/1", **event}, indent=None))
        except OSError:  # the reader has gone; that is no reason to stop serving
            self._shown = False


def _event(logged: Mapping[str, Any]) -> dict[str, Any] | None:
    if logged["event"] == "published":
        counts = {kind: _count(logged.get(kind, 0)) for kind in ("added", "changed", "removed")}
        return {"event": "published", "revision": logged["revision"], "skills": logged["skills"], **counts}
    if logged["event"] == "skill broken":
        return {
            "event": "broken",
            "skill": logged["skill"],
            "serving": logged["serving"].startswith("its last good version"),
            "code": logged["code"],
            "message": logged["reason"],
            "place": logged["place"],
            "fix": logged["fix"],
        }
    if logged["event"] in {"on the LAN", "not on the LAN"}:
        return {"event": "lan", "agent": logged.get("agent"), "reason": logged.get("reason")}
    return None


def _count(told: int | str) -> int:
    """Return how many names the log tells: a few are written out, many are counted."""
    return told if isinstance(told, int) else len(told.split(", "))
