"""The table of error codes: what each means, its usual cause, what to do, whether to try again.

One row a code, in the order of the tree in :mod:`skillwire.errors`. ``docs/reference/codes.md`` is
generated from it, and a test fails when a code is raised that has no row, or has a row and is never raised.
"""

from __future__ import annotations

from typing import NamedTuple

#: Where the documentation describes every code, in the repository and on the rendered site.
DOCS_PAGE = "docs/reference/codes.md"


class CodeInfo(NamedTuple):
    """One row: a summary, the usual cause, the usual fix, and whether trying again unchanged can help."""

    summary: str
    cause: str
    fix: str
    retryable: bool = False


CODES: dict[str, CodeInfo] = {
    # --- usage -------------------------------------------------------------------------------------------
    "USAGE": CodeInfo(
        "The command was called in a way that makes no sense",
        "An option or an argument is missing, malformed or excludes another.",
        "Read the command's --help.",
    ),
    "REFERENCE": CodeInfo(
        "A skill reference cannot be read",
        "A reference is example.com/name, a URL, a path, or a bare name when sources are configured.",
        "Write the reference in one of these forms.",
    ),
    # --- decoding: JSON ----------------------------------------------------------------------------------
    "JSON_SYNTAX": CodeInfo(
        "Not JSON", "The bytes do not follow the JSON grammar; NaN and Infinity are not JSON.", "Send valid JSON."
    ),
    "JSON_DEPTH": CodeInfo("JSON nests too deep", "Arrays or objects nest beyond the bound.", "Flatten the document."),
    "JSON_DUPLICATE_KEY": CodeInfo(
        "A JSON object has one key twice",
        "Two readers could take two different values for it.",
        "Keep one of the two.",
    ),
    "JSON_NUMBER": CodeInfo(
        "A JSON number is out of range", "It is longer or larger than any field needs.", "Send a smaller number."
    ),
    "JSON_UNICODE": CodeInfo(
        "JSON that is not UTF-8", "JSON between systems must be UTF-8, without lone surrogates.", "Save it as UTF-8."
    ),
    # --- decoding: Agent Skills Discovery ----------------------------------------------------------------
    "INDEX_SHAPE": CodeInfo(
        "Not a skill index",
        "The document is JSON, but has no list named skills, or its $schema is not a string.",
        "Check the address; an index is usually at /.well-known/agent-skills/index.json.",
    ),
    "INDEX_SCHEMA_UNKNOWN": CodeInfo(
        "The index follows a schema that is not known here",
        "Its $schema names another version of the format, so its entries may mean something else.",
        "Update skillwire; as a publisher, use the $schema of version 0.2.0.",
    ),
    "INDEX_ENTRIES": CodeInfo(
        "The index has too many entries", "It lists more skills than one index may.", "Split it into scoped indexes."
    ),
    "NAME_DUPLICATE": CodeInfo(
        "Two skills have one name", "Two readers could choose two different skills.", "Rename one of the two."
    ),
    "ENTRY_SHAPE": CodeInfo(
        "An index entry is not an object", "Each entry must be a JSON object.", "Mend or remove the entry."
    ),
    "NAME_FORM": CodeInfo(
        "Not a skill name",
        "A name is 1-64 of a-z, 0-9 and hyphens, with no hyphen first, last or doubled, and no device name.",
        "Rename the skill.",
    ),
    "DESCRIPTION_FORM": CodeInfo(
        "A description is missing or malformed",
        "A description is a text of 1 to 1,024 characters.",
        "Say in a sentence or two what the skill does and when to use it.",
    ),
    "ARTIFACT_TYPE_UNKNOWN": CodeInfo(
        "The type of an artifact is not known",
        "Version 0.2.0 knows skill-md and archive.",
        "Use one of the two; as a consumer, update skillwire.",
    ),
    "DIGEST_FORM": CodeInfo(
        "Not a digest",
        "A digest is sha256: followed by 64 lower-case hexadecimal characters.",
        "Write the SHA-256 of the artifact's bytes in this form.",
    ),
    "FILES_FORM": CodeInfo(
        "A list of files is malformed",
        "files must be a list of relative paths, with SKILL.md first and no path twice.",
        "Mend the list; skillwire build writes a right one.",
    ),
    "HIDDEN_TEXT": CodeInfo(
        "Text holds characters that people cannot see",
        "Hidden characters can carry instructions that a reviewer does not notice.",
        "Remove them. They are shown as escapes here and never handed on.",
    ),
    "UNVERIFIED": CodeInfo(
        "The origin publishes no digests",
        "Its index is of version 0.1.0, so what is downloaded cannot be checked against a promise.",
        "Ask the publisher for a 0.2.0 index (skillwire build writes both).",
    ),
}
