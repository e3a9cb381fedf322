"""SKILL.md: a YAML frontmatter between two lines ``---``, then the body in Markdown.

:func:`parse_skill_md` raises only for files that no reader can use: bytes that are no SKILL.md, a missing name or
description, a name that leads out of a folder. Faults that an importer can accept (an unknown field, a list in place of
text, a name that differs from the folder's) are kept as read; :attr:`SkillMd.flaws` and the lint rules
(:mod:`skillwire.folder.rules`) report them at the level of the check. The frontmatter ends at the first line that is
exactly ``---``; lines may end in CR LF.

:func:`read_flat` reads the simple frontmatter that most skills have: ``key: value`` lines with plain text or one quoted
string, and one level of such lines below ``metadata:``. For anything else, including any character with a meaning in
YAML, it returns None, and :mod:`skillwire.trust.guarded_yaml` reads the text. A property test checks that both agree,
locations included. So installation starts without PyYAML, and a build reads each skill in about 10 µs.
Spec: specs §1 "SKILL.md fields".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation, ValidationError
from skillwire.trust.guarded_yaml import YamlMapping, load_yaml_mapping
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping


_MOST_LINES: Final = 64
_MOST_CHARACTERS: Final = limits.FRONTMATTER_BYTES // 4  # a character has at most four bytes
# For printable text; a plain value begins with a letter, a digit or a sign that means nothing in YAML.
_LINE: Final = re.compile(
    r"( *)([A-Za-z][A-Za-z0-9_.-]{0,63}):"
    r"(?: +(?:\"([^\"\\]*)\"|'([^']*)'|((?:[A-Za-z0-9(/_.<$+]|[^ -~]).*)))?"
)
_NESTED: Final = "metadata"


def read_flat(text: str, *, source: str = "SKILL.md", first_line: int = 1) -> YamlMapping | None:
    """Return the mapping in ``text`` if it has the simple form, else None.

    Trust: ``text`` is hostile; time is linear.
    """
    lines = text.split("\n")
    if lines.pop() or len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS:
        return None
    reader = _Reader(source)
    for number, line in enumerate(lines, first_line):
        if not reader.take(line.removesuffix("\r"), number):
            return None
    return reader.result()


class _Reader:
    """Takes line after line, and refuses the first that is not of the simple form."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._values: dict[str, Any] = {}
        self._places: dict[tuple[str, ...], SourceLocation] = {}
        self._below: dict[str, str] | None = None  # the map below ``metadata:``, while its lines may follow
        self._indent = 0

    def take(self, line: str, number: int) -> bool:
        """Read one line; False when the whole text is not for this reader."""
        found = _LINE.fullmatch(line) if line.isprintable() else None
        if found is None:
            return False
        indent, key, double, single, plain = found.groups()
        if plain is not None and (": " in plain or " #" in plain or plain[-1] in ": "):
            return False
        value = plain if plain is not None else double if double is not None else single
        path = (_NESTED, key) if indent else (key,)
        if path in self._places or not self._put(key, value, len(indent)):
            return False
        column = len(indent) + 1
        self._places[path] = SourceLocation(self._source, number, column, column + len(key), excerpt(line))
        return True

    def _put(self, key: str, value: str | None, indent: int) -> bool:
        if indent:
            if self._below is None or value is None or indent != (self._indent or indent):
                return False
            self._indent = indent
            self._below[key] = value
        elif value is None:
            self._below, self._indent = {}, 0
            self._values[key] = self._below
            return key == _NESTED
        else:
            self._below = None
            self._values[key] = value
        return True

    def result(self) -> YamlMapping | None:
        """Return the mapping; None when there is nothing in it, or nothing below ``metadata:``."""
        complete = self._values and self._values.get(_NESTED) != {}
        return YamlMapping(self._values, self._places) if complete else None


BOM: Final = b"\xef\xbb\xbf"
FIELDS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_OPENING: Final = re.compile(r"---\r?\n")
_CLOSING: Final = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_UNSAFE_NAME: Final = re.compile(r"[/\\\x00-\x1f\x7f]|^\.|^~|^[A-Za-z]:")


class SkillMd(NamedTuple):
    """The contents of a SKILL.md.

    ``fields`` is the whole frontmatter: text, lists and mappings of text. ``places`` has each key's location by its
    path. ``head`` is the frontmatter's text; ``flows`` are the locations of bracketed lists and mappings. ``body``
    begins on line ``body_line`` of ``source``. ``flaws`` are errors about optional fields, which are None or empty
    here.
    """

    source: str
    name: str
    description: str
    license: str | None
    compatibility: str | None
    metadata: Mapping[str, str]
    allowed_tools: str | None
    fields: Mapping[str, Any]
    places: Mapping[tuple[str, ...], SourceLocation]
    flows: tuple[SourceLocation, ...]
    head: str
    body: str
    body_line: int
    flaws: tuple[ValidationError, ...] = ()

    @property
    def unknown(self) -> Mapping[str, Any]:
        """The fields that the format does not know, as read."""
        return {key: value for key, value in self.fields.items() if key not in FIELDS}

    def place(self, *path: str) -> SourceLocation:
        """Return the location of the key at ``path``, or of the file when the key is absent."""
        return self.places.get(path) or SourceLocation(self.source, 1)


def parse_skill_md(data: bytes, *, source: str = "SKILL.md") -> SkillMd:
    """Return the contents of a SKILL.md.

    Args:
        data: the file, UTF-8, at most ``limits.SKILL_MD_BYTES``; a leading byte order mark is skipped.
        source: the file or URL to name in an error.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``LIMIT_ENTRIES``, ``ENCODING``, ``FRONTMATTER`` or a ``YAML_...`` code.
        ValidationError: ``NAME_FORM``, ``DESCRIPTION_FORM``.

    Spec: specs §1. Trust: time is linear in the size; the text may hold hidden characters, so show it through
    :func:`skillwire.trust.hidden_text.neutralise`.
    """
    text = _decode(data, source)
    head, body = _split(text, source)
    document = read_flat(head, source=source, first_line=2)
    if document is None:
        document = load_yaml_mapping(head, source=source, first_line=2)
    return _Fields(document, source).skill_md(head, body, body_line=text.count("\n", 0, len(text) - len(body)) + 1)


def split_body(data: bytes, *, source: str = "SKILL.md") -> str:
    """Return the text below the frontmatter of a SKILL.md.

    Raises DecodeError (``LIMIT_SIZE``, ``ENCODING``; ``FRONTMATTER`` without one).
    """
    return _split(_decode(data, source), source)[1]


def _decode(data: bytes, source: str) -> str:
    if len(data) > limits.SKILL_MD_BYTES:
        message = f"{len(data)} bytes of SKILL.md, at most {limits.SKILL_MD_BYTES} are read"
        raise DecodeError("LIMIT_SIZE", message, place=SourceLocation(source))
    try:
        return data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DecodeError("ENCODING", f"not UTF-8 at byte {error.start}", place=SourceLocation(source, line)) from None


def _split(text: str, source: str) -> tuple[str, str]:
    """Return the text between the two lines ``---``, and what follows them."""
    opening = _OPENING.match(text)
    if opening is None:
        place = SourceLocation(source, 1, 1, None, excerpt(text.split("\n", 1)[0]))
        raise DecodeError("FRONTMATTER", "the first line is not '---'", place=place)
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise DecodeError(
            "FRONTMATTER", "no line '---' ends the frontmatter", place=SourceLocation(source, 1, 1, 4, "---")
        )
    return text[opening.end() : closing.start()], text[closing.end() :]


class _Fields:
    """Takes the fields of a document one by one, collecting what is wrong with the optional ones."""

    def __init__(self, document: YamlMapping, source: str) -> None:
        self._document = document
        self._values = document.values
        self._source = source
        self._flaws: list[ValidationError] = []

    def skill_md(self, head: str, body: str, *, body_line: int) -> SkillMd:
        return SkillMd(
            source=self._source,
            name=self._name(),
            description=self._description(),
            license=self._text("license"),
            compatibility=self._text("compatibility"),
            metadata=self._metadata(),
            allowed_tools=self._allowed_tools(),
            fields=self._values,
            places=self._document.places,
            flows=self._document.flows,
            head=head,
            body=body,
            body_line=body_line,
            flaws=tuple(self._flaws),
        )

    def _name(self) -> str:
        name = self._values.get("name")
        if not isinstance(name, str) or not name:
            raise self._error("NAME_FORM", "the frontmatter has no name, or one that is not text", "name")
        if _UNSAFE_NAME.search(name):
            raise self._error("NAME_FORM", f"{neutralise(name[:80])!r} would lead out of its folder", "name")
        return name

    def _description(self) -> str:
        description = self._values.get("description")
        if not isinstance(description, str) or not description.strip():
            message = "the frontmatter has no description, or one that is not text"
            raise self._error("DESCRIPTION_FORM", message, "description")
        return description.strip()

    def _text(self, field: str) -> str | None:
        value = self._values.get(field)
        if value is None or isinstance(value, str):
            return value.strip() or None if value else None
        self._flaw(f"{field} is {_shape(value)}; it is text", field)
        return None

    def _allowed_tools(self) -> str | None:
        value = self._values.get("allowed-tools")
        if isinstance(value, list) and all(isinstance(tool, str) for tool in value):
            self._flaw("allowed-tools is a list; it is one text, the tools separated by spaces", "allowed-tools")
            return " ".join(value) or None
        return self._text("allowed-tools")

    def _metadata(self) -> dict[str, str]:
        value = self._values.get("metadata")
        if not isinstance(value, dict):
            if value:
                self._flaw(f"metadata is {_shape(value)}; it is a map from text to text", "metadata")
            return {}
        for key, inner in value.items():
            if not isinstance(inner, str):
                message = f"metadata.{neutralise(key[:80])} is {_shape(inner)}; it is text"
                self._flaw(message, "metadata", key)
        return {key: inner for key, inner in value.items() if isinstance(inner, str)}

    def _flaw(self, message: str, *path: str) -> None:
        self._flaws.append(self._error("FIELD", message, *path))

    def _error(self, code: str, message: str, *path: str) -> ValidationError:
        return ValidationError(code, message, place=self._document.places.get(path) or SourceLocation(self._source, 1))


def _shape(value: object) -> str:
    return "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else "text"
