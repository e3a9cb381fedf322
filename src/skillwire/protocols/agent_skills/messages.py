"""The values of Agent Skills Discovery: the index and its entries.

An index has been written in four shapes so far. The two that are published today are 0.1.0 (lists of files
to fetch one by one) and 0.2.0 (one artifact a skill, with a digest); a draft before and an interim between
them are met in the wild and are read, never written.

Spec: ASD Discovery Index; specs §1, "Index generations met in the wild".

The media type under which one file of a skill is served.

A skill's files come from whoever wrote the skill, but are read under our origin: an HTML page or an SVG image
could run scripts there. So only types that no browser executes are named, what people read is plain text, and
all else is bytes to download. Spec: ASD HTTP Considerations (``SKILL.md`` as ``text/markdown``).

The header fields that answers of a kind carry, on the live server and on static hosts alike.

A skill's files come from whoever wrote the skill and are read under our origin: ``nosniff`` and a sandbox
without permissions keep a browser from running what is in them. Everything that anyone may read is open to
scripts of other origins, without credentials. Spec: ASD HTTP Considerations (CORS).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from skillwire.model.digest import Digest
    from skillwire.model.ref import IndexedFile
    from skillwire.model.skill import Finding


SCHEMA_URI: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
#: The folder of a 0.2.0 index, and that of the generations before it.
WELL_KNOWN: Final = "/.well-known/agent-skills"
WELL_KNOWN_OLD: Final = "/.well-known/skills"


class Generation(StrEnum):
    """Which shape an index has."""

    DRAFT = "draft"
    V0_1_0 = "0.1.0"
    INTERIM = "interim"
    V0_2_0 = "0.2.0"


class IndexEntry(NamedTuple):
    """One skill of an index.

    ``artifact_type`` is ``files`` for generations that list files instead of naming an artifact; ``url`` is
    then that of ``SKILL.md``. Decoding makes every URL absolute; encoding writes it as it stands.
    ``digest`` is None only where the generation has none. ``capabilities`` and ``scenes`` are what the skill can do and
    takes part in, in the words of Skill Discovery, where the publisher says so **[ours]**.
    """

    name: str
    description: str
    artifact_type: Literal["skill-md", "archive", "files"]
    url: str
    digest: Digest | None
    files: tuple[IndexedFile, ...] = ()
    version: str | None = None
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()


class Index(NamedTuple):
    """A decoded index: its generation, its good entries by name, and what was skipped or is doubtful."""

    generation: Generation
    entries: dict[str, IndexEntry]
    findings: tuple[Finding, ...] = ()


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


#: On every answer.
OPEN_FIELDS: Final[dict[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Accept-Ranges, Content-Range, RateLimit-Limit, RateLimit-Remaining, "
    "RateLimit-Reset, Retry-After, WWW-Authenticate, Location, Preference-Applied, Webhook-Secret",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}
#: What an answer depends on that is not the same for everybody: who asks, and how that is shown.
IDENTITY_FIELDS: Final = "Authorization, X-API-Key, X-Signature"
#: On what comes out of a skill.
CONTENT_FIELDS: Final[dict[str, str]] = {"Content-Security-Policy": "default-src 'none'; sandbox"}
