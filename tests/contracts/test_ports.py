"""Each port has one suite, with every adapter that says it fills the port, and is asynchronous or says why not."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from skillwire import ports

CONTRACTS = Path(__file__).parent
ROOT = CONTRACTS.parents[1]
PORTS = {name: one for name, one in vars(ports).items() if getattr(one, "__module__", "") == ports.__name__}
#: Port → the module with its suite.
SUITES = {
    "AnnouncedFileStore": "test_announced_files",
    "BlobStore": "test_blobs",
    "Clock": "test_clocks",
    "DeviceLoginStore": "test_device_logins",
    "Download": "test_blobs",
    "ExecutionLedger": "test_ledger",
    "Executor": "test_executors",
    "GrantStore": "test_stores",
    "OriginBook": "test_client_stores",
    "PackageStore": "test_packages",
    "ResponseCache": "test_client_stores",
    "RunBlobs": "test_run_blobs",
    "SkillIndex": "test_search",
    "SkillSearch": "test_search",
    "SkillsFolder": "test_skills_folder",
    "SkillsFolderChange": "test_skills_folder",
    "TokenStore": "test_stores",
    "UploadStore": "test_uploads",
}
_FLOWS = "flows call it as ``Work``"
#: Port or method that is synchronous → why, as its docstring says.
SYNCHRONOUS = {
    "BlobStore": _FLOWS,
    "Clock.__call__": "it reads a clock",
    "Download": "each step is the write of one piece",
    "ExecutionLedger.watch": "it registers",
    "OriginBook": _FLOWS,
    "ResponseCache": _FLOWS,
    "RunBlobs.spool": "the thread that watches a sandbox calls it",
    "SkillIndex": "the thread that makes one calls it",
    "SkillSearch": "it computes, in a thread, or within two milliseconds",
    "SkillsFolder": _FLOWS,
    "SkillsFolderChange": _FLOWS,
}


#: Ports that an adapter of another one makes.
MADE = {"Download", "SkillSearch", "SkillsFolderChange"}


def adapters():
    """Return port → the classes whose docstring says that they fill it."""
    found: dict[str, set[str]] = {}
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "tests/support").glob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "skillwire.ports." in text else ():
            if isinstance(node, ast.ClassDef):
                for port in re.findall(r"Fills :class:`~?skillwire\.ports\.(\w+)`", ast.get_docstring(node) or ""):
                    found.setdefault(port, set()).add(node.name)
    return found


def text_of(suite):
    """Return a suite with its fixtures."""
    offices = "tests/support/executions.py" if suite == SUITES["ExecutionLedger"] else f"tests/contracts/{suite}.py"
    return "".join((ROOT / path).read_text() for path in (f"tests/contracts/{suite}.py", offices))


def test_every_port_has_a_suite_with_all_that_fills_it():
    filled = adapters()
    assert SUITES.keys() == PORTS.keys()
    assert filled.keys() <= PORTS.keys()
    for port, suite in SUITES.items():
        assert (CONTRACTS / f"{suite}.py").is_file()
        named = () if port in MADE else filled[port]
        missing = [one for one in named if not re.search(rf"\b{one}\b", text_of(suite))]
        assert not missing, f"{suite} does not test {missing} as {port}"


def methods():
    for port, made in PORTS.items():
        for name, value in vars(made).items():
            if inspect.isfunction(value) and (not name.startswith("_") or name == "__call__"):
                yield port, name, value


def test_every_port_is_asynchronous_or_says_why_not():
    plain = {(port, name) for port, name, value in methods() if not inspect.iscoroutinefunction(value)}
    named = {key if key in SYNCHRONOUS else f"{key}.{name}" for key, name in plain}
    assert named == SYNCHRONOUS.keys()


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_the_docstring_says_why(name):
    port, _, method = name.partition(".")
    documented = getattr(PORTS[port], method) if method else PORTS[port]
    said = " ".join((inspect.getdoc(documented) or "").split())
    assert f"Synchronous: {SYNCHRONOUS[name]}" in said
