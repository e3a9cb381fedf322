"""The page about HTTP names every path of the OpenAPI document, which is held to the server by its own tests."""

from __future__ import annotations

import re
from pathlib import Path

from skillwire.server.openapi import OPENAPI_PATH
from skillwire.server.openapi_paths import paths

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text()
PARTS = {
    "{blob}": "ID",
    "{execution}": "ID",
    "{skill}": "NAME",
    "{asset}": "NAME",
    "{file}": "PATH",
    "{archive}": "ARCHIVE",
    "{artifact}": "ARTIFACT",
}


def test_every_path_is_on_the_page():
    named = set(re.findall(r"`(/[^`]*)`", PAGE.partition("An error is")[0]))
    served = {path for path in paths(OPENAPI_PATH) if not path.startswith("/@{scope}/.well-known/")}
    wanted = {re.sub(r"\{\w+\}", lambda found: PARTS[found[0]], path) for path in served}
    assert wanted - named == set()
    assert "/@SCOPE/.well-known/…" in named
