"""Whether the code that a skill runs can begin at all: it is Python, and has the function that is asked for.

The file is parsed and never run. What it binds in ways that only running shows (``from x import *``, ``globals()``,
``exec``, ``__getattr__``) counts as bound: the rule finds what can never run, and judges nothing else.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from skillwire.errors import Place
from skillwire.folder.health import entry_points
from skillwire.folder.toml_places import toml_place

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence

    from skillwire.folder.content import FolderContent, TextFile
    from skillwire.folder.findings import Findings
    from skillwire.folder.health import EntryPoint

_BY_RUNNING: Final = ("globals(", "exec(", "setattr(", "vars(", "__dict__", "__getattr__", "global ")
_SHOWN: Final = 200


def lint_entrypoint(content: FolderContent, findings: Findings) -> None:
    """Judge the files that ``[runtime]`` and ``[health]`` of a folder name."""
    functions = tuple(entry_points(content.manifest))
    for path in dict.fromkeys(one.path for one in functions):
        file = next((one for one in content.texts if one.path == path), None)
        if file is not None:
            _lint_file(content, file, [one for one in functions if one.path == path], findings)


def _lint_file(content: FolderContent, file: TextFile, functions: Sequence[EntryPoint], findings: Findings) -> None:
    data = next(bytes(one.content) for one in content.files if one.path == file.path)
    try:
        tree = _parse(data)
    except SyntaxError as error:
        place = Place(file.source, error.lineno or 1, error.offset or None)
        findings.add("ENTRYPOINT_BROKEN", f"the file is not Python: {error.msg[:_SHOWN]}", place)
        return
    except (ValueError, RecursionError, MemoryError):  # deeper or stranger than a parser takes
        findings.add("ENTRYPOINT_BROKEN", "the file cannot be parsed as Python", Place(file.source))
        return
    names = _names(tree)
    if "*" in names or any(word in file.text for word in _BY_RUNNING):
        return
    for one in functions:
        if one.export not in names:
            message = f"{one.path} has no function {one.export}"
            findings.add("ENTRYPOINT_BROKEN", message, _place_of_export(content, one.table))


def _parse(data: bytes) -> ast.Module:
    import ast  # noqa: PLC0415  # few folders run code

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a doubtful escape is no matter of this rule
        return ast.parse(data)


def _names(tree: ast.Module) -> set[str]:
    """Return the names that the module binds at its top, in whatever branch; ``*`` where it takes all of another."""
    return {name for node in _at_top(tree) for name in _bound(node)}


def _at_top(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a module that are in no function, class or lambda of it."""
    import ast  # noqa: PLC0415  # as above

    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _bound(node: Any) -> Iterator[str]:
    import ast  # noqa: PLC0415  # as above

    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]


def _place_of_export(content: FolderContent, table: str) -> Place:
    """Return where the function is asked for: ``export`` where it is written, else the entry point."""
    text = next((file.text for file in content.texts if file.path == "skill.toml"), "")
    field = "export" if "export" in (content.manifest.document.get(table) or {}) else "entrypoint"
    return toml_place(text, (table, field), f"{content.root}/skill.toml")
