"""Entries of the Skills extension: a skill's URIs, its frontmatter, and its files with digest and size.

``skill://NAME/PATH`` is split, the skill found by name and the file by its exact path in the skill's list, so no URI
can lead outside of a skill. Hosts compare the frontmatter with their own reading field by field. So plain scalars get
the types of YAML 1.2's core schema, on which readers agree best; quoted and block scalars are text. A skill beyond the
extension's bounds, which no host must accept, is not served by it; its tools remain. Spec: MCP Skills "Resource
Mapping", "Frontmatter", "Skill Entries", "Limits"; YAML 1.2 §10.3.2.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from skillwire import limits
from skillwire.bridges.mcp.host import McpSkills
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.model.digest import Digest
from skillwire.model.skill import SKILL_MD, Skill, SkillFile
from skillwire.protocols.agent_skills.messages import IndexEntry
from skillwire.protocols.agent_skills.server import encode_index


def limit_exceeded(skill: Skill) -> str | None:
    """Return why a skill is not served as one of the extension, or None when it is."""
    size = sum(file.size for file in skill.files)
    if len(skill.files) > limits.MCP_SKILL_FILES:
        return f"{skill.name} has {len(skill.files):,} files; over MCP a skill has at most {limits.MCP_SKILL_FILES:,}"
    if size > limits.MCP_SKILL_BYTES:
        return f"{skill.name} has {size:,} bytes; over MCP a skill has at most {limits.MCP_SKILL_BYTES:,}"
    return None


_SCHEME: Final = "skill://"
INDEX_URI: Final = f"{_SCHEME}index.json"
TEMPLATE: Final = f"{_SCHEME}{{name}}/{{+path}}"


class Target(NamedTuple):
    """What a URI means: a skill, and a path in it; the empty path is its root."""

    skill: Skill
    path: str

    @property
    def file(self) -> SkillFile | None:
        """The file at the path, if there is one."""
        return self.skill.find_file(self.path)


def uri_of(skill: Skill, path: str = SKILL_MD) -> str:
    """Return the URI of a file of a skill, or of a folder in it; of its root for the empty path."""
    return f"{_SCHEME}{skill.name}/{quote(path)}" if path else f"{_SCHEME}{skill.name}"


def find_target(uri: str, skills: Mapping[str, Skill]) -> Target | None:
    """Return what ``uri`` names among ``skills``, or None. Trust: ``uri`` is hostile."""
    if len(uri) > limits.URL_LENGTH or not uri.startswith(_SCHEME):
        return None
    name, _, path = uri.removeprefix(_SCHEME).partition("/")
    if name not in skills:
        return None
    try:
        return Target(skills[name], unquote(path, errors="strict"))
    except UnicodeDecodeError:
        return None


_NULL: Final = re.compile(r"null|Null|NULL|~|")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,300}", re.ASCII)
_OCTAL: Final = re.compile(r"0o[0-7]{1,300}", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]{1,300}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)


def frontmatter_of(skill_md: bytes) -> dict[str, Any]:
    """Return the whole frontmatter. Raises as :func:`skillwire.folder.frontmatter.parse_skill_md`."""
    import yaml  # noqa: PLC0415  # 1.5 MB that a server without MCP clients does without

    head = parse_skill_md(skill_md, description="").head
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    values = _value(yaml.compose(head, Loader=loader))  # one document, without aliases: that was looked at
    return values if isinstance(values, dict) else {}


def _value(node: Any) -> Any:
    """Return the value of a node of YAML; None for no node."""
    if node is None:
        return None
    if node.id == "mapping":
        return {key.value: _value(value) for key, value in node.value}
    if node.id == "sequence":
        return [_value(item) for item in node.value]
    return node.value if node.style else _scalar(node.value)


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


#: Entries that are kept; the largest takes 100 KiB.
_KEPT: Final = 256


class Entries:
    """Makes the entries of skills and caches recent ones by the artifact's digest."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Digest, dict[str, Any]] = OrderedDict()

    async def of(self, skill: Skill, caller: McpSkills) -> dict[str, Any]:
        """Return the entry of a skill that ``caller`` may use."""
        digest = skill.artifact.digest
        entry = self._kept.get(digest)
        if entry is None:
            skill_md = await caller.read(skill_md_of(skill))
            entry = self._kept[digest] = {
                "uri": uri_of(skill),
                "frontmatter": frontmatter_of(skill_md),
                "resources": [
                    {"uri": uri_of(skill, file.path), "digest": str(file.digest), "size": file.size}
                    for file in skill.files
                ],
            }
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return entry


def skill_md_of(skill: Skill) -> Digest:
    """Return the digest of its ``SKILL.md``."""
    return next(file.digest for file in skill.files if file.path == SKILL_MD)


def index_of(skills: Iterable[Skill]) -> bytes:
    """Return ``skill://index.json``: a 0.2.0 index of Agent Skills Discovery whose URLs are resources.

    Every entry is a ``skill-md``; the skill's other files are resources beside it.
    """
    return encode_index(
        IndexEntry(
            name=skill.name,
            description=skill.description,
            artifact_type="skill-md",
            url=uri_of(skill),
            digest=skill_md_of(skill),
            version=skill.version,
        )
        for skill in skills
        if limit_exceeded(skill) is None
    )
