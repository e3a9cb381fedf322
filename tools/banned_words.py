"""Refuse words that hide the actor or the thing, in strings, docstrings, comments, names and pages.

STYLE: the subject of a sentence is a named component or the reader; names are the words of the protocols and the field.
Quoted text of the protocols is exempt by line: end the line with ``# words:`` and the reason.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT: Final = Path(__file__).parent.parent
#: Modules and scripts whose words are checked; of a script, the comments.
MODULES: Final = ("src/**/*.py", "tools/**/*.py")
SCRIPTS: Final = ("dev", "justfile", "tools/*.sh")
PROSE: Final = re.compile(
    r"\b(who(?:so)?ever|nobody|somebody|anybody|everybody|told|tells? of|hearsay|stranger|mend(?:s|ed|ing)?|is none of"
    r"|stands? in|what it takes|as well as it|by itself alone|goes? on with|on its way|of which|at its own"
    r"|is about it|(?<!ask )(?<!asks )(?<!wait )(?<!waits )for it)\b",
    re.IGNORECASE,
)
NAMES: Final = frozenset(
    """door doors annex visit reception told tell tells hearsay doubts enough tellable together wanted keeping keeper
    news room desk desks shelves lend workplace neighbours figures troubles obstacles asker says silences taken
    suspects upkeep sweep beats held noted strong faint doubtful whole""".split()  # noqa: SIM905  # a list of words is read as words
)
#: Of these, words that are plain for an argument, a variable or an attribute.
PLAIN: Final = frozenset({"enough", "held", "room", "suspects", "taken", "wanted", "whole"})
#: Pages whose prose is checked; text in fences and in generated blocks comes from programs.
PAGES: Final = ("*.md", "changelog.d/*.md", "docs/**/*.md")
_FOREIGN: Final = re.compile(r"<!-- generated.*?end of generated -->|^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_EXEMPT: Final = "# words:"


def main() -> int:
    """Print each banned word with its place; return the exit code."""
    here = Path(__file__)
    checks = ((MODULES, words_of), (SCRIPTS, words_of_script), (PAGES, words_of_page))
    found = [
        row
        for globs, check in checks
        for path in sorted(path for glob in globs for path in PROJECT.glob(glob) if path != here)
        for row in check(path)
    ]
    for path, line, word in found:
        print(f"{path.relative_to(PROJECT)}:{line}: {word}")
    if found:
        print("fix: name the actor, or use the word of the field (CONTRIBUTING.md, Style)")
    return 1 if found else 0


def words_of(path: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the banned words of a module: place and word."""
    source = path.read_text()
    lines = source.splitlines()
    for line, word in [*_words_of_nodes(ast.parse(source)), *_words_of_comments(source)]:
        if _EXEMPT not in lines[line - 1]:
            yield path, line, word
    yield from ((path, 1, f"module {path.stem}") for part in path.stem.split("_") if part in NAMES)


def _words_of_nodes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                yield from ((node.lineno, match[0]) for match in PROSE.finditer(text))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield from ((node.lineno, name) for _ in NAMES.intersection(_parts(name)))
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield from ((node.lineno, name) for _ in (NAMES - PLAIN).intersection(_parts(name)))


def _parts(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _words_of_comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from ((token.start[0], match[0]) for match in PROSE.finditer(token.string))


def words_of_script(path: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the banned words of a script's comments: place and word."""
    comments = (row for row in enumerate(path.read_text().splitlines(), 1) if row[1].lstrip().startswith("#"))
    yield from ((path, line, match[0]) for line, text in comments for match in PROSE.finditer(text))


def words_of_page(path: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the banned words of a page's prose: place and word."""
    text = _FOREIGN.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())
    yield from ((path, text.count("\n", 0, match.start()) + 1, match[0]) for match in PROSE.finditer(text))


if __name__ == "__main__":
    sys.exit(main())
