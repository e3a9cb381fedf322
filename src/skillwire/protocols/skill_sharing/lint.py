"""The rules that what a folder says for Skill Sharing can be served, for ``check`` and for publishing.

A publisher's own descriptor is served as it is, so it has to be one: by the schema, and by the rules that our own
client applies to a stranger's. Local addresses are let pass; who publishes inside a network means them. The schemas in
``skill.toml`` stand in the descriptor that is made, so the same rules are theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skillwire.errors import SkillwireError, ValidationError
from skillwire.folder.toml_places import toml_place
from skillwire.protocols.skill_sharing.nested_schemas import find_dangers
from skillwire.protocols.skill_sharing.rules import find_violations
from skillwire.protocols.skill_sharing.validation import parse, validate
from skillwire.protocols.skill_sharing.versions import check_version
from skillwire.trust.json_places import place_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.errors import Place
    from skillwire.folder.content import FolderContent
    from skillwire.folder.findings import Findings

_DESCRIPTOR: Final = "descriptor.json"
_MANIFEST: Final = "skill.toml"


def lint_sharing(content: FolderContent, findings: Findings) -> None:
    """Judge the ``descriptor.json`` of a folder by schema and rules, and the schemas in its ``skill.toml``."""
    for path, schema in _schemas(content):
        for violation in find_dangers(schema, ""):
            place = toml_place(_text(content, _MANIFEST), path, str(content.place(_MANIFEST)))
            message = f"{'.'.join(path)}: {violation.path} {violation.message}"
            findings.add_error(ValidationError("FIELD", message, place=place))
    if content.descriptor is None:
        return
    text = _text(content, _DESCRIPTOR)
    place = content.place(_DESCRIPTOR)
    violations = validate(content.descriptor).errors
    if not violations:
        descriptor = parse(content.descriptor)
        violations = tuple(find_violations(descriptor, lambda _: None))
        try:
            check_version(descriptor.protocol.version)
        except SkillwireError as error:
            findings.add_error(error, _place(text, "/protocol/version", place))
    for violation in violations:
        told = f"{violation.path or '/'} {violation.message}"
        findings.add("DESCRIPTOR_FORM", told, _place(text, violation.path, place))


def _schemas(content: FolderContent) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the schemas that stand in ``skill.toml``, each with its path there."""
    for name, one in content.manifest.inputs.items():
        if one.schema:
            yield ("inputs", name, "schema"), one.schema
    output = content.manifest.output or {}
    if isinstance(output.get("schema"), dict):
        yield ("output", "schema"), output["schema"]


def _text(content: FolderContent, path: str) -> str:
    return next((file.text for file in content.texts if file.path == path), "")


def _place(text: str, path: str, place: Place) -> Place:
    """Return about where a JSON Pointer leads: the line of its last key that stands in the text."""
    at = -1
    for part in path.split("/")[1:]:
        key = f'"{part.replace("~1", "/").replace("~0", "~")}"'
        found = text.find(key, at + 1)
        at = found if found >= 0 else at
    return place_at(text[:at], text, place.source) if at >= 0 else place
