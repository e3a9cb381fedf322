"""The table ``[bridges]`` of the server's configuration."""

from __future__ import annotations

from typing import NamedTuple


class BridgeSettings(NamedTuple):
    """Which neighbours are answered, each in which version of its text; None where none is.

    Args:
        ai_catalog: ``/.well-known/ai-catalog.json`` and ``POST /search``.
        agent_card: ``/.well-known/agent-card.json``.
    """

    ai_catalog: str | None = None
    agent_card: str | None = None
