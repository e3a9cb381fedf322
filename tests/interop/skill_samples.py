"""Skills that no reader finds easy and that every reader should take: all of them pass our strict rules."""

import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "skills"
LONG_PATH: Final = "references/" + "a-folder-with-a-long-name/" * 4 + "and-a-file.md"
ALL_BYTES: Final = bytes(range(256)) * 8
_SIMPLE: Final = "---\nname: {name}\ndescription: {description}\nmetadata:\n  version: 1.0.0\n---\n\n# {name}\n"
_ODD_NAMES: Final = (
    "with spaces.md",
    "100%.md",
    "a+b&c=d;e,f@g!.md",
    "(round).md",
    "$HOME.md",
    "naïve.md",
    "日本語.md",
)
_FOLDED: Final = """---
name: folded-text
description: >-
  Folded over lines,
  as people write it: "quoted", 'quoted', # no comment.

  A second paragraph 😀.
license: Apache-2.0
compatibility: |
  Python 3.11
allowed-tools: Bash(git:*) Read
metadata:
  version: "1.0.0"
  author: Ægir Ñandú
---

# Folded

---

A rule above, and no new line at the end"""


def write_samples(folder: Path) -> None:
    """Write the skills into ``folder``, each into a folder of its own."""
    simple = _simple("plain-name", "Does something.")
    _write(folder / "folded-text", {"SKILL.md": _FOLDED})
    _write(folder / "crlf-lines", {"SKILL.md": _simple("crlf-lines", "Lines that end in CR LF.").replace("\n", "\r\n")})
    _write(folder / "long-texts", {"SKILL.md": _simple("long-texts", "ü" * 1024)})
    _write(
        folder / "all-bytes",
        {
            "SKILL.md": _simple("all-bytes", "Files of every kind."),
            "assets/all.bin": ALL_BYTES,
            "assets/empty": b"",
            "assets/inner.tar.gz": gzip.compress(ALL_BYTES, mtime=0),
            "assets/page.html": b"<!doctype html><script>alert(1)</script>",
            "assets/large.txt": b"The same line, so that it compresses well.\n" * 5_000,
            ".config/settings.json": b'{"hidden": true}\n',
        },
    )
    odd = {f"references/{name}": f"# {name}\n" for name in _ODD_NAMES}
    _write(folder / "odd-names", {"SKILL.md": _simple("odd-names", "Names of files."), **odd})
    _write(
        folder / "long-paths",
        {
            "SKILL.md": _simple("long-paths", "A path too long for a tar."),
            LONG_PATH: "# Far down\n",
            "a.bin": ALL_BYTES,
        },
    )
    _write(folder / "plain-name", {"SKILL.md": simple, "scripts/run.sh": "#!/bin/sh\necho ok\n"})
    (folder / "plain-name" / "scripts" / "run.sh").chmod(0o755)
    internal = _simple("internal-notes", "Not for everyone.").replace("metadata:\n", "metadata:\n  internal: true\n")
    _write(folder / "internal-notes", {"SKILL.md": internal})


def copy_examples(folder: Path, *names: str) -> None:
    """Copy the example skills, or only those of these ``names``, into ``folder``."""
    for source in EXAMPLES.iterdir():
        if (source / "SKILL.md").is_file() and (not names or source.name in names):
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))


def _simple(name: str, description: str) -> str:
    return _SIMPLE.format(name=name, description=description)


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
