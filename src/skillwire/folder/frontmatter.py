"""SKILL.md: a YAML frontmatter between two lines ``---``, then the body in Markdown.

:func:`parse_skill_md` raises only for files that no reader can use. It keeps faults that an importer can accept (an
unknown field, a list in place of text) as read; :attr:`SkillMd.flaws` and the lint rules report them.

:func:`read_flat` reads the simple frontmatter that most skills have: ``key: value`` lines with plain text or one quoted
string, and one level of such lines below ``metadata:``. For anything else it returns None, and
:mod:`skillwire.trust.guarded_yaml` reads the text. A property test checks that both agree, locations included. So
installation starts without PyYAML, and a build reads each skill in about 10 µs. Spec: specs §1 "SKILL.md fields".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation, ValidationError
from skillwire.trust.guarded_yaml import YamlMapping, load_yaml_mapping
from skillwire.trust.hidden_text import excerpt, neutralise

_MOST_LINES: Final = 64
_MOST_CHARACTERS: Final = limits.FRONTMATTER_BYTES // 4  # a character has at most four bytes
# For printable text; a plain value begins with a letter, a digit or a sign that means nothing in YAML.
_LINE: Final = re.compile(
    r"( *)([A-Za-z][A-Za-z0-9_.-]{0,63}):"
    r"(?: +(?:\"([^\"\\]*)\"|'([^']*)'|((?:[A-Za-z0-9(/_.<$+]|[^ -~]).*)))?"
)
_NESTED: Final = "metadata"


def read_flat(text: str, *, source: str = "SKILL.md", first_line: int = 1) -> YamlMapping | None:
    """Return the mapping in ``text`` if it has the simple form, else None. Trust: hostile; time is linear."""
    lines = text.split("\n")
    if lines.pop() or len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS:
        return None
    values: dict[str, Any] = {}
    places: dict[tuple[str, ...], SourceLocation] = {}
    below: dict[str, str] | None = None  # the map below ``metadata:``, while its lines may follow
    its_indent = 0
    for number, line in enumerate((line.removesuffix("\r") for line in lines), first_line):
        found = _LINE.fullmatch(line) if line.isprintable() else None
        if found is None:
            return None
        indent, key, double, single, plain = found.groups()
        if plain is not None and (": " in plain or " #" in plain or plain[-1] in ": "):
            return None
        value = plain if plain is not None else double if double is not None else single
        path = (_NESTED, key) if indent else (key,)
        if path in places or (value is None and path != (_NESTED,)):
            return None
        if indent:
            if below is None or len(indent) != (its_indent or len(indent)):
                return None
            its_indent = len(indent)
            below[key] = value
        elif value is not None:
            values[key], below = value, None
        else:
            values[key] = below = {}
            its_indent = 0
        column = len(indent) + 1
        places[path] = SourceLocation(source, number, column, column + len(key), excerpt(line))
    return YamlMapping(values, places) if values and values.get(_NESTED) != {} else None


BOM: Final = b"\xef\xbb\xbf"
FIELDS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_OPENING: Final = re.compile(r"---\r?\n")
_CLOSING: Final = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_UNSAFE_NAME: Final = re.compile(r"[/\\\x00-\x1f\x7f]|^\.|^~|^[A-Za-z]:")


class SkillMd(NamedTuple):
    """The contents of a SKILL.md; an optional field with an error in ``flaws`` is None or empty."""

    source: str
    name: str
    description: str
    license: str | None
    compatibility: str | None
    metadata: Mapping[str, str]
    allowed_tools: str | None
    fields: Mapping[str, Any]  # the whole frontmatter: text, lists and mappings of text
    places: Mapping[tuple[str, ...], SourceLocation]  # each key's location by its path
    flows: tuple[SourceLocation, ...]  # locations of bracketed lists and mappings
    head: str  # the frontmatter's text
    body: str
    body_line: int  # the line of ``source`` on which the body begins
    flaws: tuple[ValidationError, ...] = ()

    @property
    def unknown(self) -> Mapping[str, Any]:
        """The fields that the format does not know, as read."""
        return {key: value for key, value in self.fields.items() if key not in FIELDS}

    def place(self, *path: str) -> SourceLocation:
        """Return the location of the key at ``path``, or of the file when the key is absent."""
        return self.places.get(path) or SourceLocation(self.source, 1)


def parse_skill_md(data: bytes, *, source: str = "SKILL.md", description: str | None = None) -> SkillMd:
    """Return the contents of a SKILL.md, with or without a byte order mark. Raises DecodeError, ValidationError.

    ``description`` is used when the frontmatter has none: the Skills Protocol has it in skill.toml.

    Spec: specs §1. Trust: time is linear in the size; the text may hold hidden characters, so show it through
    :func:`skillwire.trust.hidden_text.neutralise`.
    """
    text, head, body = _split(data, source)
    document = read_flat(head, source=source, first_line=2)
    if document is None:
        document = load_yaml_mapping(head, source=source, first_line=2)
    fields = _Fields(document, source)
    return SkillMd(
        source=source,
        name=fields.name(),
        description=fields.description(description),
        license=fields.text("license"),
        compatibility=fields.text("compatibility"),
        metadata=fields.metadata(),
        allowed_tools=fields.allowed_tools(),
        fields=document.values,
        places=document.places,
        flows=document.flows,
        head=head,
        body=body,
        body_line=text.count("\n", 0, len(text) - len(body)) + 1,
        flaws=tuple(fields.flaws),
    )


def split_body(data: bytes, *, source: str = "SKILL.md") -> str:
    """Return the text below the frontmatter of a SKILL.md.

    Raises DecodeError (``LIMIT_SIZE``, ``ENCODING``; ``FRONTMATTER`` without one).
    """
    return _split(data, source)[2]


def _split(data: bytes, source: str) -> tuple[str, str, str]:
    """Return the whole text, the text between the two lines ``---``, and what follows them."""
    if len(data) > limits.SKILL_MD_BYTES:
        message = f"{len(data)} bytes of SKILL.md, at most {limits.SKILL_MD_BYTES} are read"
        raise DecodeError("LIMIT_SIZE", message, place=SourceLocation(source))
    try:
        text = data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DecodeError("ENCODING", f"not UTF-8 at byte {error.start}", place=SourceLocation(source, line)) from None
    opening = _OPENING.match(text)
    if opening is None:
        place = SourceLocation(source, 1, 1, None, excerpt(text.split("\n", 1)[0]))
        raise DecodeError("FRONTMATTER", "the first line is not '---'", place=place)
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        place = SourceLocation(source, 1, 1, 4, "---")
        raise DecodeError("FRONTMATTER", "no line '---' ends the frontmatter", place=place)
    return text, text[opening.end() : closing.start()], text[closing.end() :]


class _Fields:
    def __init__(self, document: YamlMapping, source: str) -> None:
        self.flaws: list[ValidationError] = []
        self._document = document
        self._values = document.values
        self._source = source

    def name(self) -> str:
        name = self._values.get("name")
        if not isinstance(name, str) or not name:
            raise self._error("NAME_FORM", "the frontmatter has no name, or one that is not text", "name")
        if _UNSAFE_NAME.search(name):
            raise self._error("NAME_FORM", f"{neutralise(name[:80])!r} would lead out of its folder", "name")
        return name

    def description(self, fallback: str | None) -> str:
        if fallback is not None and "description" not in self._values:
            return fallback
        description = self._values.get("description")
        if not isinstance(description, str) or not description.strip():
            message = "the frontmatter has no description, or one that is not text"
            raise self._error("DESCRIPTION_FORM", message, "description")
        return description.strip()

    def text(self, field: str) -> str | None:
        value = self._values.get(field)
        if value is None or isinstance(value, str):
            return (value or "").strip() or None
        self._flaw(f"{field} is {_shape(value)}; it is text", field)
        return None

    def allowed_tools(self) -> str | None:
        value = self._values.get("allowed-tools")
        if isinstance(value, list) and all(isinstance(tool, str) for tool in value):
            self._flaw("allowed-tools is a list; it is one text, the tools separated by spaces", "allowed-tools")
            return " ".join(value) or None
        return self.text("allowed-tools")

    def metadata(self) -> dict[str, str]:
        value = self._values.get("metadata")
        if not isinstance(value, dict):
            if value:
                self._flaw(f"metadata is {_shape(value)}; it is a map from text to text", "metadata")
            return {}
        for key, inner in value.items():
            if not isinstance(inner, str):
                self._flaw(f"metadata.{neutralise(key[:80])} is {_shape(inner)}; it is text", "metadata", key)
        return {key: inner for key, inner in value.items() if isinstance(inner, str)}

    def _flaw(self, message: str, *path: str) -> None:
        self.flaws.append(self._error("FIELD", message, *path))

    def _error(self, code: str, message: str, *path: str) -> ValidationError:
        return ValidationError(code, message, place=self._document.places.get(path) or SourceLocation(self._source, 1))


def _shape(value: object) -> str:
    return "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else "text"
