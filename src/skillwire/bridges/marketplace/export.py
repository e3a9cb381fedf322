"""Published skills as a ``marketplace.json`` that Claude takes.

Each skill is a plugin of its own, so that people install what they want; or all of them are one plugin, when that is
asked for. A plugin's source is the folder in which its skills lie, and the entry is its whole manifest
(``"strict": false``): it names the skill's folder, which keeps the skill's name wherever the plugin is copied to, and
says nothing else. Only what everybody may see is listed.

The version of the document holds a digest of the rest. So what was written here, and changed by nobody, is known again
and may be written anew (:func:`is_untouched`).

Spec: specs §5; the marketplace reference of Claude Code.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, UsageError
from skillwire.folder.load import DEFAULT_VERSION
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.model.skill import Skill

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
#: Names that Claude takes from their owners alone, or from nobody.
_RESERVED: Final = frozenset({
    "agent-skills", "anthropic-agent-skills", "anthropic-marketplace", "anthropic-plugin-directory",
    "anthropic-plugins", "builtin", "cargo", "claude-code-marketplace", "claude-code-plugins", "claude-community",
    "claude-for-financial-services", "claude-for-legal", "claude-plugin-directory", "claude-plugin-test",
    "claude-plugins-community", "claude-plugins-official", "claude-tag-plugins", "financial-services-plugins",
    "first-party-plugins", "gh", "github", "healthcare", "inline", "knowledge-work-plugins", "life-sciences",
    "npm", "pip", "skills-dir", "synced", "uv",
})  # fmt: skip
_RESERVED_START: Final = "claudeai-"
#: What the version of a document of ours begins with; the digest is build metadata. Spec: SemVer §10.
_VERSION: Final = "0.0.0+skillwire."
_DIGITS: Final = 32


class Listed(NamedTuple):
    """A skill and the folder that holds it, from the marketplace's root; empty for the root itself."""

    skill: Skill
    folder: str


def check_marketplace_name(name: str) -> str:
    """Return ``name``.

    Raises:
        UsageError: ``MARKETPLACE_NAME`` when no marketplace or plugin may be called so.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise UsageError("MARKETPLACE_NAME", f"nothing can be called {name[:80]!a} there")
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_START):
        raise UsageError("MARKETPLACE_NAME", f"the name {name} is kept for its owner")
    return name


def encode_marketplace(name: str, owner: str, listed: Iterable[Listed], *, plugin: str | None = None) -> bytes:
    """Return the document.

    Args:
        name: of the marketplace, checked.
        owner: who publishes.
        listed: the skills, and where they are.
        plugin: the one plugin that all of them are; without it each is one, called as the skill is.
    """
    rows = sorted(listed, key=lambda row: row.skill.name)
    number = "1 skill" if len(rows) == 1 else f"{len(rows)} skills"
    document: dict[str, Any] = {
        "name": name,
        "owner": {"name": owner},
        "metadata": {"description": f"{number} of {owner}"},
        "plugins": [_bundle(plugin, owner, rows)] if plugin is not None else [_plugin(row, owner) for row in rows],
    }
    document["metadata"]["version"] = _VERSION + hashlib.sha256(_encode(document)).hexdigest()[:_DIGITS]
    return _encode(document)


def is_untouched(data: bytes) -> bool:
    """Whether ``data`` is a document that :func:`encode_marketplace` gave, byte for byte.

    Trust: it may be anybody's; nothing in it raises.
    """
    try:
        document = load_json(data, max_bytes=limits.MARKETPLACE_BYTES)
    except DecodeError:
        return False
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(metadata, dict):
        return False
    version = metadata.pop("version", None)
    digest = hashlib.sha256(_encode(document)).hexdigest()[:_DIGITS]
    metadata["version"] = version
    return version == _VERSION + digest and _encode(document) == data


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n"


def _plugin(row: Listed, owner: str) -> dict[str, Any]:
    skill = row.skill
    parent, name = posixpath.split(row.folder)
    more = {"license": skill.license} if skill.license else {}
    # A stated version holds back updates until it changes, so the one that stands for none is not stated.
    version = {"version": skill.version} if skill.version != DEFAULT_VERSION else {}
    return {
        "name": skill.name,
        "description": skill.description,
        **version,
        "author": {"name": owner},
        **more,
        "source": _relative(parent),
        "strict": False,
        "skills": [_relative(name)],
    }


def _bundle(plugin: str, owner: str, rows: Sequence[Listed]) -> dict[str, Any]:
    parent = posixpath.commonpath([posixpath.dirname(row.folder) for row in rows]) if rows else ""
    names = ", ".join(row.skill.name for row in rows)
    return {
        "name": plugin,
        "description": f"The skills {names}"[:1024],
        "author": {"name": owner},
        "source": _relative(parent),
        "strict": False,
        "skills": [_relative(posixpath.relpath(row.folder or ".", parent or ".")) for row in rows],
    }


def _relative(path: str) -> str:
    return f"./{path}" if path not in {"", "."} else "./"
