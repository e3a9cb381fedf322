"""Builds the man pages into the wheel."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Writes the man pages to a temporary folder, and adds them to the shared data of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages; an editable install needs none."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path[:0] = [str(root / "src"), str(root / "tools")]
        from man_pages import write_pages  # noqa: PLC0415  # found by the line above

        self._folder = tempfile.TemporaryDirectory()
        pages = write_pages(Path(self._folder.name))
        build_data["shared_data"].update({str(page): f"share/man/man1/{page.name}" for page in pages})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  # hatch's
        """Remove the folder."""
        if version != "editable":
            self._folder.cleanup()
