"""Claude's ``marketplace.json``: reading what concerns skills, and writing one for published skills.

A marketplace is a folder, usually a git repository, whose ``.claude-plugin/marketplace.json`` lists plugins. A plugin
has a name and a source: a path from the marketplace's root that begins with ``./`` (or, with ``metadata.pluginRoot``, a
bare name below that), or an object for a repository, package, archive or command. A plugin's skills are in its folder
``skills/``, and where ``skills`` of its entry or of its ``.claude-plugin/plugin.json`` points; a plugin with a
``SKILL.md`` and no ``skills/`` is one skill. An entry that lists skills and whose plugin has no ``plugin.json`` is the
whole manifest, as with ``"strict": false``; then ``skills/`` is not searched. Each entry is judged separately, as
Claude does, and rejected ones are reported.

When written, each skill is a plugin, so that people choose. The entry is the whole
manifest and names the skill's folder, which keeps the skill's name in every copy. Only public skills are listed. The
document's version holds a digest of the rest, so an unchanged document of ours is recognised and may be replaced
(:func:`is_untouched`).

A folder is imported as a marketplace when it has ``.claude-plugin/marketplace.json``; one with
``.claude-plugin/plugin.json``, ``skills/`` or a ``SKILL.md`` is a plugin and counts as a marketplace of one. Each skill
is read leniently and once. Spec: specs §5; the marketplace reference of Claude Code. Trust: folders and documents are
hostile. Every path is checked before it is joined, and nothing that it names is run; links may lead to other places of
the marketplace only, and within a skill to that skill only (:mod:`skillwire.folder.files`). The skills are bounded.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.codes import CODES
from skillwire.errors import DecodeError, SkillwireError, SourceLocation, StorageError, UsageError, ValidationError
from skillwire.folder.load import DEFAULT_VERSION, CheckedFolder, check_folder
from skillwire.model.skill import SKILL_MD, FileContent, Finding, Skill, is_skill_name
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path

MARKETPLACE_PATH: Final = ".claude-plugin/marketplace.json"
PLUGIN_PATH: Final = ".claude-plugin/plugin.json"
#: Where a plugin has its skills unless it says more.
SKILLS_FOLDER: Final = "skills"
_SHOWN: Final = 80
_GITHUB: Final = "https://github.com/"
_SHORTHAND: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
#: What can be in a command line as it is: no option, no other transport, nothing that a shell reads.
_ADDRESS: Final = re.compile(r"(?:https://|git@)[\w.@:/~-]+", re.ASCII)
_REF: Final = re.compile(r"\w[\w./-]*", re.ASCII)


class ExternalPlugin(NamedTuple):
    """A source outside of the marketplace: its kind as the document has it, and how a person fetches it."""

    kind: str
    advice: str


class Plugin(NamedTuple):
    """One plugin, by the name of its entry."""

    name: str
    source: str | ExternalPlugin  # a folder from the marketplace's root, empty for the root
    skills: tuple[str, ...] = ()  # listed folders, from the plugin's folder; empty for that folder itself


class Marketplace(NamedTuple):
    """A marketplace: its name, the plugins that can be taken, and what is wrong with the others."""

    name: str
    plugins: tuple[Plugin, ...]
    findings: tuple[Finding, ...]


def read_marketplace(data: bytes, source: str) -> Marketplace:
    """Return the contents of a ``marketplace.json`` from ``source``, a file or URL.

    Raises DecodeError (``LIMIT_SIZE``, ``JSON_...``), ValidationError (``MARKETPLACE_FORM``).
    """
    document = load_json(data, max_bytes=limits.MARKETPLACE_BYTES, source=source)
    entries = document.get("plugins") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries, list):
        message = "this is no object with a list of plugins"
        raise ValidationError("MARKETPLACE_FORM", message, place=SourceLocation(source))
    if len(entries) > limits.MARKETPLACE_PLUGINS:
        message = f"{len(entries)} plugins, at most {limits.MARKETPLACE_PLUGINS} are read"
        raise ValidationError("MARKETPLACE_FORM", message, place=SourceLocation(source))
    root = _plugin_root(document, source)
    plugins: list[Plugin] = []
    findings: list[Finding] = []
    for number, entry in enumerate(entries):
        try:
            plugins.append(_read_plugin(entry, root))
        except SkillwireError as error:
            name = entry.get("name") if isinstance(entry, dict) else None
            label = _shown(name) if isinstance(name, str) else f"number {number + 1}"
            findings.append(_finding("PLUGIN_FORM", f"plugin {label}: {error.message}", source))
    return Marketplace(_text(document.get("name")), tuple(plugins), tuple(findings))


def read_plugin_skills(data: bytes, source: str) -> tuple[str, ...]:
    """Return the folders in ``skills`` of a ``plugin.json``, from the plugin's folder.

    Raises DecodeError (``LIMIT_SIZE``, ``JSON_...``), ValidationError (``MARKETPLACE_FORM``), TrustError
    (``PATH_...``).
    """
    document = load_json(data, max_bytes=limits.MARKETPLACE_BYTES, source=source)
    if not isinstance(document, dict):
        message = "the plugin's manifest is not an object"
        raise ValidationError("MARKETPLACE_FORM", message, place=SourceLocation(source))
    return _skills(document)


def _finding(code: str, message: str, source: str, fix: str | None = None) -> Finding:
    """Return a finding about something skipped."""
    return Finding(code, "warning", message, SourceLocation(source), fix or CODES[code].fix)


def _join_path(*parts: str) -> str:
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
        raise ValidationError("MARKETPLACE_FORM", message, place=SourceLocation(source)) from error


def _read_plugin(entry: object, root: str | None) -> Plugin:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ValidationError("PLUGIN_FORM", "an entry has to be an object with a name")
    source = entry.get("source")
    if isinstance(source, dict):
        return Plugin(entry["name"], _elsewhere(source))
    # Bare names are below ``pluginRoot``, and so is every path for other readers.
    if not isinstance(source, str):
        raise ValidationError("PLUGIN_FORM", "its source is neither a path nor an object")
    is_bare = not source.startswith(".") and "/" not in source
    if is_bare and root is None:
        raise ValidationError("PLUGIN_FORM", f"its source {_shown(source)} has to begin with ./")
    return Plugin(
        entry["name"], _join_path(root or "", _folder(source)) if is_bare else _folder(source), _skills(entry)
    )


def _skills(document: Mapping[str, Any]) -> tuple[str, ...]:
    skills = document.get("skills", [])
    listed = [skills] if isinstance(skills, str) else skills
    if not isinstance(listed, list):
        raise ValidationError("PLUGIN_FORM", "its skills are neither a path nor a list of paths")
    return tuple(dict.fromkeys(map(_folder, listed)))


def _folder(path: object) -> str:
    """Return the folder of ``path`` without ``./`` and a final ``/``; empty for ``.``.

    Trust: the path rule checks it next.
    """
    if not isinstance(path, str):
        raise ValidationError("PLUGIN_FORM", "a path is not a text")
    folder = path.removeprefix("./").removesuffix("/")
    return "" if folder in {"", "."} and path.startswith(".") else check_path(folder)


def _elsewhere(source: Mapping[str, Any]) -> ExternalPlugin:
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
        return ExternalPlugin(kind, f"Run git clone --depth 1 {branch}{address} and import its folder{below}.")
    if kind == "archive" and _ADDRESS.fullmatch(address):
        return ExternalPlugin(kind, f"Download {address}, unpack it and import its folder.")
    return ExternalPlugin(kind or "unknown", CODES["PLUGIN_ELSEWHERE"].fix)


def _shown(text: str) -> str:
    return ascii(neutralise(text)[:_SHOWN])


def _text(value: object) -> str:
    return neutralise(value)[:200] if isinstance(value, str) else ""


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
#: Names that Claude reserves.
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


class ListedSkill(NamedTuple):
    """A skill and the folder that holds it, from the marketplace's root; empty for the root itself."""

    skill: Skill
    folder: str


def check_marketplace_name(name: str) -> str:
    """Return ``name`` if a marketplace or plugin may have it. Raises UsageError (``MARKETPLACE_NAME``)."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise UsageError("MARKETPLACE_NAME", f"nothing can be called {name[:80]!a} there")
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_START):
        raise UsageError("MARKETPLACE_NAME", f"the name {name} is kept for its owner")
    return name


def encode_marketplace(name: str, owner: str, listed: Iterable[ListedSkill]) -> bytes:
    """Return the document of the marketplace ``name``, which was checked; ``owner`` is the publisher."""
    rows = sorted(listed, key=lambda row: row.skill.name)
    number = "1 skill" if len(rows) == 1 else f"{len(rows)} skills"
    document: dict[str, Any] = {
        "name": name,
        "owner": {"name": owner},
        "metadata": {"description": f"{number} of {owner}"},
        "plugins": [_plugin(row, owner) for row in rows],
    }
    document["metadata"]["version"] = _VERSION + hashlib.sha256(_encode(document)).hexdigest()[:_DIGITS]
    return _encode(document)


def is_untouched(data: bytes) -> bool:
    """Whether ``data`` is exactly a document of :func:`encode_marketplace`. Trust: hostile; this never raises."""
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


def _plugin(row: ListedSkill, owner: str) -> dict[str, Any]:
    skill = row.skill
    parent, name = posixpath.split(row.folder)
    return {
        "name": skill.name,
        "description": skill.description,
        # A stated version holds back updates until it changes, so the one that stands for none is not stated.
        **({"version": skill.version} if skill.version != DEFAULT_VERSION else {}),
        "author": {"name": owner},
        **({"license": skill.license} if skill.license else {}),
        "source": _relative_source(parent),
        "strict": False,
        "skills": [_relative_source(name)],
    }


def _relative_source(path: str) -> str:
    return f"./{path}" if path not in {"", "."} else "./"


class GatheredSkill(NamedTuple):
    """A skill of a marketplace with a name for its own folder; ``place`` is where it was, for people."""

    name: str
    plugin: str
    place: str
    files: tuple[FileContent, ...]


@dataclass(slots=True)
class GatheredSkills:
    """The accepted skills of a marketplace, each once, and findings about the rest."""

    name: str = ""
    plugins: int = 0
    skills: dict[str, GatheredSkill] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def take(self, plugin: Plugin, examination: CheckedFolder, place: str) -> None:
        """Add the skill that was examined, or what is wrong with it."""
        loaded = examination.folder
        if loaded is None:
            self.findings += [finding for finding in examination.findings if finding.level == "error"]
            return
        # A folder is called after the skill wherever it goes, so its own name loses against the frontmatter's.
        name = loaded.skill_md.name if is_skill_name(loaded.skill_md.name) else loaded.name
        other = self.skills.setdefault(name, GatheredSkill(name, plugin.name, place, loaded.files))
        if other.place != place and other.files != loaded.files:
            message = f"{name} of plugin {plugin.name!a} is not taken: {other.place} has the name already"
            self.findings.append(_finding("SKILL_CONFLICT", message, place))


def gather(root: Path) -> GatheredSkills:
    """Return the skills of the marketplace or plugin in the folder ``root``.

    Raises as :func:`~skillwire.bridges.marketplace.read_marketplace`; ``MARKETPLACE_FORM`` when it is
    neither, StorageError (``STORAGE``).
    """
    document = root / MARKETPLACE_PATH
    if document.is_file():
        marketplace = read_marketplace(_read(document), str(document))
    elif any((root / path).exists() for path in (PLUGIN_PATH, SKILLS_FOLDER, SKILL_MD)):
        marketplace = Marketplace(root.name, (Plugin(root.name, ""),), ())
    else:
        raise ValidationError("MARKETPLACE_FORM", f"there is no {MARKETPLACE_PATH}", place=SourceLocation(str(root)))
    gathered = GatheredSkills(marketplace.name, len(marketplace.plugins), findings=list(marketplace.findings))
    for plugin in marketplace.plugins:
        if isinstance(plugin.source, ExternalPlugin):
            message = f"plugin {plugin.name!a} was not fetched: its source is of kind {plugin.source.kind!a}"
            gathered.findings.append(_finding("PLUGIN_ELSEWHERE", message, str(document), plugin.source.advice))
        else:
            _gather_plugin(root, plugin, gathered)
    return gathered


def _gather_plugin(root: Path, plugin: Plugin, gathered: GatheredSkills) -> None:
    base = _join_path(str(plugin.source))
    try:
        places = dict.fromkeys(place for listed in _listed(root, base, plugin) for place in _skills_at(root, listed))
    except SkillwireError as error:
        gathered.findings.append(_finding("PLUGIN_FORM", f"plugin {plugin.name!a}: {error.message}", str(root / base)))
        return
    for place in places:
        if len(gathered.skills) >= limits.MARKETPLACE_SKILLS:
            message = f"more than {limits.MARKETPLACE_SKILLS} skills; the others are not taken"
            gathered.findings.append(_finding("LIMIT_ENTRIES", message, str(root)))
            return
        gathered.take(plugin, check_folder(root / place, level="lenient"), str(root / place))
    if not places:
        message, fix = f"plugin {plugin.name!a} has no skills", "Nothing, unless it should have some."
        gathered.findings.append(_finding("PLUGIN_WITHOUT_SKILLS", message, str(root / base), fix))


def _listed(root: Path, base: str, plugin: Plugin) -> Iterator[str]:
    manifest = root / base / PLUGIN_PATH
    has_manifest = manifest.is_file() and _is_within(root, manifest)
    own = read_plugin_skills(_read(manifest), str(manifest)) if has_manifest else ()
    if has_manifest or not plugin.skills:
        default = _join_path(base, SKILLS_FOLDER)
        yield default if (root / default).is_dir() else base
    for folder in (*own, *plugin.skills):
        yield _join_path(base, folder)


def _skills_at(root: Path, folder: str) -> Iterator[str]:
    """Yield ``folder`` when it is a skill, else the skills right below it."""
    if not _is_within(root, root / folder):
        message = f"{folder!a} leads out of the marketplace, or to nothing"
        raise ValidationError("PLUGIN_FORM", message, place=SourceLocation(str(root / folder)))
    if (root / folder / SKILL_MD).is_file():
        yield folder
        return
    try:
        below = sorted((root / folder).iterdir())
    except OSError:
        return  # no folder, or not for us: nothing in it could be taken
    for path in below:
        if (path / SKILL_MD).is_file() and _is_within(root, path):
            yield _join_path(folder, path.name)


def _is_within(root: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # nothing there, or a circle of links
        return False


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.MARKETPLACE_BYTES + 1)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise StorageError("STORAGE", message, place=SourceLocation(str(path))) from error
