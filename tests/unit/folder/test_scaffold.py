"""A new skill passes the strict check as it is."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from skillwire.errors import ValidationError
from skillwire.folder.load import load_folder
from skillwire.folder.scaffold import scaffold

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("manifest", [False, True])
def test_a_new_skill_has_no_findings(write: Callable[..., Path], script: bool, manifest: bool) -> None:  # noqa: FBT001  # parameters
    files = scaffold("pdf-forms", script=script, manifest=manifest)
    folder = write("pdf-forms", **{file.path: bytes(file.content) for file in files})
    for file in files:
        (folder / file.path).chmod(0o755 if file.executable else 0o644)
    loaded = load_folder(folder)
    assert loaded.findings == ()
    assert loaded.version == "0.1.0"
    assert loaded.manifest.kind == (("action" if script else "instruction") if manifest else None)


def test_the_script_runs(write: Callable[..., Path]) -> None:
    files = {file.path: bytes(file.content) for file in scaffold("demo", script=True)}
    folder = write(**files)
    (folder / "scripts/main.py").chmod(0o755)
    done = subprocess.run(
        [folder / "scripts/main.py"], input='{"name": "you"}', capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"greeting": "Hello, you!"}


@pytest.mark.parametrize("name", ["", "A", "a--b", "../a", "con"])
def test_names_that_no_skill_may_have(name: str) -> None:
    with pytest.raises(ValidationError, match="NAME_FORM"):
        scaffold(name)
