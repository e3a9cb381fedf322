from __future__ import annotations

from tests.support.drivers import drive  # noqa: F401  # fixtures
