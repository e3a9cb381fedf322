"""The archives of the corpus for the upload APIs: each as bytes, with the codes that its refusal may have.

An API passes when every hostile archive is refused with one of these codes or by the rules of skills, no benign one is
refused for what an archive is, no answer is a failure of the server, and nothing of a refused one is stored.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "corpus" / "archives"
EXPECTATIONS: dict[str, Any] = json.loads((FOLDER / "expectations.json").read_bytes())

#: The corpus names classes of refusal; each is one code of ours. MODE_FORBIDDEN is none: modes are put right.
CODES_OF_CLASSES = {
    "PATH_TRAVERSAL": "PATH_TRAVERSAL",
    "PATH_ABSOLUTE": "PATH_ABSOLUTE",
    "PATH_WINDOWS": "PATH_WINDOWS",
    "PATH_INVALID": "PATH_INVALID",
    "PATH_TOO_LONG": "PATH_TOO_LONG",
    "PATH_FORBIDDEN": "PATH_FORBIDDEN",
    "PATH_COLLISION": "PATH_COLLISION",
    "LINK_ESCAPE": "LINK_ESCAPE",
    "LINK_DANGLING": "LINK_DANGLING",
    "LINK_LOOP": "LINK_LOOP",
    "LINK_THROUGH": "LINK_THROUGH",
    "TYPE_FORBIDDEN": "ARCHIVE_ENTRY_TYPE",
    "LIMIT_FILE": "ARCHIVE_FILE_SIZE",
    "LIMIT_TOTAL": "ARCHIVE_TOTAL_SIZE",
    "LIMIT_RATIO": "ARCHIVE_RATIO",
    "LIMIT_HEADER": "ARCHIVE_HEADER_SIZE",
    "LIMIT_ENTRIES": "ARCHIVE_ENTRIES",
    "LIMIT_DEPTH": "PATH_TOO_DEEP",
    "MALFORMED": "ARCHIVE_MALFORMED",
    "TRAILING_DATA": "ARCHIVE_TRAILING_DATA",
    "FORMAT_MISMATCH": "ARCHIVE_FORMAT_MISMATCH",
    "UNSUPPORTED_METHOD": "ARCHIVE_UNSUPPORTED_METHOD",
    "ENCRYPTED": "ARCHIVE_ENCRYPTED",
    "NO_SKILL_MD": "NO_SKILL_MD",
}


class CorpusArchive(NamedTuple):
    """One archive, and whether it is hostile."""

    name: str
    content: bytes
    is_hostile: bool
    codes: frozenset[str]


def corpus_archives():
    """Return every archive of the corpus."""
    return [
        CorpusArchive(
            one["file"],
            (FOLDER / one["file"]).read_bytes(),
            one["expect"] == "reject",
            frozenset(CODES_OF_CLASSES.get(code, code) for code in one.get("codes", ())),
        )
        for one in EXPECTATIONS["archives"]
    ]
