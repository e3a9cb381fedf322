"""The page of licences: the licence of every dependency, from its installed metadata.

Python packages are those of ``requirements.lock`` that this system installs; the programs from npm, which only tests
use, are those of their lock file.
"""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT: Final = Path(__file__).parent.parent
PAGE: Final = PROJECT / "docs" / "licences.md"
HEAD: Final = """\
# Licences

skillwire itself is under the Apache License 2.0. This page states the licence of everything that it depends
on, as each package's own metadata says. Each build of the docs writes it.
"""


def page() -> str:
    """Return the text of the page."""
    locked = python_packages()
    needed = needed_to_run() & locked.keys()
    return (
        "\n".join(
            [
                HEAD,
                "## What runs",
                "",
                "Installed with skillwire and its extra `server`.",
                "",
                *_by_licence({name: locked[name] for name in needed}),
                "## What builds and checks",
                "",
                "Installed for development only.",
                "",
                *_by_licence({name: locked[name] for name in locked.keys() - needed}),
                "## What tests run beside",
                "",
                "Programs from npm, started by the interop tests and never shipped.",
                "",
                *_by_licence(npm_packages()),
            ]
        ).rstrip("\n")
        + "\n"
    )


def python_packages() -> dict[str, str]:
    """Return name → licence of every locked package that is installed here."""
    names = re.findall(r"^([\w.-]+)==", (PROJECT / "requirements.lock").read_text(), re.MULTILINE)
    return {name: licence for name in names if (licence := _licence(name))}


def needed_to_run() -> set[str]:
    """Return the names of what skillwire needs at run time, directly or not."""
    found: set[str] = set()
    ahead = {"skillwire"}
    while ahead:
        name = ahead.pop()
        found.add(name)
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(
                {"extra": "server" if name == "skillwire" else ""}
            ):
                ahead |= {canonicalize_name(requirement.name)} - found
    return found - {"skillwire"}


def npm_packages() -> dict[str, str]:
    """Return name → licence of every locked package from npm."""
    packages = json.loads((PROJECT / "tests" / "interop" / "package-lock.json").read_text())["packages"]
    return {
        name.rpartition("node_modules/")[2]: package.get("license", "not stated")
        for name, package in packages.items()
        if name
    }


def _licence(name: str) -> str | None:
    """Return what the metadata says, or None for a package of another system."""
    try:
        about = metadata.metadata(name).json
    except metadata.PackageNotFoundError:
        return None
    if expression := about.get("license_expression"):
        return str(expression)
    lines = [str(line) for line in about.get("classifier", ()) if str(line).startswith("License :: ")]
    names = [line.rpartition(" :: ")[2] for line in lines if not line.endswith("OSI Approved")]
    return ", ".join(names) or str(about.get("license", "not stated")).strip().splitlines()[0]


def _by_licence(licences: dict[str, str]) -> list[str]:
    rows = [
        f"| {licence} | {', '.join(sorted(name for name in licences if licences[name] == licence))} |"
        for licence in sorted(set(licences.values()))
    ]
    return ["| licence | packages |", "| --- | --- |", *rows, ""]
