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
}
