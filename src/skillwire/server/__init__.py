"""The ASGI application that publishes folders of skills: ``skillwire.server.create_app(["./skills"])``.

The application is put together when it is asked for, so importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.server.app import Application, create_app

__all__ = ["Application", "create_app"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("skillwire.server.app"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
