"""Folders of skills for benches: the same ones each time, in sizes and with text like real ones.

Half of the skills are SKILL.md alone, the others have a script and one or two references, and one in ten an
image. A skill has 15 KB on average, of text that compresses to about a third.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SYLLABLES = [
    "con",
    "ver",
    "re",
    "port",
    "da",
    "ta",
    "in",
    "dex",
    "sta",
    "tus",
    "log",
    "er",
    "mo",
    "del",
    "ing",
    "sy",
    "nc",
]


def make_skills(folder: Path, count: int) -> None:
    """Make ``count`` skills in ``folder``."""
    source = random.Random(7)  # noqa: S311  # the same workload each time, nothing secret
    words = ["".join(source.choices(_SYLLABLES, k=source.randint(1, 4))) for _ in range(4_000)]
    for number in range(count):
        make_skill(folder / f"skill-{number:05}", words, source, kind=number)


def make_skill(folder: Path, words: list[str], source: random.Random, *, kind: int) -> None:
    """Make one skill; ``kind`` decides which files it has."""
    folder.mkdir(parents=True)
    description = " ".join(source.choices(words, k=30))
    head = f"---\nname: {folder.name}\ndescription: Does {description}.\nmetadata:\n  version: 1.2.0\n---\n"
    (folder / "SKILL.md").write_text(head + _text(words, source, source.randint(400, 1_200)))
    if kind % 2:
        (folder / "scripts").mkdir()
        (folder / "scripts" / "run.py").write_text(f'"""{_text(words, source, 300)}"""\n')
        (folder / "references").mkdir()
        for number in range(1 + kind % 4 // 2):
            (folder / "references" / f"part-{number}.md").write_text(_text(words, source, source.randint(500, 1_500)))
    if kind % 10 == 1:
        (folder / "assets").mkdir()
        (folder / "assets" / "picture.png").write_bytes(source.randbytes(30_000))


def _text(words: list[str], source: random.Random, number: int) -> str:
    chosen = source.choices(words, k=number)
    return "\n".join(" ".join(chosen[start : start + 12]) for start in range(0, number, 12)) + "\n"
