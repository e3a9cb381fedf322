"""Untrusted YAML: one pass over libyaml's events that accepts only mappings, lists and text.

YAML's dangers lie in its additions to data: aliases (430 bytes can become gigabytes), tags (which name types to
construct), multiple documents, and scalars that change their type (``no``, ``12:30:45``). YAML 1.1 also ends a line at
a bare carriage return and at three characters that editors do not show as an end. Building the value from parser events
refuses each of these in one line before anything is constructed; every scalar stays text, and every value has a
location.

libyaml is a C parser with its own stack, fed step by step, so reading stops at the first event beyond a bound. PyYAML
is imported on first use: simple frontmatter does not need it (:mod:`skillwire.folder.frontmatter`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple, NoReturn

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation
from skillwire.trust.hidden_text import excerpt

#: Compiled when it is first used: a plain frontmatter is read without it.
_LINE: Final = r"([^\n\r\x85\u2028\u2029]*)(\r\n|[\n\r\x85\u2028\u2029]|\Z)"


class YamlMapping(NamedTuple):
    """A document: its values (text, lists and mappings), and each key's location by its path.

    ``flows`` are the locations of bracketed lists and mappings, which simpler readers refuse.
    """

    values: dict[str, Any]
    places: Mapping[tuple[str, ...], SourceLocation]
    flows: tuple[SourceLocation, ...] = ()


def load_yaml_mapping(text: str, *, source: str = "YAML", first_line: int = 1) -> YamlMapping:
    """Return the mapping in ``text``, which begins on ``first_line`` of ``source``; every scalar is a string.

    Raises DecodeError: ``LIMIT_SIZE``, ``LIMIT_ENTRIES`` or a ``YAML_...`` code, with line and column. Trust: hostile;
    depth and nodes are bounded; aliases, anchors, tags and further documents are refused.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > limits.FRONTMATTER_BYTES:
        message = f"{size} bytes of YAML, at most {limits.FRONTMATTER_BYTES} are read"
        raise DecodeError("LIMIT_SIZE", message, place=SourceLocation(source, first_line))
    return _Reader(text, source, first_line).mapping()


class _Reader:
    def __init__(self, text: str, source: str, first_line: int) -> None:
        import yaml  # noqa: PLC0415  # 20 ms that a plain frontmatter need not pay

        self._yaml: Any = yaml
        self._lines = re.findall(_LINE, text)
        self._numbers = list(accumulate((end.endswith("\n") for _, end in self._lines), initial=first_line))
        self._source = source
        self._nodes = 0
        self._depth = 0
        self._places: dict[tuple[str, ...], SourceLocation] = {}
        self._flows: list[SourceLocation] = []
        self._events = self._read(text)

    def mapping(self) -> YamlMapping:
        try:
            next(self._events)  # the start of the stream
            start = next(self._events)
            if isinstance(start, self._yaml.StreamEndEvent):
                return YamlMapping({}, {})
            self._no_marker(start)
            top = next(self._events)
            if not isinstance(top, self._yaml.MappingStartEvent):
                self._refuse("YAML_SYNTAX", "the top is not a mapping of keys to values", top)
            values = self._map(top, ())
            self._no_marker(next(self._events))
            if not isinstance(end := next(self._events), self._yaml.StreamEndEvent):
                self._refuse("YAML_SYNTAX", "a second document begins", end)
            return YamlMapping(values, self._places, tuple(self._flows))
        except self._yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            message = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
            place = self._place(mark) if mark else SourceLocation(self._source, self._numbers[0])
            is_open = " flow " in (getattr(error, "context", None) or "")
            fix = "Close the list or mapping that [ or { begins, or put the value into quotes if it is a text."
            raise DecodeError("YAML_SYNTAX", str(message), place=place, fix=fix if is_open else None) from None

    def _read(self, text: str) -> Iterator[Any]:
        """Yield events; refuse what no value of ours has."""
        events: Iterator[Any] = self._yaml.parse(text, Loader=getattr(self._yaml, "CBaseLoader", self._yaml.BaseLoader))
        for event in events:
            if getattr(event, "anchor", None) is not None:
                kind = "alias" if isinstance(event, self._yaml.AliasEvent) else "anchor"
                self._refuse("YAML_ALIAS", f"the {kind} {event.anchor[:40]!r} is not followed", event)
            if getattr(event, "tag", None) is not None:
                self._refuse("YAML_TAG", f"the tag {event.tag[:40]!r} asks for a type; every value is text", event)
            self._nodes += 1
            if self._nodes > limits.YAML_NODES:
                self._refuse("LIMIT_ENTRIES", f"more than {limits.YAML_NODES} keys and values", event)
            yield event

    def _value(self, event: Any, path: tuple[str, ...]) -> Any:
        if isinstance(event, self._yaml.ScalarEvent):
            return event.value
        if isinstance(event, self._yaml.MappingStartEvent):
            return self._map(event, path)
        self._enter(event)
        items: list[Any] = []
        while not isinstance(item := next(self._events), self._yaml.SequenceEndEvent):
            items.append(self._value(item, (*path, str(len(items)))))
        self._depth -= 1
        return items

    def _map(self, start: Any, path: tuple[str, ...]) -> dict[str, Any]:
        self._enter(start)
        members: dict[str, Any] = {}
        while not isinstance(key := next(self._events), self._yaml.MappingEndEvent):
            if not isinstance(key, self._yaml.ScalarEvent):
                self._refuse("YAML_SYNTAX", "a key must be text", key)
            line = key.start_mark.line
            if line and not self._lines[line - 1][1].endswith("\n"):
                self._refuse("YAML_SYNTAX", "a key begins behind a line end that other readers do not see", key)
            if key.value in members:
                self._refuse("YAML_DUPLICATE_KEY", f"the key {key.value[:80]!r} occurs twice", key)
            here = (*path, key.value)
            self._places[here] = self._place(key.start_mark, key.end_mark)
            members[key.value] = self._value(next(self._events), here)
        self._depth -= 1
        return members

    def _enter(self, event: Any) -> None:
        self._depth += 1
        if event.flow_style:
            self._flows.append(self._place(event.start_mark))
        if self._depth > limits.YAML_DEPTH:
            self._refuse("YAML_DEPTH", f"nests more than {limits.YAML_DEPTH} levels deep", event)

    def _no_marker(self, event: Any) -> None:
        if event.explicit:
            self._refuse("YAML_SYNTAX", "a document marker or directive does not belong here", event)

    def _refuse(self, code: str, message: str, event: Any) -> NoReturn:
        raise DecodeError(code, message, place=self._place(event.start_mark, event.end_mark))

    def _place(self, start: Any, end: Any = None) -> SourceLocation:
        line = self._lines[start.line][0] if start.line < len(self._lines) else ""
        same_line = end is not None and end.line == start.line and end.column > start.column
        return SourceLocation(
            self._source,
            self._numbers[min(start.line, len(self._lines))],
            start.column + 1,
            end.column + 1 if same_line else None,
            excerpt(line),
        )
