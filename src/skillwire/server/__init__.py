"""The ASGI application that publishes folders of skills: ``skillwire.server.app(["./skills"])``.

The application is put together when it is asked for, so importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.server.application import Application
    from skillwire.server.compose import app

_HOMES = {"Application": "skillwire.server.application", "app": "skillwire.server.compose"}

__all__ = ["Application", "app"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
