"""Index bytes to values.

Decoding is strict about the document (unambiguous, bounded, of a known generation) and lenient about entries: an
invalid one is skipped and reported with its place. Spec: ASD Discovery Index; specs §1. Trust: the bytes are hostile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import quote

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.ref import IndexedFile
from skillwire.model.skill import SKILL_MD, Finding, is_skill_name, is_version
from skillwire.model.url import Url, parse_url, resolve_url
from skillwire.protocols.agent_skills.messages import (
    SCHEMA_URI,
    Generation,
    Index,
    IndexEntry,
    VersionEntry,
    VersionList,
)
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path

#: A capability or a scene. Spec: specs §3 "reserved characters in values".
_REQUIREMENT_LENGTH: Final = 200
_TEXT_LENGTH: Final = 500
_LAST_SECOND: Final = 253_402_300_800  # of the year 9999, the last one that has dates
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


def find_excess(number: int, source: str) -> Finding | None:
    """Return a warning about an index of ``number`` skills, if clients do not read as many."""
    if number <= limits.INDEX_ENTRIES:
        return None
    message = f"{number:,} skills in one index, and clients read at most {limits.INDEX_ENTRIES:,}"
    return Finding("INDEX_ENTRIES", "warning", message, SourceLocation(source), "Publish fewer skills at one address.")


def decode_index(data: bytes, index_url: str) -> Index:
    """Return the index in ``data`` with absolute URLs, resolved against ``index_url``.

    Raises DecodeError (``JSON_*``), ValidationError (``INDEX_...``, ``NAME_DUPLICATE``).
    """
    document = load_json(data, max_bytes=limits.INDEX_BYTES, source=index_url)
    generation, items = _generation(document, index_url)
    base = parse_url(index_url)
    findings: list[Finding] = []
    entries: dict[str, IndexEntry] = {}
    for position, item in enumerate(items):
        place = SourceLocation(f"{index_url}#/skills/{position}")
        try:
            entry = _READERS[generation](_Reader(item, base, place, findings))
        except SkillwireError as error:
            fix = error.diagnostics().fix
            found = Finding(error.code, "warning", f"entry skipped: {error.message}", error.place or place, fix)
            findings.append(found)
            continue
        if entry.name in entries:
            raise ValidationError("NAME_DUPLICATE", f"the index lists {entry.name!r} twice", place=place)
        entries[entry.name] = entry
    if any(entry.digest is None and not all(file.digest for file in entry.files) for entry in entries.values()):
        message = f"the index is of generation {generation} and gives no digests"
        fix = "Ask the publisher for a 0.2.0 index; until then what is downloaded cannot be verified."
        findings.append(Finding("UNVERIFIED", "warning", message, SourceLocation(index_url), fix))
    return Index(generation, entries, tuple(findings))


def decode_versions(data: bytes, url: str) -> tuple[VersionList, tuple[Finding, ...]]:
    """Return the list of versions in ``data`` with absolute URLs, and findings about skipped ones.

    A state of the whole skill stands for each of its versions that is active. Raises DecodeError, ValidationError.
    """
    document = load_json(data, max_bytes=limits.INDEX_BYTES, source=url)
    items = document.get("versions") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(items, list):
        raise ValidationError("INDEX_SHAPE", "the document has no list named versions", place=SourceLocation(url))
    findings: list[Finding] = []
    versions: dict[str, VersionEntry] = {}
    whole = _read_state(document)
    for position, item in enumerate(items[: limits.INDEX_ENTRIES]):
        place = SourceLocation(f"{url}#/versions/{position}")
        try:
            entry = _read_version(_Reader(item, parse_url(url), place, findings))
        except SkillwireError as error:
            found = error.diagnostics()
            findings.append(Finding(error.code, "warning", f"version skipped: {error.message}", place, found.fix))
            continue
        if entry.status == "active" and whole["status"] in {"archived", "deprecated", "quarantined"}:
            entry = entry._replace(status=whole["status"], reason=whole["reason"], successor=whole["successor"])
        versions.setdefault(entry.version, entry)
    name, publisher, latest = (_shown_text(document, key) for key in ("name", "publisher", "latest"))
    return VersionList(publisher, name, tuple(versions.values()), latest, **whole), tuple(findings)


def _read_version(entry: _Reader) -> VersionEntry:
    version, item = entry.version(), entry.item
    size, published = item.get("size"), item.get("published")
    if version is None or not is_version(version):
        raise ValidationError("PACKAGE_VERSION", f"{_shown(item.get('version'))} is no version")
    return VersionEntry(
        version=version,
        size=size if isinstance(size, int) else 0,
        published=float(published) if isinstance(published, int | float) and 0 <= published < _LAST_SECOND else None,
        published_by=_shown_text(item, "published_by"),
        **entry.artifact(version),
    )


def _read_state(item: dict[str, object]) -> dict[str, Any]:
    state = item.get("status")
    fields: dict[str, object] = state if isinstance(state, dict) else {}
    found = {key: _shown_text(fields, key) for key in ("status", "reason", "successor")}
    return {**found, "status": found["status"] or "active"}


def _shown_text(item: dict[str, object], key: str) -> str:
    value = item.get(key)
    return neutralise(value)[:_TEXT_LENGTH] if isinstance(value, str) else ""


def _generation(document: object, source: str) -> tuple[Generation, list[object]]:
    place = SourceLocation(source)
    if not isinstance(document, dict) or not isinstance(document.get("skills"), list):
        raise ValidationError("INDEX_SHAPE", "the document has no list named skills", place=place)
    items = document["skills"]
    if len(items) > limits.INDEX_ENTRIES:
        message = f"{len(items):,} entries, at most {limits.INDEX_ENTRIES:,} are read"
        raise ValidationError("INDEX_ENTRIES", message, place=place)
    if "$schema" in document:
        schema = document["$schema"]
        if not isinstance(schema, str):
            raise ValidationError("INDEX_SHAPE", "$schema is not a string", place=place)
        if schema != SCHEMA_URI:
            raise ValidationError("INDEX_SCHEMA_UNKNOWN", f"unknown $schema {schema[:200]!r}", place=place)
        return Generation.V0_2_0, items
    first = next((item for item in items if isinstance(item, dict)), {})
    if "version" in document or "package" in first or "digest" in first:
        return Generation.INTERIM, items
    if "path" in first and "files" not in first:
        return Generation.DRAFT, items
    return Generation.V0_1_0, items


class _Reader:
    """One entry's fields, each read strictly; the place of an error is the entry."""

    def __init__(self, item: object, base: Url, place: SourceLocation, findings: list[Finding]) -> None:
        if not isinstance(item, dict):
            raise ValidationError("ENTRY_SHAPE", "the entry is not an object", place=place)
        self.item: dict[str, object] = item
        self.base = base
        self._place = place
        self._findings = findings

    def name(self) -> str:
        name = self.item.get("name")
        if not is_skill_name(name):
            raise ValidationError("NAME_FORM", f"not a skill name: {_shown(name)}", place=self._place)
        return cast("str", name)

    def description(self) -> str:
        description = self.item.get("description")
        if not isinstance(description, str) or not description.strip():
            raise ValidationError("DESCRIPTION_FORM", "the description is missing", place=self._place)
        if len(description) > limits.DESCRIPTION_LENGTH:
            self._warn("DESCRIPTION_FORM", f"the description has {len(description):,} characters", "Shorten it.")
        visible = neutralise(description)
        if visible != description:
            self._warn(
                "HIDDEN_TEXT",
                "the description holds hidden characters",
                "Ask the publisher to remove them; they are shown as escapes.",
            )
        return visible

    def url(self, reference: object) -> str:
        if not isinstance(reference, str) or not reference:  # an empty one would be the index itself
            raise ValidationError("URL", f"not a URL: {_shown(reference)}", place=self._place)
        return str(resolve_url(self.base, reference))

    def version(self) -> str | None:
        version = self.item.get("version")
        return neutralise(version)[:64] if isinstance(version, str) else None

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of names in one of our own fields; empty for any other form."""
        found = self.item.get(key)
        if not isinstance(found, list) or len(found) > limits.INDEX_NAMES:
            return ()
        return tuple(name for name in found if isinstance(name, str) and _IDENTIFIER.fullmatch(name))

    def tags(self) -> tuple[str, ...]:
        """Return the words for search; empty for any other form."""
        found = self.item.get("tags")
        texts = found[: limits.SEARCH_TAGS] if isinstance(found, list) else []
        return tuple(neutralise(text)[:_TEXT_LENGTH] for text in texts if isinstance(text, str))

    def paths(self, read: Callable[[object], str]) -> list[str]:
        files = self.item.get("files")
        if not isinstance(files, list) or not files or len(files) > limits.ARCHIVE_ENTRIES:
            raise ValidationError(
                "FILES_FORM", f"files is not a list of 1 to {limits.ARCHIVE_ENTRIES:,} paths", place=self._place
            )
        paths = [check_path(read(file)) for file in files]
        if len(set(paths)) != len(paths):
            raise ValidationError("FILES_FORM", "files lists a path twice", place=self._place)
        if SKILL_MD not in paths:
            raise ValidationError("FILES_FORM", "files does not list SKILL.md", place=self._place)
        return paths

    def artifact(self, named: str) -> dict[str, Any]:
        """Return what an entry of an index and of a list of versions both have; ``named`` names it in errors."""
        artifact_type = self.item.get("type")
        if artifact_type not in {"skill-md", "archive"}:
            raise ValidationError("ARTIFACT_TYPE_UNKNOWN", f"{named} has the unknown type {_shown(artifact_type)}")
        requires = self.item.get("requires")
        return {
            "artifact_type": artifact_type,
            "description": self.description(),
            "url": self.url(self.item.get("url")),
            "digest": Digest.parse(self.item.get("digest")),
            "capabilities": self.names("capabilities"),
            "scenes": self.names("scenes"),
            # Unread: one that is malformed cannot be met.
            "requires": tuple(
                neutralise(str(text))[:_REQUIREMENT_LENGTH]
                for text in (requires[: limits.REQUIREMENTS] if isinstance(requires, list) else [])
            ),
            **_read_state(self.item),
        }

    def listed(self, paths: list[str], digests: list[Digest | None]) -> IndexEntry:
        """Return the entry of a skill whose files are listed."""
        name = self.name()
        urls = [self.url(f"{name}/{quote(path)}") for path in paths]
        files = tuple(map(IndexedFile, paths, urls, digests))
        return IndexEntry(name, self.description(), "files", urls[paths.index(SKILL_MD)], None, files)

    def _warn(self, code: str, message: str, fix: str) -> None:
        self._findings.append(Finding(code, "warning", message, self._place, fix))


def _read_0_2_0(entry: _Reader) -> IndexEntry:
    name = entry.name()
    return IndexEntry(name=name, version=entry.version(), tags=entry.tags(), **entry.artifact(name))


def _read_0_1_0(entry: _Reader) -> IndexEntry:
    entry.name()  # its errors come first
    paths = entry.paths(_text)
    return entry.listed(paths, [None] * len(paths))


def _read_interim(entry: _Reader) -> IndexEntry:
    name = entry.name()
    package = entry.item.get("package")
    if isinstance(package, dict):
        url, digest = entry.url(package.get("url")), Digest.parse(package.get("digest"))
        return IndexEntry(name, entry.description(), "archive", url, digest, version=entry.version())
    paths = entry.paths(_path_of)
    files = cast("list[dict[str, object]]", entry.item["files"])
    return entry.listed(paths, [Digest.parse(file.get("digest")) for file in files])._replace(version=entry.version())


def _read_draft(entry: _Reader) -> IndexEntry:
    name = entry.name()
    path = entry.item.get("path")
    if not isinstance(path, str):
        raise ValidationError("URL", f"not a path: {_shown(path)}")
    url = entry.url(path if path.endswith(".md") else path.rstrip("/") + "/" + SKILL_MD)
    return IndexEntry(name, entry.description(), "files", url, None, (IndexedFile(SKILL_MD, url),))


_READERS: Final = {
    Generation.V0_2_0: _read_0_2_0,
    Generation.V0_1_0: _read_0_1_0,
    Generation.INTERIM: _read_interim,
    Generation.DRAFT: _read_draft,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValidationError("FILES_FORM", f"not a path: {_shown(value)}")
    return value


def _path_of(value: object) -> str:
    if not isinstance(value, dict):
        raise ValidationError("FILES_FORM", f"not a file: {_shown(value)}")
    return _text(value.get("path"))


def _shown(value: object) -> str:
    return ascii(value)[:80]
