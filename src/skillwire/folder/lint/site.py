"""Rules about a published index and the built site around it.

The index is judged entry by entry with all faults at once, as a publisher needs them;
:mod:`skillwire.protocols.agent_skills.decoder` decides what a client accepts. Files of the site that the index names
are read and hashed. Nothing is fetched. Spec: ASD Discovery Index; specs §1, "Publisher errors seen in the wild".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, StorageError, ValidationError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.lint.documents import is_link_text
from skillwire.folder.rules import CheckLevel, Findings
from skillwire.model.digest import Digest
from skillwire.model.skill import SKILL_MD, Finding, is_skill_name
from skillwire.model.url import parse_url, resolve_url
from skillwire.trust import guarded_json
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import find_hidden, neutralise

#: The address of the 0.2.0 schema; protocols, which own it, lie above this layer.
SCHEMA_URI: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
INDEX_PATHS: Final = (".well-known/agent-skills/index.json", ".well-known/skills/index.json")
_TYPES: Final = ("skill-md", "archive")
#: Where the site is, while its own address is not known.
_BASE: Final = parse_url(f"https://site.invalid/{INDEX_PATHS[0]}")
_BRANCH: Final = r"(?:main|master|HEAD|develop|dev|trunk|refs/heads/[^?#]+)"
_MUTABLE: Final = re.compile(
    rf"://raw\.githubusercontent\.com/[^/]+/[^/]+/{_BRANCH}/"
    rf"|://github\.com/[^/]+/[^/]+/(?:raw|blob|archive)/{_BRANCH}(?:/|\.tar\.gz|\.zip)"
    rf"|://codeload\.github\.com/[^/]+/[^/]+/[^/]+/{_BRANCH}"
    rf"|/-/(?:raw|archive)/{_BRANCH}/|/raw/branch/"
    r"|/releases/latest/|[/@]latest(?:/|$)"
    r"|://cdn\.jsdelivr\.net/(?:gh/[^/@]+/[^/@]+|npm/(?:@[^/]+/)?[^/@]+)/|://unpkg\.com/(?:@[^/]+/)?[^/@]+/"
)
_SHOWN: Final = 80
#: How many findings of one index get a line and column; finding it costs reading the text again.
_PLACED: Final = 100


def find_indexes(path: Path) -> list[Path]:
    """Return the index that ``path`` is, or the indexes of the site in the folder ``path``; often none."""
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    return [path / index for index in INDEX_PATHS if (path / index).is_file()]


def examine_index(path: Path, *, level: CheckLevel = "strict") -> tuple[Finding, ...]:
    """Return everything wrong with the index file ``path`` and its site. Trust: hostile; reading is bounded."""
    findings = Findings(level)
    try:
        data = _read(path, limits.INDEX_BYTES)
        document = load_json(data, max_bytes=limits.INDEX_BYTES, source=str(path))
    except SkillwireError as error:
        findings.add_error(error, SourceLocation(str(path)))
    else:
        _Index(path, data.decode("utf-8-sig"), findings).lint(document)
    return tuple(findings)


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        raise StorageError("STORAGE", message, place=SourceLocation(str(path))) from error


class _Index:
    def __init__(self, path: Path, text: str, findings: Findings) -> None:
        self._path = path
        self._text = text
        self._findings = findings
        self._names: dict[str, int] = {}
        self._site = path.parents[2] if path.as_posix().endswith(INDEX_PATHS) else None

    def lint(self, document: object) -> None:
        skills = document.get("skills") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(skills, list):
            self._add("INDEX_ENTRY", "the document is not an object with a list skills")
            return
        is_old = "$schema" not in document and all(isinstance(entry, dict) and "files" in entry for entry in skills)
        if not is_old and document.get("$schema") != SCHEMA_URI:
            self._add("INDEX_SCHEMA", f"$schema is {_show(document.get('$schema', 'missing'))}", "$schema")
        for number, entry in enumerate(skills):
            if isinstance(entry, dict):
                name, description = entry.get("name"), entry.get("description")
                if not is_skill_name(name):
                    self._add("INDEX_ENTRY", f"the name is {_show(name)}", "skills", number, "name")
                elif (first := self._names.setdefault(str(name), number)) != number:
                    message = f"entry {first + 1} has the name {name} too"
                    self._add("INDEX_NAME_TWICE", message, "skills", number, "name")
                if not isinstance(description, str) or not 0 < len(description.strip()) <= limits.DESCRIPTION_LENGTH:
                    message = f"the description is no text of 1 to {limits.DESCRIPTION_LENGTH} characters"
                    self._add("INDEX_ENTRY", message, "skills", number, "description")
                elif hidden := find_hidden(description):
                    message = f"the description holds hidden characters, the first a {hidden[0].name}"
                    self._add("HIDDEN_CHARACTERS", message, "skills", number, "description")
                (self._lint_files if is_old else self._lint_artifact)(number, entry)
            else:
                self._add("INDEX_ENTRY", "an entry is not an object", "skills", number)

    def _lint_files(self, number: int, entry: dict[str, Any]) -> None:
        """Judge a 0.1.0 entry, whose files are beside the index."""
        files = entry.get("files")
        if not isinstance(files, list) or files[:1] != [SKILL_MD] or not all(isinstance(file, str) for file in files):
            self._add("INDEX_ENTRY", "files is no list of paths that begins with SKILL.md", "skills", number, "files")
            return
        for position, file in enumerate(files if is_skill_name(entry.get("name")) else ()):
            path = f".well-known/{self._path.parent.name}/{entry['name']}/{file}"
            self._look_up(path, number, "files", position)

    def _lint_artifact(self, number: int, entry: dict[str, Any]) -> None:
        if entry.get("type") not in _TYPES:
            self._add("INDEX_TYPE", f"the type is {_show(entry.get('type'))}", "skills", number, "type")
        url, digest = entry.get("url"), None
        try:
            digest = Digest.parse(entry.get("digest"))
        except ValidationError:
            self._add("INDEX_DIGEST", f"the digest is {_show(entry.get('digest'))}", "skills", number, "digest")
        try:
            if not isinstance(url, str):
                raise ValidationError("URL", "no text")
            resolved = resolve_url(_BASE, url)
        except SkillwireError:
            self._add("INDEX_ENTRY", f"the url is {_show(url)}", "skills", number, "url")
            return
        if digest and _MUTABLE.search(url):
            self._add("URL_MUTABLE", f"{_show(url)} changes", "skills", number, "url")
        if resolved.host == _BASE.host:
            content = self._look_up(unquote(resolved.path).lstrip("/"), number, "url")
            if content is not None:
                self._lint_content(number, entry, content, digest)

    def _lint_content(self, number: int, entry: dict[str, Any], content: bytes, digest: Digest | None) -> None:
        if digest and Digest.of(content) != digest:
            self._add("ARTIFACT_DIGEST", f"the file has the digest {Digest.of(content)}", "skills", number, "digest")
        if entry.get("type") != "skill-md":
            return
        if is_link_text(content):
            self._add("SYMLINK_TEXT", "the file that is served is the text of a link", "skills", number, "url")
            return
        try:
            skill_md = parse_skill_md(content, source=str(entry.get("url")))
        except SkillwireError as error:
            self._findings.add_error(error)
            return
        if is_skill_name(entry.get("name")) and skill_md.name != entry["name"]:
            message = f"the SKILL.md that is served names itself {_show(skill_md.name)}"
            self._add("INDEX_ENTRY", message, "skills", number, "name")

    def _look_up(self, path: str, number: int, *member: str | int) -> bytes | None:
        """Return the file of the site at ``path``; None when there is no site, or no such file."""
        if self._site is None:
            return None
        try:
            if ".." not in path.split("/") and (self._site / path).is_file():
                return _read(self._site / path, limits.ARCHIVE_BYTES)
        except (StorageError, ValueError):
            pass  # reported below: clients cannot get a file that cannot be read
        self._add("ARTIFACT_ABSENT", f"the site has no file {_show(path)}", "skills", number, *member)
        return None

    def _add(self, code: str, message: str, *member: str | int) -> None:
        source = str(self._path)
        exact = len(self._findings) < _PLACED
        place = guarded_json.member(self._text, member, source) if exact else SourceLocation(source)
        self._findings.add(code, message, place)


def _show(value: object) -> str:
    return neutralise(repr(value)[:_SHOWN])
