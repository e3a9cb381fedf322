"""What the methods give: values to JSON, and, for a client, JSON to values.

Encoding leaves out what is not there. Decoding takes what the text promises, passes over what it does not know, and
refuses the rest with its place. Texts that people read in a list are bounded and without hidden characters; manifests,
files and outputs are data and stay as they came.

Spec: SKP; specs §4. Trust: what is decoded is a stranger's; nothing but ``ValidationError`` escapes.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from skillwire import limits
from skillwire.errors import Place, ValidationError
from skillwire.protocols.skills_rpc.messages import (
    BlobContent,
    CreatedBlob,
    DescribedSkill,
    Encoding,
    FileContent,
    ListedSkill,
    OutputBlob,
    Run,
    RunError,
    RunStatus,
    SkillPage,
)
from skillwire.trust.hidden_text import neutralise

T = TypeVar("T")

_TEXT_LENGTH: Final = 1000


class _Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result as it stands in JSON."""


class _Listed(_Wire, frozen=True, kw_only=True):
    name: str
    version: str
    description: str = ""
    namespace: str = ""
    kind: str = ""


class _Page(_Wire, frozen=True, kw_only=True):
    skills: list[_Listed]
    next_cursor: str | None = None


class _Skill(_Wire, frozen=True, kw_only=True):
    manifest: dict[str, Any]
    skill_md_frontmatter: dict[str, Any] | None = None
    skill_md_content: str | None = None


class _Described(_Wire, frozen=True, kw_only=True):
    skill: _Skill


class _File(_Wire, frozen=True, kw_only=True):
    content: str
    encoding: Encoding = "text"


class _Created(_Wire, frozen=True, kw_only=True):
    blob_id: str
    size_bytes: int


class _Blob(_Wire, frozen=True, kw_only=True):
    content: str
    size_bytes: int
    truncated: bool = False
    encoding: Encoding = "text"
    kind: str = ""


class _OutputBlob(_Wire, frozen=True, kw_only=True):
    blob_id: str
    kind: str = ""
    size_bytes: int = 0
    name: str = ""


class _Error(_Wire, frozen=True, kw_only=True):
    type: str
    message: str


class _Run(_Wire, frozen=True, kw_only=True):
    status: RunStatus
    run_id: str
    summary: str = ""
    output: Any | UnsetType = UNSET
    output_blobs: list[_OutputBlob | str] = []
    logs_preview: str = ""
    error: _Error | None = None


def encode_listed(skill: ListedSkill) -> bytes:
    """Return one skill of a list as JSON."""
    return msgspec.json.encode(_Listed(**skill._asdict()))


def encode_page(skills: bytes, next_cursor: str | None) -> bytes:
    """Return a page of ``skills``, which are written and joined already."""
    return b'{"skills":[%b],"next_cursor":%b}' % (skills, msgspec.json.encode(next_cursor))


def encode_described(skill: DescribedSkill) -> bytes:
    """Return a described skill as JSON; dates of TOML become texts."""
    wire = _Skill(manifest=skill.manifest, skill_md_frontmatter=skill.frontmatter, skill_md_content=skill.content)
    return msgspec.json.encode(_Described(skill=wire))


def encode_file(file: FileContent) -> bytes:
    """Return a file as JSON; ``encoding`` is said where it is not text."""
    return msgspec.json.encode(_File(content=file.content, encoding=file.encoding))


def encode_created(blob: CreatedBlob) -> bytes:
    """Return what is told of a new blob as JSON."""
    return msgspec.json.encode(blob._asdict())


def encode_blob(blob: BlobContent) -> bytes:
    """Return a part of a blob as JSON; ``truncated`` is always said."""
    told = {name: value for name, value in blob._asdict().items() if name != "kind" or value}
    if blob.encoding == "text":
        del told["encoding"]
    return msgspec.json.encode(told)


def encode_run(run: Run) -> bytes:
    """Return a run as JSON: ``output`` when it completed, ``error`` when it failed. Spec: specs §4."""
    wire = _Run(
        status=run.status,
        run_id=run.run_id,
        summary=run.summary,
        output=UNSET if run.status == "failed" else run.output,
        output_blobs=[_OutputBlob(**blob._asdict()) for blob in run.output_blobs],
        logs_preview=run.logs_preview,
        error=run.error and _Error(type=run.error.type, message=run.error.message),
    )
    return msgspec.json.encode(wire)


def decode_page(result: object, source: str) -> SkillPage:
    """Return the page that ``list_skills`` gave; ``source`` is the URL of the endpoint.

    Raises:
        ValidationError: ``RPC_ANSWER``; so do the other decoders.
    """
    page = _convert(result, _Page, source)
    if len(page.skills) > limits.INDEX_ENTRIES:
        raise ValidationError("RPC_ANSWER", f"a page of {len(page.skills):,} skills came", place=Place(source))
    return SkillPage(tuple(_listed(one) for one in page.skills), page.next_cursor)


def decode_described(result: object, source: str) -> DescribedSkill:
    """Return the skill that ``describe_skill`` gave."""
    skill = _convert(result, _Described, source).skill
    return DescribedSkill(skill.manifest, skill.skill_md_frontmatter, skill.skill_md_content)


def decode_file(result: object, source: str) -> FileContent:
    """Return the file that ``read_skill_file`` gave."""
    file = _convert(result, _File, source)
    return FileContent(file.content, file.encoding)


def decode_created(result: object, source: str) -> CreatedBlob:
    """Return what ``create_blob`` gave."""
    blob = _convert(result, _Created, source)
    return CreatedBlob(_shown(blob.blob_id), blob.size_bytes)


def decode_blob(result: object, source: str) -> BlobContent:
    """Return what ``read_blob`` gave."""
    blob = _convert(result, _Blob, source)
    return BlobContent(blob.content, blob.size_bytes, blob.truncated, blob.encoding, _shown(blob.kind))


def decode_run(result: object, source: str) -> Run:
    """Return what ``execute_skill`` or ``run_code`` gave."""
    run = _convert(result, _Run, source)
    return Run(
        status=run.status,
        run_id=_shown(run.run_id),
        summary=_shown(run.summary),
        output=None if run.output is UNSET else run.output,
        output_blobs=tuple(_output_blob(one) for one in run.output_blobs),
        logs_preview=neutralise(run.logs_preview[: limits.SANDBOX_LOG_SHOWN_BYTES]),
        error=RunError(_shown(run.error.type), _shown(run.error.message)) if run.error else None,
    )


def decode_guide(result: object, source: str) -> str:
    """Return the text that ``load_skills_protocol_guide`` gave."""
    return _convert(result, _File, source).content


def _listed(one: _Listed) -> ListedSkill:
    description = neutralise(one.description)[: limits.DESCRIPTION_LENGTH]
    return ListedSkill(_shown(one.name), _shown(one.version), description, _shown(one.namespace), _shown(one.kind))


def _output_blob(one: _OutputBlob | str) -> OutputBlob:
    if isinstance(one, str):  # some servers give the ids alone
        return OutputBlob(_shown(one), "", 0)
    return OutputBlob(_shown(one.blob_id), _shown(one.kind), one.size_bytes, _shown(one.name))


def _convert(result: object, kind: type[T], source: str) -> T:
    try:
        return msgspec.convert(result, kind)
    except msgspec.ValidationError as error:
        told = neutralise(str(error))[:_TEXT_LENGTH]
        raise ValidationError("RPC_ANSWER", f"not a result of this method: {told}", place=Place(source)) from None


def _shown(text: str) -> str:
    return neutralise(text[:_TEXT_LENGTH])
