"""The page of the Python API, from the docstrings of the public names.

The public names are those in ``__all__`` of ``MODULES``. The page shows a class's own public attributes and methods,
and not those that it inherits from a class outside the package.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

#: What users import from; a module that is not there is passed over.
MODULES: Final = ("skillwire", "skillwire.dht", "skillwire.lan", "skillwire.rpc", "skillwire.testing")
_SECTIONS: Final = ("Args", "Returns", "Raises", "Yields", "Trust", "Spec")


def api_reference() -> str:
    """Return the page in Markdown."""
    parts = ["# Python API", "[Use skills from Python](../how-to/use-the-sdk.md) shows the usual calls at work."]
    seen: dict[str, Any] = {}
    for module in (importlib.import_module(name) for name in MODULES if importlib.util.find_spec(name)):
        parts += [f"## {module.__name__}", _prose(inspect.getdoc(module) or "")]
        for name, value in _public(module, seen):
            twin = name.replace("Async", "", 1)
            parts += (
                _twin(name, twin)
                if twin != name and twin.rpartition(".")[2] in module.__all__
                else _described(name, value)
            )
    return "\n\n".join(part for part in parts if part) + "\n"


def _public(module: ModuleType, seen: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names of ``module`` that no module before has; one that means another value there is ``dht.Client``."""
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if callable(value) and seen.get(name) is not value:
            yield name if name not in seen else f"{module.__name__.rpartition('.')[2]}.{name}", value
            seen.setdefault(name, value)


def _twin(name: str, twin: str) -> list[str]:
    anchor = twin.lower().replace(".", "")
    return [f"### {name}", f"The asynchronous face of [{twin}](#{anchor}): the same methods, awaited."]


def _described(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    yield f"```python\n{_signature(name.rpartition('.')[2], value)}\n```"
    yield _prose(inspect.getdoc(value) or "")
    if inspect.isclass(value):
        yield _attributes(value)
        for verb, method in _methods(value):
            yield f"#### {name}.{verb}"
            yield f"```python\n{_signature(verb, method)}\n```"
            yield _prose(inspect.getdoc(method) or "")


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name in sorted(
        {name for base in kind.__mro__ if base.__module__.startswith("skillwire") for name in vars(base)}
    ):
        method = inspect.getattr_static(kind, name)
        if not name.startswith("_") and isinstance(method, staticmethod | classmethod):
            yield name, getattr(kind, name)
        elif not name.startswith("_") and inspect.isroutine(method):
            yield name, method


def _attributes(kind: type) -> str:
    """Return a list of the fields and properties of a class."""
    lines = []
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    lines += [f"- `{field.name}: {field.type}`" for field in fields if not field.name.startswith("_")]
    for name, value in inspect.getmembers_static(kind, lambda value: isinstance(value, property)):
        if not name.startswith("_"):
            lines.append(f"- `{name}`: {_prose(inspect.getdoc(value) or '').partition(chr(10))[0]}")
    return "\n".join(lines)


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return f"class {name}"
    parts = [_parameter(row) for row in signature.parameters.values() if row.name not in {"self", "cls"}]
    kinds = [row.kind for row in signature.parameters.values() if row.name not in {"self", "cls"}]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    before = "class " if inspect.isclass(value) else "async def " if inspect.iscoroutinefunction(value) else "def "
    after = (
        ""
        if inspect.isclass(value) or not signature.return_annotation
        else f" -> {_annotation(signature.return_annotation)}"
    )
    line = f"{before}{name}({', '.join(parts)}){after}"
    if len(line) > 100:  # noqa: PLR2004  # a line of the page
        line = f"{before}{name}(\n    " + ",\n    ".join(parts) + f",\n){after}"
    return line


def _parameter(row: inspect.Parameter) -> str:
    stars = "*" if row.kind is row.VAR_POSITIONAL else "**" if row.kind is row.VAR_KEYWORD else ""
    kind = "" if row.annotation is row.empty else f": {_annotation(row.annotation)}"
    if row.default is row.empty:
        return f"{stars}{row.name}{kind}"
    shown = repr(row.default)
    return f"{row.name}{kind} = {'...' if shown.startswith('<') else shown}"


def _annotation(annotation: Any) -> str:
    """Return an annotation as it is written; a named tuple wraps its own into references."""
    return str(getattr(annotation, "__forward_arg__", annotation))


def _prose(docstring: str) -> str:
    """Return a docstring as Markdown: roles and double backticks as code, sections as bold lines with lists."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", docstring).replace("``", "`")
    lines: list[str] = []
    section = False
    for line in text.split("\n"):
        if line.rstrip(":") in _SECTIONS and line.endswith(":"):
            lines += ["", f"**{line.rstrip(':')}**", ""]
            section = True
        elif section and re.match(r"    \*{0,2}\w+: ", line):
            name, _, meaning = line.strip().partition(": ")
            lines.append(f"- `{name}`: {meaning}")
        elif line.startswith("    ") and section:
            lines.append(f"  {line.strip()}")
        else:
            section = section and not line
            lines.append(line.replace("    ", " ") if line.startswith("    ") else line)
    return "\n".join(lines).strip()
