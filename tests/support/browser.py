"""What pages are held to in a browser."""

import pytest
from tests.support import eventually

#: Milliseconds that a browser may take for anything that a test waits for; by default Playwright waits for 5 seconds.
PATIENCE = 1000 * eventually.PATIENCE
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def violations(page):
    """Return what axe finds: each rule with the beginnings of some elements that break it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found]
