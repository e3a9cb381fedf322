"""Write the schema of Skill Sharing: ``schema/draft/schema.json``, ``schema.ts`` and ``schema.mdx``.

With ``--check`` nothing is written, and the exit code says whether what is there is up to date. With
``--release DATE`` the draft is copied to ``schema/DATE/``, which is never changed again. Spec: SSP §6.5.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from skillwire.protocols.skill_sharing.schemas import json_schema, mdx, typescript

ROOT: Final = Path(__file__).parent.parent / "schema"
DRAFT: Final = ROOT / "draft"


def main(arguments: list[str]) -> int:
    """Do what the arguments ask for; return the exit code."""
    files = {
        "schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
        "schema.ts": typescript(),
        "schema.mdx": mdx(),
    }
    if arguments == ["--check"]:
        stale = [name for name, text in files.items() if (DRAFT / name).read_text("utf-8") != text]
        for name in stale:
            print(f"schema/draft/{name} is out of date; fix: just schema", file=sys.stderr)
        return 1 if stale else 0
    DRAFT.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (DRAFT / name).write_text(text, encoding="utf-8")
    return _release(arguments[1]) if arguments[:1] == ["--release"] else 0


def _release(date: str) -> int:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date) or (ROOT / date).exists():
        print(f"not a date, or released already: {date}", file=sys.stderr)
        return 1
    shutil.copytree(DRAFT, ROOT / date)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
