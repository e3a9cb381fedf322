"""What a ``marketplace.json`` says, as far as it concerns skills.

A marketplace is a folder, most often a git repository, whose ``.claude-plugin/marketplace.json`` lists plugins. Each
has a name and a source: a path from the marketplace's root that begins with ``./`` (or, with ``metadata.pluginRoot``, a
bare name below that), or an object that names a repository, a package, an archive or a command. A plugin's skills are
in its folder ``skills/``, and where ``skills`` of its entry or of its own ``.claude-plugin/plugin.json`` says; a plugin
with a ``SKILL.md`` and no ``skills/`` is one skill. An entry that lists skills and whose plugin has no ``plugin.json``
is the whole manifest, as with ``"strict": false``: then ``skills/`` is not looked into beside the list.

Each entry is judged on its own, as Claude does, and one that cannot be taken is said.

Spec: specs §5; the marketplace reference of Claude Code. Trust: a document is a stranger's. Every path in it is checked
before it is joined to anything, and nothing that it names is run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.codes import CODES
from skillwire.errors import Place, SkillwireError, ValidationError
from skillwire.model.finding import Finding
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKETPLACE_PATH: Final = ".claude-plugin/marketplace.json"
PLUGIN_PATH: Final = ".claude-plugin/plugin.json"
#: Where a plugin has its skills unless it says more.
SKILLS_FOLDER: Final = "skills"
_SHOWN: Final = 80
_GITHUB: Final = "https://github.com/"
_SHORTHAND: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
#: What can stand in a command line as it is: no option, no other transport, nothing that a shell reads.
_ADDRESS: Final = re.compile(r"(?:https://|git@)[\w.@:/~-]+", re.ASCII)
_REF: Final = re.compile(r"\w[\w./-]*", re.ASCII)


class Elsewhere(NamedTuple):
    """A source outside of the marketplace: its kind as the document has it, and how a person fetches it."""

    kind: str
    advice: str


class Plugin(NamedTuple):
    """One plugin.

    Args:
        name: as the entry has it.
        source: its folder, from the marketplace's root, empty for the root itself; or that it is elsewhere.
        skills: folders that the entry lists, from the plugin's folder; empty for that folder itself.
    """

    name: str
    source: str | Elsewhere
    skills: tuple[str, ...] = ()


class Marketplace(NamedTuple):
    """A marketplace: its name, the plugins that can be taken, and what is wrong with the others."""

    name: str
    plugins: tuple[Plugin, ...]
    findings: tuple[Finding, ...]


def read_marketplace(data: bytes, source: str) -> Marketplace:
    """Return what a ``marketplace.json`` says.

    Args:
        data: the document.
        source: its file or URL, for errors and findings.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``JSON_...``.
        ValidationError: ``MARKETPLACE_FORM``.
    """
    document = load_json(data, max_bytes=limits.MARKETPLACE_BYTES, source=source)
    entries = document.get("plugins") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries, list):
        raise ValidationError("MARKETPLACE_FORM", "this is no object with a list of plugins", place=Place(source))
    if len(entries) > limits.MARKETPLACE_PLUGINS:
        message = f"{len(entries)} plugins, at most {limits.MARKETPLACE_PLUGINS} are read"
        raise ValidationError("MARKETPLACE_FORM", message, place=Place(source))
    root = _plugin_root(document, source)
    plugins: list[Plugin] = []
    findings: list[Finding] = []
    for number, entry in enumerate(entries):
        try:
            plugins.append(_read_plugin(entry, root))
        except SkillwireError as error:
            findings.append(note("PLUGIN_FORM", f"plugin {_called(entry, number)}: {error.message}", source))
    return Marketplace(_text(document.get("name")), tuple(plugins), tuple(findings))


def read_plugin_skills(data: bytes, source: str) -> tuple[str, ...]:
    """Return the folders that ``skills`` of a ``plugin.json`` names, from the plugin's folder.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``JSON_...``.
        ValidationError: ``MARKETPLACE_FORM``.
        TrustError: ``PATH_...``.
    """
    document = load_json(data, max_bytes=limits.MARKETPLACE_BYTES, source=source)
    if not isinstance(document, dict):
        raise ValidationError("MARKETPLACE_FORM", "the plugin's manifest is not an object", place=Place(source))
    return _skills(document)


def note(code: str, message: str, source: str, fix: str | None = None) -> Finding:
    """Return what is said of something that is passed over."""
    return Finding(code, "warning", message, Place(source), fix or CODES[code].fix)


def join(*parts: str) -> str:
    """Return the path of folders, one below the other; empty ones add nothing."""
    return "/".join(part for part in parts if part)


def _plugin_root(document: Mapping[str, Any], source: str) -> str | None:
    metadata = document.get("metadata")
    root = metadata.get("pluginRoot") if isinstance(metadata, dict) else None
    if root is None:
        return None
    try:
        return _folder(root)
    except SkillwireError as error:
        message = f"metadata.pluginRoot: {error.message}"
        raise ValidationError("MARKETPLACE_FORM", message, place=Place(source)) from error


def _read_plugin(entry: object, root: str | None) -> Plugin:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ValidationError("PLUGIN_FORM", "an entry has to be an object with a name")
    source = entry.get("source")
    if isinstance(source, dict):
        return Plugin(entry["name"], _elsewhere(source))
    return Plugin(entry["name"], _relative(source, root), _skills(entry))


def _relative(source: object, root: str | None) -> str:
    """Return the folder of a plugin; bare names are below ``pluginRoot``, and so is every path for other readers."""
    if not isinstance(source, str):
        raise ValidationError("PLUGIN_FORM", "its source is neither a path nor an object")
    is_bare = not source.startswith(".") and "/" not in source
    if is_bare and root is None:
        raise ValidationError("PLUGIN_FORM", f"its source {_shown(source)} has to begin with ./")
    return join(root or "", _folder(source)) if is_bare else _folder(source)


def _skills(document: Mapping[str, Any]) -> tuple[str, ...]:
    skills = document.get("skills", [])
    listed = [skills] if isinstance(skills, str) else skills
    if not isinstance(listed, list):
        raise ValidationError("PLUGIN_FORM", "its skills are neither a path nor a list of paths")
    return tuple(dict.fromkeys(map(_folder, listed)))


def _folder(path: object) -> str:
    """Return the folder that ``path`` names, without ``./`` and a final ``/``; empty for ``.``.

    Trust: what is left is checked by the one rule for paths, so nothing leads out of where it is joined to.
    """
    if not isinstance(path, str):
        raise ValidationError("PLUGIN_FORM", "a path is not a text")
    folder = path.removeprefix("./").removesuffix("/")
    return "" if folder in {"", "."} and path.startswith(".") else check_path(folder)


def _elsewhere(source: Mapping[str, Any]) -> Elsewhere:
    """Return where a plugin is; a command is advised only where no word of it could mean more than it seems to."""
    kind = _text(source.get("source"))
    address, ref, path = (_text(source.get(key)) for key in ("url", "ref", "path"))
    if kind == "github":
        address = _GITHUB + _text(source.get("repo"))
    if kind == "git-subdir" and _SHORTHAND.fullmatch(address):
        address = _GITHUB + address
    if kind in {"github", "url", "git-subdir"} and _ADDRESS.fullmatch(address) and (not ref or _REF.fullmatch(ref)):
        branch = f"--branch {ref} " if ref else ""
        below = f" {path}" if _REF.fullmatch(path) else ""
        return Elsewhere(kind, f"Run git clone --depth 1 {branch}{address} and import its folder{below}.")
    if kind == "archive" and _ADDRESS.fullmatch(address):
        return Elsewhere(kind, f"Download {address}, unpack it and import its folder.")
    return Elsewhere(kind or "unknown", CODES["PLUGIN_ELSEWHERE"].fix)


def _called(entry: object, number: int) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return _shown(name) if isinstance(name, str) else f"number {number + 1}"


def _shown(text: str) -> str:
    return ascii(neutralise(text)[:_SHOWN])


def _text(value: object) -> str:
    return neutralise(value)[:200] if isinstance(value, str) else ""
