"""The media type under which one file of a skill is served.

A skill's files come from whoever wrote the skill, but are read under our origin: an HTML page or an SVG image
could run scripts there. So only types that no browser executes are named, what people read is plain text, and
all else is bytes to download. Spec: ASD HTTP Considerations (``SKILL.md`` as ``text/markdown``).
"""

from __future__ import annotations

from typing import Final

MARKDOWN: Final = "text/markdown; charset=utf-8"
PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
GZIP: Final = "application/gzip"
ZIP: Final = "application/zip"
BYTES: Final = "application/octet-stream"

# fmt: off
# Source and configuration, for reading; .html, .svg and .xml would be executed as what they are.
_TEXT_ENDINGS: Final = (
    ".bash", ".bat", ".c", ".cc", ".cfg", ".clj", ".conf", ".cpp", ".cs", ".css", ".csv", ".dart", ".diff", ".env",
    ".ex", ".exs", ".fish", ".go", ".graphql", ".h", ".hpp", ".hs", ".htm", ".html", ".ini", ".java", ".jinja", ".js",
    ".jsonl", ".jsx", ".kt", ".log", ".lua", ".mjs", ".nix", ".patch", ".php", ".pl", ".proto", ".ps1", ".py", ".pyi",
    ".r", ".rb", ".rs", ".rst", ".scala", ".sh", ".sql", ".svg", ".swift", ".template", ".tex", ".tf", ".tmpl",
    ".toml", ".ts", ".tsv", ".tsx", ".txt", ".vue", ".xhtml", ".xml", ".yaml", ".yml", ".zig", ".zsh",
)
# fmt: on

#: Ending of a file's name → media type. The files for static hosts say the same.
MEDIA_TYPES: Final[dict[str, str]] = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".json": JSON,
    ".tar.gz": GZIP,
    ".tgz": GZIP,
    ".gz": GZIP,
    ".zip": ZIP,
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    **dict.fromkeys(_TEXT_ENDINGS, PLAIN),
}

#: Names without an ending that people read.
_PLAIN_NAMES: Final = frozenset({"license", "makefile", "dockerfile", "readme", "notice", "authors", "changelog"})


def media_type(path: str) -> str:
    """Return the ``Content-Type`` of a skill's file. ``path`` is its path in the skill."""
    name = path[path.rfind("/") + 1 :].lower()
    stem, dot, ending = name.rpartition(".")
    if dot and stem:
        return MEDIA_TYPES.get(f".{ending}", BYTES)
    return PLAIN if name in _PLAIN_NAMES else BYTES
