"""The programs that these tests run beside: where they are, and how they run, bounded and away from the user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parent
#: Seconds after which a program that has not ended never will.
PATIENCE: Final = 150.0
_NODE_MODULES: Final = FOLDER / "node_modules"
#: Programs from PyPI that do not fit beside our own dependencies.
_PEERS: Final = FOLDER / ".peers"
_FROM_PYPI: Final = {
    "apm": ["apm"],
    "anthropic": ["python", str(FOLDER / "anthropic_skills.py")],
    "openai": ["python", str(FOLDER / "openai_skills.py")],
    "caddy": ["caddy"],
    "check-jsonschema": ["check-jsonschema"],
    "hadolint": ["hadolint"],
    "kubernetes-validate": ["kubernetes-validate"],
    "pre-commit": ["pre-commit"],
    "taplo": ["taplo"],
}
_NODE: Final = _NODE_MODULES / ".bin" / "node"
#: Name → the script that node runs.
_FROM_NPM: Final = {
    "clawhub": _NODE_MODULES / "clawhub" / "bin" / "clawdhub.js",
    "skills": _NODE_MODULES / "skills" / "bin" / "cli.mjs",
    "astro": _NODE_MODULES / "astro" / "bin" / "astro.mjs",
    "inspector": _NODE_MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js",
    "npm_tar": FOLDER / "npm_tar.mjs",
    "readers": FOLDER / "frontmatter_readers.mjs",
    "sharing_schema": FOLDER / "sharing_schema.mjs",
    "oidc_provider": FOLDER / "oidc_provider.mjs",
    "device_client": FOLDER / "device_client.mjs",
}
#: Name → the Debian package that has it.
_FROM_DEBIAN: Final = {
    "avahi-browse": "avahi-utils",
    "avahi-daemon": "avahi-daemon",
    "avahi-publish": "avahi-utils",
    "bsdtar": "libarchive-tools",
    "curl": "curl",
    "dbus-daemon": "dbus",
    "dumpcap": "tshark",
    "git": "git",
    "gzip": "gzip",
    "haproxy": "haproxy",
    "nginx": "nginx",
    "openssl": "openssl",
    "tar": "tar",
    "tinyproxy": "tinyproxy",
    "systemd-analyze": "systemd",
    "tshark": "tshark",
    "unshare": "util-linux",
    "unzip": "unzip",
    "zip": "zip",
}
_SEARCH: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def find_peer(name: str) -> list[str]:
    """Return the beginning of a command that runs the program ``name``; skip the test when it is not installed."""
    if name in _FROM_NPM:
        if not (_NODE_MODULES / ".installed").exists():
            pytest.skip("the peers from npm are not installed; fix: sh tools/npm_peers.sh")
        return [str(_NODE), str(_FROM_NPM[name])]
    if name in _FROM_PYPI:
        if not (_PEERS / ".installed").exists():
            pytest.skip("the peers from PyPI are not installed; fix: sh tools/pypi_peers.sh")
        program, *arguments = _FROM_PYPI[name]
        return [str(_PEERS / "bin" / program), *arguments]
    found = shutil.which(name, path=_SEARCH)
    if found is None:
        pytest.skip(f"{name} is not installed; fix: apt-get install {_FROM_DEBIAN[name]}")
    return [found]


def skillwire(*arguments: object) -> list[str]:
    """Return a command that runs ours."""
    return [sys.executable, "-m", "skillwire", *map(str, arguments)]


def environment(home: Path) -> dict[str, str]:
    """Return all that a program here knows of its surroundings: an empty home, no terminal, nobody to report to."""
    return {
        "PATH": _SEARCH,
        "HOME": str(home),
        "SKILLWIRE_HOME": str(home / "skillwire"),
        "LANG": "C.UTF-8",
        "CI": "1",
        "NO_COLOR": "1",
        "DISABLE_TELEMETRY": "1",
        "ASTRO_TELEMETRY_DISABLED": "1",
    }


def run(
    command: list[str], *, cwd: Path, home: Path, status: int = 0, variables: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end, with ``variables`` in its environment; return what it printed, errors included."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment(home), **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status, done.stdout
    return done.stdout
