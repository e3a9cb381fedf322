"""Everything wrong with a document, for ``validate`` and authors; and the Skill Sharing rules of ``check``.

A client stops at the first fault; an author needs all of them with their places. So this applies the version table,
then the schema, and, if that finds nothing, the rules. The kind of a document follows from fields that only one kind
has. The schema is applied strictly: what our reader accepts from the blueprint's form is a fault here.

A publisher's ``descriptor.json`` is served unchanged, so ``check`` applies the same schema and rules to it, and to the
schemas in ``skill.toml``, which become part of the generated descriptor. Local addresses are allowed, since the
publisher may serve a local network.
Spec: SSP §4.3, §6, §8.3.1, §9.3. Trust: documents are hostile; finding places is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError, SourceLocation, ValidationError
from skillwire.folder.lint import FolderContent
from skillwire.folder.lint.documents import lint_executor
from skillwire.folder.rules import Findings
from skillwire.model.skill import is_sharing_id
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.codec import check_version, find_violations
from skillwire.protocols.skill_sharing.messages import ParameterDefinition
from skillwire.protocols.skill_sharing.validation import (
    TYPES,
    Violation,
    find_unsafe_keywords,
    judge_default,
    parse,
    pointer,
    shown,
    validate,
)
from skillwire.trust import guarded_json
from skillwire.trust.guarded_json import load_json
from skillwire.trust.guarded_toml import toml_place

#: What a user calls a kind of document → the definition of the schema.
DocumentKind = Literal["descriptor", "index", "request", "response"]
DOCUMENT_KINDS: Final[dict[DocumentKind, str]] = {
    "descriptor": "SkillDescriptor",
    "index": "SkillIndex",
    "request": "InvocationRequest",
    "response": "InvocationResponse",
}
#: Characters of text that are read again to find places, all errors of a document together.
_READ_AGAIN: Final = 4 * 1024 * 1024
_DESCRIPTOR: Final = "descriptor.json"
_MANIFEST: Final = "skill.toml"


class DocumentFault(NamedTuple):
    """One fault: its code, the violation, and its place in the text, as precisely as known."""

    code: Annotated[str, "Code; skillwire explain CODE explains it"]
    path: Annotated[str, "JSON Pointer; empty for the whole document"]
    message: Annotated[str, "The problem"]
    expected: Annotated[object, "Expected value"]
    actual: Annotated[object, "Actual value; null if absent"]
    place: Annotated[SourceLocation, "Location"]


class DocumentReport(NamedTuple):
    """The judgement of a document, as ``validate --json`` prints it."""

    source: Annotated[str, "File or URL; - for standard input"]
    type: Annotated[DocumentKind | None, "Type; null if it is not JSON"]
    valid: Annotated[bool, "Whether it has no violations"]
    errors: Annotated[tuple[DocumentFault, ...], "All violations"]


def validate_document(data: bytes, source: str, kind: DocumentKind | None = None) -> DocumentReport:
    """Return the faults of a document; ``kind`` is guessed by default."""
    try:
        value = load_json(data, max_bytes=limits.INDEX_BYTES, source=source)
    except DecodeError as error:
        place = error.place or SourceLocation(source)
        return DocumentReport(source, kind, False, (DocumentFault(error.code, "", error.message, None, None, place),))
    kind = kind or guess_document_kind(value)
    text = data.removeprefix(b"\xef\xbb\xbf").decode()
    faults = [
        DocumentFault(code, *violation, place=_place(text, value, violation.path, source, number))
        for number, (code, violation) in enumerate(_find(value, kind))
    ]
    return DocumentReport(source, kind, not faults, tuple(faults))


def guess_document_kind(value: object) -> DocumentKind:
    """Return the kind of a document by fields that only one kind has; a list is a registry's answer."""
    if isinstance(value, list):
        return "index"
    fields = value.keys() if isinstance(value, dict) else ()
    if "skills" in fields:
        return "index"
    if "execution_id" in fields:
        return "response"
    return "request" if "caller" in fields else "descriptor"


def _find(value: object, kind: DocumentKind) -> Iterator[tuple[str, Violation]]:
    if (fault := _version_fault(value)) is not None:
        yield fault
        return
    if kind == "index" and isinstance(value, list):
        for position, entry in enumerate(value):
            yield from _schema_faults(entry, "SkillIndexEntry", f"/{position}")
    else:
        yield from _schema_faults(value, DOCUMENT_KINDS[kind])
    if kind == "index":
        yield from _index_faults(value)
    elif kind == "descriptor" and validate(value).valid:
        yield from (("DESCRIPTOR", violation) for violation in find_violations(parse(value)))
    yield from (("FIELD", violation) for violation in _find_formats(value if isinstance(value, dict) else {}))


_MADE: Final = (("created_at",), ("updated_at",))
_TIMES: Final = (*_MADE, *(("timestamps", *path) for path in (*_MADE, ("completed_at",))))
_LINKS: Final = (("documentation_url",), ("protocol", "changelog_url"), ("provider", "url"))


def _find_formats(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield texts without the form that the protocol's text names; a client reads them all. Spec: SSP §3.3, §3.5.2."""
    for path in (*_TIMES, *_LINKS):
        text: Any = document
        for field in path:
            text = text.get(field) if isinstance(text, dict) else None
        try:
            if isinstance(text, str):
                parse_url(text) if path in _LINKS else datetime.fromisoformat(text)
        except SkillwireError as error:
            yield Violation(pointer(path), error.message, "an http or https URL", shown(text))
        except ValueError:
            yield Violation(pointer(path), "must be a date of ISO 8601", "such as 2026-01-31T12:00:00Z", shown(text))
    inputs = document.get("inputs")
    for position, one in enumerate(inputs if isinstance(inputs, list) else ()):
        kind = one.get("type") if isinstance(one, dict) else None
        if isinstance(kind, str) and kind not in TYPES:
            place = f"/inputs/{position}/type"
            yield Violation(place, "must be a type of JSON Schema", list(TYPES), shown(kind))


def _version_fault(value: object) -> tuple[str, Violation] | None:
    """Return the fault of a protocol version that is too new to judge the document. Spec: SSP §6.4."""
    protocol = value.get("protocol") if isinstance(value, dict) else None
    version = protocol.get("version") if isinstance(protocol, dict) else None
    try:
        check_version(version if isinstance(version, str) else "0.0.0")
    except ValidationError as error:
        if error.code != "VERSION_INCOMPATIBLE":
            return None  # the schema reports an invalid version
        return error.code, Violation("/protocol/version", error.message, error.details["supported_range"], version)
    return None


def _schema_faults(value: object, definition: str, before: str = "") -> Iterator[tuple[str, Violation]]:
    for one in validate(value, definition).errors:
        yield "VALIDATION_ERROR", one._replace(path=before + one.path)


def _index_faults(value: object) -> Iterator[tuple[str, Violation]]:
    """Yield an index's faults beyond its schema. Spec: SSP §4.3.3 (a full URL), §4.3.4 (ids are unique)."""
    entries = value if isinstance(value, list) else value.get("skills") if isinstance(value, dict) else None
    before = "" if isinstance(value, list) else "/skills"
    seen: dict[str, int] = {}
    for position, entry in enumerate(entries if isinstance(entries, list) else ()):
        fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
        identifier, url = fields.get("id"), fields.get("descriptor_url")
        path = f"{before}/{position}"
        if isinstance(identifier, str):
            if not is_sharing_id(identifier.lower()):
                message = "must be provider/skill or com.example.skill-v1"
                yield "FIELD", Violation(f"{path}/id", message, "an id", shown(identifier))
            if identifier in seen:
                message = f"is also at {before}/{seen[identifier]}"
                yield "ID_DUPLICATE", Violation(f"{path}/id", message, "another id", shown(identifier))
            seen.setdefault(identifier, position)
        if isinstance(url, str):
            try:
                parse_url(url)
            except SkillwireError as error:
                yield "FIELD", Violation(f"{path}/descriptor_url", error.message, "a full URL", shown(url))


def _place(text: str, value: object, pointer: str, source: str, number: int) -> SourceLocation:
    """Return the place of a JSON Pointer in a document; without its line when that would read too much text again."""
    if number and (number + 1) * len(text) > _READ_AGAIN:
        return SourceLocation(source)
    steps: list[str | int] = []
    for key in guarded_json.pointer_keys(pointer):
        if isinstance(value, list):
            steps.append(int(key))
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            steps.append(key)
            value = value[key]
        else:
            break
    return guarded_json.member(text, steps, source)


def lint_sharing(content: FolderContent, findings: Findings) -> None:
    """Judge the ``descriptor.json`` of a folder by schema and rules, and the schemas in its ``skill.toml``."""
    for path, schema in _schemas(content):
        for violation in find_unsafe_keywords(schema, ""):
            place = toml_place(_text(content, _MANIFEST), path, str(content.place(_MANIFEST)))
            message = f"{'.'.join(path)}: {violation.path} {violation.message}"
            findings.add_error(ValidationError("FIELD", message, place=place))
    for name, message in _misfits(content):
        path = ("inputs", name, "example")
        place = toml_place(_text(content, _MANIFEST), path, str(content.place(_MANIFEST)))
        fix = "Write an example that fits the input's type and schema, or change these."
        findings.add_error(ValidationError("FIELD", f"{'.'.join(path)}: {message}", place=place, fix=fix))
    if content.descriptor is None:
        return
    text, source = _text(content, _DESCRIPTOR).removeprefix("\ufeff"), content.place(_DESCRIPTOR).source
    violations = validate(content.descriptor).errors
    if not violations:
        descriptor = parse(content.descriptor)
        violations = (*find_violations(descriptor), *_find_formats(content.descriptor))
        try:
            check_version(descriptor.protocol.version)
        except SkillwireError as error:
            findings.add_error(error, _place(text, content.descriptor, "/protocol/version", source, 0))
    for number, violation in enumerate(violations):
        message = f"{violation.path or '/'} {violation.message}"
        findings.add("DESCRIPTOR_FORM", message, _place(text, content.descriptor, violation.path, source, number))


#: The rules for a skill that is served, beside those of its folder: of this protocol, and for the code of the skill.
JUDGES: Final = (lint_sharing, lint_executor)


def _schemas(content: FolderContent) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for name, one in content.manifest.inputs.items():
        if one.schema:
            yield ("inputs", name, "schema"), one.schema
    output = content.manifest.output or {}
    if isinstance(output.get("schema"), dict):
        yield ("output", "schema"), output["schema"]


def _misfits(content: FolderContent) -> Iterator[tuple[str, str]]:
    """Yield each input whose example does not fit it, with the reason."""
    for name, one in content.manifest.inputs.items():
        if one.example is None or any(find_unsafe_keywords(one.schema or {}, "")):
            continue
        own = "string" if one.input_type == "blob" else one.input_type
        stated = ParameterDefinition(
            name=name,
            type=own,
            description=one.description,
            required=one.required,
            default=one.example,
            schema=dict(one.schema or {}),
        )
        try:
            yield from ((name, violation.message) for violation in judge_default(stated, ""))
        except ValueError:  # such as a date of TOML
            yield name, "is no JSON value"


def _text(content: FolderContent, path: str) -> str:
    return next((file.text for file in content.texts if file.path == path), "")
