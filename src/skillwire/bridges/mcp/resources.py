"""Skills as resources: their entries, the index, every file at its URI, and the caller's blobs; listed in pages.

``skill://NAME/PATH`` is split, the skill found by name and the file by its exact path in the skill's list, so no URI
can lead outside of a skill. Hosts compare the frontmatter with their own reading field by field. So plain scalars get
the types of YAML 1.2's core schema, on which readers agree best; quoted and block scalars are text. A skill beyond the
extension's bounds, which no host must accept, is not served by it; its tools remain.

Clients without the extension find skills by ``skill://index.json`` or in ``resources/list``, where each skill has its
``SKILL.md``; other files are read by URI. A cursor holds the last name of the previous page, so a change between two
pages neither repeats nor omits an unchanged skill.

Bytes are text where they are UTF-8, else base64. A blob's id is the URI of its resource, so its owner reads it like any
other resource. An input that takes a blob states it in the tool's schema, because JSON types have only text.
Spec: MCP Skills "Resource Mapping", "Frontmatter", "Skill Entries", "Limits", "Reading Skill Content"; MCP Resources;
YAML 1.2 §10.3.2.
"""

from __future__ import annotations

import asyncio
import math
import re
from base64 import b64encode
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypedDict
from urllib.parse import quote, unquote

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextResourceContents,
)

from skillwire import limits
from skillwire.bridges.mcp.host import Blob, McpSkills, limit_exceeded
from skillwire.errors import DecodeError, NotFoundError, SkillwireError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.manifest import read_manifest
from skillwire.model.catalog import Catalog, decode_cursor, encode_cursor
from skillwire.model.digest import Digest
from skillwire.model.execution import BLOB_PATTERN
from skillwire.model.ref import BLOB_PREFIX
from skillwire.model.skill import SKILL_MD, Skill, SkillFile, is_skill_name
from skillwire.protocols.agent_skills.messages import JSON, IndexEntry, media_type
from skillwire.protocols.agent_skills.server import encode_index
from skillwire.protocols.skills_rpc.messages import RunResult

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
_ENTRIES_KEPT: Final = 256


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
            if len(self._kept) > _ENTRIES_KEPT:
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


def page_after(names: Sequence[str], cursor: str | None) -> tuple[Sequence[str], str | None]:
    """Return the names of the page at ``cursor`` (None for the first), and the next cursor if any.

    Raises MCPError (-32602) for an invalid cursor.
    """
    start = bisect_right(names, _name_in(cursor)) if cursor is not None else 0
    page = names[start : start + limits.MCP_PAGE]
    is_last = start + len(page) >= len(names)
    return page, None if is_last else encode_cursor(page[-1].encode("ascii"))


def _name_in(cursor: str) -> str:
    name = decode_cursor(cursor, limits.RPC_CURSOR_LENGTH).decode("latin-1")
    if not is_skill_name(name):
        raise MCPError(INVALID_PARAMS, "this cursor came with no page of this server")
    return name


class _Hint(TypedDict):
    ttl_ms: int
    cache_scope: Literal["public", "private"]


#: The cache hint of what is one caller's, and may be gone soon.
_PRIVATE_HINT: Final[_Hint] = {"ttl_ms": 0, "cache_scope": "private"}
#: Indexes that are kept, each of a catalog that is held with it: the public, and that of who asks beside.
_INDEXES_KEPT: Final = 2
_INDEX: Final = Resource(
    uri=INDEX_URI,
    name="index.json",
    title="Index of the skills",
    description="Every skill with its description, the URI of its SKILL.md and its digest.",
    mime_type=JSON,
)
_TEMPLATE: Final = ResourceTemplate(
    uri_template=TEMPLATE, name="skill-file", title="A file of a skill", description="Any file of a skill, by its path."
)


def hint(caller: McpSkills) -> _Hint:
    """Return the cache hint of a result for ``caller``: shared caches may keep public content. Spec: MCP Caching."""
    return {"ttl_ms": 1000 * limits.MCP_FRESH_SECONDS, "cache_scope": "public" if caller.is_public else "private"}


#: Member of ``_meta`` of a ``SKILL.md``: the digest of the skill's artifact **[extension]**.
DIGEST: Final = "skillwire/digest"


def resource_of(skill: Skill, file: SkillFile) -> Resource:
    """Return the description of a file; ``SKILL.md`` represents its skill. Spec: MCP Skills "Resource Metadata"."""
    is_main = file.path == SKILL_MD
    return Resource(
        uri=uri_of(skill, file.path),
        name=skill.name if is_main else file.path.rpartition("/")[2],
        description=skill.description if is_main else None,
        mime_type=mime_type(file.path),
        size=file.size,
        _meta={DIGEST: str(skill.artifact.digest)} if is_main else None,
    )


class Resources:
    """Answers the methods of resources; ``caller_of`` returns the caller of a request."""

    def __init__(self, caller_of: Callable[[ServerRequestContext], Awaitable[McpSkills]]) -> None:
        self._caller_of = caller_of
        self._indexes: OrderedDict[int, tuple[Catalog, bytes]] = OrderedDict()
        self._turn = asyncio.Lock()

    async def list_resources(
        self, context: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Answer ``resources/list``: the index, and a page of skills."""
        caller = await self._caller_of(context)
        cursor = params.cursor if params else None
        skills = caller.usable.skills
        names, following = page_after(tuple(skills), cursor)
        listed = [_INDEX] if cursor is None else []
        for name in names:
            skill = skills[name]
            if limit_exceeded(skill) is None:
                listed.append(resource_of(skill, next(file for file in skill.files if file.path == SKILL_MD)))
        return ListResourcesResult(resources=listed, next_cursor=following, **hint(caller))

    async def list_templates(
        self,
        context: ServerRequestContext,
        params: PaginatedRequestParams | None,  # noqa: ARG002  # there is one page
    ) -> ListResourceTemplatesResult:
        """Answer ``resources/templates/list``."""
        caller = await self._caller_of(context)
        return ListResourceTemplatesResult(resource_templates=[_TEMPLATE, BLOB_TEMPLATE], **hint(caller))

    async def read(self, context: ServerRequestContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Answer ``resources/read``.

        Raises MCPError: -32602 for an unknown URI; -32603 when reading fails or is too large.
        """
        caller = await self._caller_of(context)
        try:
            contents = await self._read(params, caller)
            return ReadResourceResult(
                contents=[contents], **(_PRIVATE_HINT if is_blob_uri(params.uri) else hint(caller))
            )
        except SkillwireError as error:
            data = {
                "code": error.code,
                **({"retry_after": pause} if (pause := error.details.get("retry_after")) else {}),
            }
            raise MCPError(INTERNAL_ERROR, error.message, data) from None

    async def _read(
        self, params: ReadResourceRequestParams, caller: McpSkills
    ) -> TextResourceContents | BlobResourceContents:
        skills = caller.usable.skills
        if params.uri == INDEX_URI:
            async with self._turn:
                kept = self._indexes.get(id(caller.usable))
                if kept is None:
                    index = await asyncio.to_thread(_encoded_index, caller.usable)
                    kept = self._indexes[id(caller.usable)] = caller.usable, index
                    while len(self._indexes) > _INDEXES_KEPT:
                        self._indexes.popitem(last=False)
                self._indexes.move_to_end(id(caller.usable))
                value = kept[1]
            if caller.large is None:
                text = msgspec.json.decode(value, type=str)
            else:
                caller.large.reserve(len(value))
                text = caller.large.attach(value)
            return TextResourceContents(uri=INDEX_URI, mime_type=JSON, text=text)
        if is_blob_uri(params.uri):
            blob = await find_blob(params.uri, caller)
            return await self._contents(params.uri, blob, caller)
        target = find_target(params.uri, skills)
        file = target.file if target is not None and limit_exceeded(target.skill) is None else None
        if file is None:
            raise MCPError(INVALID_PARAMS, f"nothing is served at {params.uri[:200]}", {"uri": params.uri})
        held = Blob(mime_type(file.path), file.size, partial(caller.read, file.digest))
        return await self._contents(params.uri, held, caller)

    async def _contents(self, uri: str, held: Blob, caller: McpSkills) -> TextResourceContents | BlobResourceContents:
        """Return the contents of a file or blob; a large one is encoded in a thread behind a placeholder."""
        large = caller.large
        kind = plain(held.kind)
        if large is None or held.size <= limits.SERVER_PIECE_BYTES:
            return contents_of(uri, kind, await held.read())
        likely = held.size * 4 // 3
        large.reserve(likely)
        async with self._turn:
            contents, value = await asyncio.to_thread(_encoded, uri, kind, await held.read())
        large.reserve(len(value) - likely)
        mark = large.attach(value)
        shown = {"text": mark} if isinstance(contents, TextResourceContents) else {"blob": mark}
        return contents.model_copy(update=shown)


def _encoded(uri: str, kind: str, content: bytes) -> tuple[TextResourceContents | BlobResourceContents, bytes]:
    """Return what a file holds, and its text or its base64 as a string in JSON."""
    contents = contents_of(uri, kind, content)
    return contents, msgspec.json.encode(contents.text if isinstance(contents, TextResourceContents) else contents.blob)


def _encoded_index(catalog: Catalog) -> bytes:
    return msgspec.json.encode(index_of(catalog.skills.values()).decode("utf-8"))


def plain(kind: str) -> str:
    """Return a media type without parameters: texts are text in JSON anyway."""
    return kind.partition(";")[0]


def mime_type(path: str) -> str:
    """Return the media type of a file."""
    return plain(media_type(path))


def contents_of(uri: str, kind: str, content: bytes) -> TextResourceContents | BlobResourceContents:
    """Return the contents of a resource: text if the bytes are exactly UTF-8, else base64."""
    if kind.startswith("text/") or kind == JSON:
        try:
            return TextResourceContents(uri=uri, mime_type=kind, text=content.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    return BlobResourceContents(uri=uri, mime_type=kind, blob=b64encode(content).decode("ascii"))


BLOB_TEMPLATE: Final = ResourceTemplate(
    uri_template=f"{BLOB_PREFIX}{{sha256}}",
    name="blob",
    title="A blob of yours",
    description="What you handed in, or a skill that you called left, by its id.",
)
_WANTED: Final = "The id of a blob, as create_blob, POST /blobs or output_blobs give it."


def is_blob_uri(uri: str) -> bool:
    """Whether a URI is that of a blob."""
    return uri.startswith(BLOB_PREFIX)


async def find_blob(uri: str, caller: McpSkills) -> Blob:
    """Return a blob of ``caller``. Raises MCPError (-32602) if it does not exist or is too large for MCP."""
    try:
        return await caller.find_blob(uri)
    except (NotFoundError, DecodeError) as error:
        raise MCPError(INVALID_PARAMS, error.message, {"uri": uri}) from None


def links_of(run: RunResult) -> list[ResourceLink]:
    """Return links to the blobs that a run left."""
    return [
        ResourceLink(uri=one.blob_id, name=one.name or one.blob_id, mime_type=plain(one.kind), size=one.size_bytes)
        for one in run.output_blobs
    ]


async def blob_inputs(skill: Skill, caller: McpSkills) -> frozenset[str]:
    """Return the names of those inputs of a skill that take a blob, which only code can read."""
    manifest = skill.find_file("skill.toml")
    if manifest is None or skill.action is None or skill.action.executor != "python":
        return frozenset()
    inputs = read_manifest(await caller.read(manifest.digest))[0].inputs
    return frozenset(name for name, one in inputs.items() if one.input_type == "blob")


def blob_schema(own: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an input that takes a blob, extending ``own``."""
    described = " ".join(filter(None, (own.get("description"), _WANTED)))
    return {"type": "string", "pattern": BLOB_PATTERN, **own, "description": described}
