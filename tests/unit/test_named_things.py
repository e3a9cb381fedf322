"""What a docstring or a comment names by a role is there: a module, what it has, or a part of a class."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
ROLE = re.compile(r":(?:func|meth|class|mod|attr|data|exc|obj):`([^`]+)`")
DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module:
    """What one file has: ``names`` of its own and imported ones, the latter with where they come from; its classes."""

    def __init__(self, file: Path) -> None:
        parts = file.relative_to(SOURCE).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.text = file.read_text()
        self.names: dict[str, str] = {}
        self.classes: dict[str, set[str]] = {}
        self.bases: dict[str, list[str]] = {}
        tree = ast.parse(self.text)
        self._read(tree.body)
        for one in tree.body:
            if isinstance(one, ast.ClassDef):
                self.classes[one.name] = _members(one, self.text)
                self.bases[one.name] = [ast.unparse(base).partition("[")[0] for base in one.bases]

    def _read(self, body: list[ast.stmt]) -> None:
        for one in body:
            if isinstance(one, ast.ImportFrom):
                self.names |= {name.asname or name.name: f"{one.module}.{name.name}" for name in one.names}
            elif isinstance(one, ast.Import):
                self.names |= {name.asname or name.name.partition(".")[0]: name.name for name in one.names}
            elif isinstance(one, ast.If | ast.Try):
                self._read(one.body)
            else:
                self.names |= dict.fromkeys(_defined(one), "")


def _defined(one: ast.stmt) -> set[str]:
    if isinstance(one, DEFINES):
        return {one.name}
    targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def _members(owner: ast.ClassDef, text: str) -> set[str]:
    """Return what a class and its instances have."""
    found = {name for one in owner.body for name in _defined(one)}
    lines = text.splitlines()[owner.lineno - 1 : owner.end_lineno]
    return found | {name for line in lines for name in re.findall(r"\bself\.(\w+)(?:: .+?)?(?:, | = )", line)}


@cache
def modules() -> dict[str, Module]:
    return {module.name: module for module in map(Module, sorted(SOURCE.rglob("*.py")))}


def has(module: Module, name: str) -> bool:
    """Whether a module has a name, with dots for a part of a class."""
    first, _, rest = name.partition(".")
    if first not in module.names:
        return f"{module.name}.{first}" in modules() and (not rest or has(modules()[f"{module.name}.{first}"], rest))
    if not rest:
        return True
    if first in module.classes:
        ours = (base for base in module.bases[first] if _is_ours(module, base))
        return rest in module.classes[first] or any(has(module, f"{base}.{rest}") for base in ours)
    origin = module.names[first]
    return not origin.startswith("skillwire") or is_there(f"{origin}.{rest}")


def _is_ours(module: Module, name: str) -> bool:
    return name in module.classes or module.names.get(name, "").startswith("skillwire")


def is_there(name: str) -> bool:
    """Whether a name that begins with a package is there."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names:
        return True
    for length in range(len(parts), 0, -1):
        if found := modules().get(".".join(parts[:length])):
            return length == len(parts) or has(found, ".".join(parts[length:]))
    return False


def resolves(name: str, module: Module) -> bool:
    """Whether a name that a module's text has leads somewhere: from there, a class of it, or the package."""
    name = name.lstrip("~")
    if name.startswith("."):
        package = module.name if module.is_package else module.name.rpartition(".")[0]
        return is_there(package + name)
    is_member = any(has(module, f"{owner}.{name}") for owner in module.classes if owner in module.names)
    return is_there(name) or has(module, name) or is_member or has(modules()["skillwire"], name)


def test_what_docstrings_name_is_there():
    missing = [
        f"{module.name}: {name}"
        for module in modules().values()
        for name in ROLE.findall(module.text)
        if not resolves(name, module)
    ]
    assert not missing, "\n".join(missing)


def test_a_name_of_nothing_is_found():
    module = modules()["skillwire.adapters.lan.agent"]
    for name in (
        "EventRouter.take",
        "take",
        "skillwire.adapters.lan.agent.EventRouter",
        "asyncio",
        "Change",
        "SkillwireError.code",
    ):
        assert resolves(name, module), name
    for name in (
        "EventRouter.give",
        "give",
        "skillwire.adapters.lan.olds",
        "skillwire.errors.NetworkError",
        "Changes",
        ".olds",
    ):
        assert not resolves(name, module), name
