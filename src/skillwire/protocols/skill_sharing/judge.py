"""Everything that is wrong with a document, whatever it is: for ``validate``, and for whoever writes documents.

A consumer stops at the first reason not to use a document; an author wants all of them, each with its place in the
text. So this asks the version table, then the schema, and, when that has nothing to say, the rules, and gathers what
they find. Which kind of document it is, is guessed from the fields that only one kind has.

The schema is held to the letter here: what our reader forgives a publisher of the blueprint's form is an error.
Spec: SSP §4.3, §6, §8.3.1, §9.3. Trust: documents are hostile; finding places is bounded, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, Place, SkillwireError, ValidationError
from skillwire.model.name import is_sharing_id
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.rules import find_violations
from skillwire.protocols.skill_sharing.validation import Violation, parse, shown, validate
from skillwire.protocols.skill_sharing.versions import check_version
from skillwire.trust import json_places
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skillwire.model.url import Url

#: What a user calls a kind of document → the definition of the schema.
KINDS: Final = {
    "descriptor": "SkillDescriptor",
    "index": "SkillIndex",
    "request": "InvocationRequest",
    "response": "InvocationResponse",
}
#: Characters of text that are read again to find places, all errors of a document together.
_READ_AGAIN: Final = 4 * 1024 * 1024


class Fault(NamedTuple):
    """One thing that is wrong: its code, what, and where in the text, as far as that is known."""

    code: str
    violation: Violation
    place: Place


class Judgement(NamedTuple):
    """What was found out about a document: its kind (a key of :data:`KINDS`; None for no JSON) and its faults."""

    kind: str | None
    faults: tuple[Fault, ...]


def judge(
    data: bytes, source: str, kind: str | None = None, check_url: Callable[[Url], None] = lambda _: None
) -> Judgement:
    """Return everything that is wrong with a document.

    Args:
        data: the document.
        source: its file or URL, for places.
        kind: a key of :data:`KINDS`; guessed unless given.
        check_url: raises for a URL that a descriptor must not lead to; none is refused unless given.
    """
    try:
        value = load_json(data, max_bytes=limits.INDEX_BYTES, source=source)
    except DecodeError as error:
        return Judgement(kind, (Fault(error.code, Violation("", error.message), error.place or Place(source)),))
    kind = kind or guess_kind(value)
    found = list(_find(value, kind, check_url))
    text = data.removeprefix(b"\xef\xbb\xbf").decode()
    known = max(_READ_AGAIN // max(len(text), 1), 1)
    faults = [
        Fault(code, violation, _place(value, violation.path, text, source) if number < known else Place(source))
        for number, (code, violation) in enumerate(found)
    ]
    return Judgement(kind, tuple(faults))


def guess_kind(value: object) -> str:
    """Return the kind of a document by the fields that one kind alone has; a list is what a registry answers."""
    if isinstance(value, list):
        return "index"
    fields = value.keys() if isinstance(value, dict) else ()
    for field, kind in (("skills", "index"), ("execution_id", "response"), ("caller", "request")):
        if field in fields:
            return kind
    return "descriptor"


def _find(value: object, kind: str, check_url: Callable[[Url], None]) -> Iterator[tuple[str, Violation]]:
    if (fault := _version_fault(value)) is not None:
        yield fault
        return
    if kind == "index" and isinstance(value, list):
        for position, entry in enumerate(value):
            yield from _schema_faults(entry, "SkillIndexEntry", f"/{position}")
    else:
        yield from _schema_faults(value, KINDS[kind])
    if kind == "index":
        yield from _index_faults(value)
    elif kind == "descriptor" and validate(value).valid:
        yield from (("DESCRIPTOR", violation) for violation in find_violations(parse(value), check_url))


def _version_fault(value: object) -> tuple[str, Violation] | None:
    """Return why the document cannot be judged: its version is newer than what is known here. Spec: SSP §6.4."""
    protocol = value.get("protocol") if isinstance(value, dict) else None
    version = protocol.get("version") if isinstance(protocol, dict) else None
    try:
        check_version(version if isinstance(version, str) else "0.0.0")
    except ValidationError as error:
        if error.code != "VERSION_INCOMPATIBLE":
            return None  # the schema says that it is no version
        return error.code, Violation("/protocol/version", error.message, error.details["supported_range"], version)
    return None


def _schema_faults(value: object, definition: str, before: str = "") -> Iterator[tuple[str, Violation]]:
    for one in validate(value, definition).errors:
        yield "VALIDATION_ERROR", Violation(before + one.path, one.message, one.expected, one.actual)


def _index_faults(value: object) -> Iterator[tuple[str, Violation]]:
    """Yield what an index must not do beyond its schema. Spec: SSP §4.3.3 (a full URL), §4.3.4 (ids are unique)."""
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
                message = f"stands at {before}/{seen[identifier]}, too"
                yield "ID_DUPLICATE", Violation(f"{path}/id", message, "another id", shown(identifier))
            seen.setdefault(identifier, position)
        if isinstance(url, str):
            try:
                parse_url(url)
            except SkillwireError as error:
                yield "FIELD", Violation(f"{path}/descriptor_url", error.message, "a full URL", shown(url))


def _place(value: object, pointer: str, text: str, source: str) -> Place:
    return json_places.member(text, _steps(value, pointer), source)


def _steps(value: object, pointer: str) -> Sequence[str | int]:
    """Return a JSON Pointer as keys and positions, as far as it leads in ``value``."""
    steps: list[str | int] = []
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            steps.append(int(key))
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            steps.append(key)
            value = value[key]
        else:
            break
    return steps
