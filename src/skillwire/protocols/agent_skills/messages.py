"""The values of Agent Skills Discovery: the index and its entries, media types, and header fields of responses.

Four index generations exist. 0.1.0 (a list of files to fetch) and 0.2.0 (one artifact per skill, with a digest) are
published today; an earlier draft and an interim form are read, never written.

A publisher's files are read under our origin, and HTML or SVG could run scripts there. So only media types that no
browser executes are named, text is served as plain text, and everything else as bytes to download; ``nosniff`` and a
sandbox without permissions support this on live servers and static hosts. Public responses allow scripts of other
origins without credentials (CORS).
Spec: ASD Discovery Index, HTTP Considerations; specs §1, "Index generations met in the wild".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

from skillwire.model.digest import Digest
from skillwire.model.ref import IndexedFile
from skillwire.model.skill import Finding

SCHEMA_URI: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
#: The folder of a 0.2.0 index, and that of the generations before it.
WELL_KNOWN: Final = "/.well-known/agent-skills"
WELL_KNOWN_OLD: Final = "/.well-known/skills"
#: The versions of a skill **[extension]**, below its scope.
VERSIONS: Final = "/versions.json"


class Generation(StrEnum):
    """The shape of an index."""

    DRAFT = "draft"
    V0_1_0 = "0.1.0"
    INTERIM = "interim"
    V0_2_0 = "0.2.0"


class IndexEntry(NamedTuple):
    """One skill of an index.

    ``artifact_type`` is ``files`` for generations that list files; ``url`` is then that of ``SKILL.md``. Decoding makes
    URLs absolute. ``digest`` is None only in generations without digests. ``capabilities`` and ``scenes`` are Skill
    Discovery's; ``requires``, ``tags``, and the state as :class:`VersionEntry` has it, are ours **[extension]**.
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
    requires: tuple[str, ...] = ()
    status: str = "active"
    reason: str = ""
    successor: str = ""
    tags: tuple[str, ...] = ()


class Index(NamedTuple):
    """A decoded index: its generation, its valid entries by name, and findings about the rest."""

    generation: Generation
    entries: dict[str, IndexEntry]
    findings: tuple[Finding, ...] = ()


class VersionEntry(NamedTuple):
    """One version of a skill, with its artifact. ``published`` is seconds since the epoch, ``published_by`` an account.

    ``status`` is ``active``, ``deprecated``, ``yanked`` or ``quarantined``; ``successor`` is the skill to use instead.
    """

    version: str
    description: str
    artifact_type: Literal["skill-md", "archive"]
    url: str
    digest: Digest
    size: int
    published: float | None = None
    published_by: str = ""
    status: str = "active"
    reason: str = ""
    successor: str = ""
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


class VersionList(NamedTuple):
    """The versions of a skill **[extension]**, the highest first; ``latest`` is empty where none may be resolved.

    The status is that of the whole skill: also ``archived``.
    """

    publisher: str
    name: str
    versions: tuple[VersionEntry, ...]
    latest: str
    status: str = "active"
    reason: str = ""
    successor: str = ""


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
    ".md": MARKDOWN, ".markdown": MARKDOWN, ".json": JSON, ".tar.gz": GZIP, ".tgz": GZIP, ".gz": GZIP, ".zip": ZIP,
    ".pdf": "application/pdf", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp", **dict.fromkeys(_TEXT_ENDINGS, PLAIN),
}  # fmt: skip

#: Names without an ending that people read.
_PLAIN_NAMES: Final = frozenset({"license", "makefile", "dockerfile", "readme", "notice", "authors", "changelog"})


def media_type(path: str) -> str:
    """Return the ``Content-Type`` of the file ``path`` of a skill."""
    name = path[path.rfind("/") + 1 :].lower()
    stem, dot, ending = name.rpartition(".")
    if dot and stem:
        return MEDIA_TYPES.get(f".{ending}", BYTES)
    return PLAIN if name in _PLAIN_NAMES else BYTES


#: Header fields of every response.
OPEN_FIELDS: Final[dict[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Accept-Ranges, Content-Range, RateLimit-Limit, RateLimit-Remaining, "
    "RateLimit-Reset, Retry-After, WWW-Authenticate, Location, Preference-Applied, Webhook-Secret",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}
#: The request fields on which a response to an authenticated caller depends.
IDENTITY_FIELDS: Final = "Authorization, X-API-Key, X-Signature"
#: Header fields of a skill's content.
CONTENT_FIELDS: Final[dict[str, str]] = {"Content-Security-Policy": "default-src 'none'; sandbox"}
