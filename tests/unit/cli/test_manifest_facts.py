"""What ``show`` prints of a manifest that says how its skill's health is found out."""

from __future__ import annotations

import pytest

from skillwire.cli.manifest import _facts


@pytest.mark.parametrize(
    ("health", "told"),
    [
        ({"entrypoint": "look.py", "export": "check", "interval": 30}, "look.py check"),
        ({"url": "/healthz"}, "/healthz"),
        ({"interval": 30}, "by a function"),
        ({"url": ["a stranger's"]}, "by a function"),
    ],
)
def test_how_health_is_found_out_is_shown(health, told):
    assert dict(_facts({"health": health}))["health"] == told


@pytest.mark.parametrize("manifest", [{}, {"health": {}}, {"health": "a stranger's"}])
def test_a_manifest_without_it_shows_nothing_of_it(manifest):
    assert "health" not in dict(_facts(manifest))
