"""The frontmatter of a SKILL.md as JSON, with the types that YAML gives its values.

Hosts read the frontmatter themselves and compare it with this one, field by field. Plain scalars are therefore what
the core schema of YAML 1.2 makes of them, whose words readers agree on best; what stands in quotes, or in a block, is
text. Spec: MCP Skills "Frontmatter"; YAML 1.2 §10.3.2.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import yaml

from skillwire.folder.frontmatter import parse_skill_md

_NULL: Final = re.compile(r"null|Null|NULL|~|")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,300}", re.ASCII)
_OCTAL: Final = re.compile(r"0o[0-7]{1,300}", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]{1,300}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_Loader: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def frontmatter_of(skill_md: bytes) -> dict[str, Any]:
    """Return the whole frontmatter.

    Raises:
        DecodeError, ValidationError: as :func:`skillwire.folder.frontmatter.parse_skill_md`, whose bounds hold here.
    """
    head = parse_skill_md(skill_md).head
    values = _value(yaml.compose(head, Loader=_Loader))  # one document, without aliases: that was looked at
    return values if isinstance(values, dict) else {}


def _value(node: yaml.Node | None) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {key.value: _value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.style else _scalar(node.value)
    return None


def _scalar(text: str) -> str | float | bool | None:
    """Return what a plain scalar is; infinity and what is no number stay text, as JSON has neither."""
    for pattern, value in ((_NULL, None), (_TRUE, True), (_FALSE, False)):
        if pattern.fullmatch(text):
            return value
    for pattern, base in ((_INTEGER, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            return int(text, base)
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text
