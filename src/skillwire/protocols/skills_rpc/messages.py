"""The values of the Skills Protocol: parameters and results of its methods.

Parameters are strict: an unknown name is refused, because a model that misspelt one would get an answer to another
question. A ``null`` parameter counts as absent. Results are read leniently, since a newer server may add fields.
:data:`METHODS` maps each method to its parameters. Spec: SKP "Discovery Methods"; specs §4. Additions are marked
**[ours]**.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta, Struct

from skillwire import limits

#: How JSON holds a file or a blob: as text, or, for what is not UTF-8, in base64. **[ours]**
Encoding = Literal["text", "base64"]
ListDetail = Literal["names", "summary"]
SkillDetail = Literal["manifest", "summary", "full"]
BlobMode = Literal["sample_head", "sample_tail", "full"]
RunStatus = Literal["completed", "failed"]

_Text = Annotated[str, Meta(min_length=1)]
_Milliseconds = Annotated[int, Meta(ge=1)]


class Params(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all parameters have in common."""


class ListSkills(Params, frozen=True, kw_only=True):
    """Which skills are listed, with how much about each. Spec: SKP ``list_skills``."""

    namespace: str | None = None
    detail: ListDetail = "names"
    limit: Annotated[int, Meta(ge=1, le=int(limits.RPC_PAGE))] = 50
    cursor: str | None = None


class DescribeSkill(Params, frozen=True, kw_only=True):
    """Which skill is described, and how far. Spec: SKP ``describe_skill``."""

    name: str
    version: str | None = None
    detail: SkillDetail = "summary"


class ReadSkillFile(Params, frozen=True, kw_only=True):
    """Which file is read. Spec: SKP ``read_skill_file``; ``encoding`` is ours."""

    name: str
    path: str
    version: str | None = None
    encoding: Encoding = "text"


class ExecuteSkill(Params, frozen=True, kw_only=True):
    """The skill to execute and its input; ``input_blobs`` are ids of blobs that the code gets as files.

    Spec: specs §4.
    """

    name: str
    args: dict[str, Any] = {}
    version: str | None = None
    input_blobs: tuple[_Text, ...] = ()
    timeout_ms: _Milliseconds | None = None


class RunLimits(Params, frozen=True, kw_only=True):
    """What a run of code may take. Spec: specs §4."""

    timeout_ms: _Milliseconds | None = None


class RunCode(Params, frozen=True, kw_only=True):
    """The code to run and its input.

    ``entrypoint`` is the function called with ``args``; ``mount_skills`` are dotted names of skills whose files the
    code can read. Spec: specs §4.
    """

    code: str
    language: Literal["python"] = "python"
    entrypoint: _Text = "main"
    args: dict[str, Any] = {}
    mount_skills: tuple[_Text, ...] = ()
    input_blobs: tuple[_Text, ...] = ()
    limits: RunLimits = RunLimits()


class CreateBlob(Params, frozen=True, kw_only=True):
    """What is kept as a blob: its content, and of what media type it is. Spec: specs §4; ``encoding`` is ours."""

    content: str
    kind: Annotated[str, Meta(min_length=1, max_length=int(limits.RPC_KIND_LENGTH))]
    encoding: Encoding = "text"


class ReadBlob(Params, frozen=True, kw_only=True):
    """Which part of a blob is read, of at most ``max_bytes``. Spec: specs §4; ``encoding`` is ours."""

    blob_id: str
    mode: BlobMode = "sample_head"
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    encoding: Encoding = "text"


class LoadGuide(Params, frozen=True, kw_only=True):
    """Nothing: ``load_skills_protocol_guide`` takes no parameters. Spec: specs §4."""


#: Method → its parameters. Spec: SKP; specs §4.
METHODS: Final[dict[str, type[Params]]] = {
    "list_skills": ListSkills,
    "describe_skill": DescribeSkill,
    "read_skill_file": ReadSkillFile,
    "execute_skill": ExecuteSkill,
    "run_code": RunCode,
    "create_blob": CreateBlob,
    "read_blob": ReadBlob,
    "load_skills_protocol_guide": LoadGuide,
}


class OutputBlob(NamedTuple):
    """A blob that a run left: its id, its media type, its size in bytes, and the name that the run gave it."""

    blob_id: str
    kind: str
    size_bytes: int
    name: str = ""


class RunError(NamedTuple):
    """Why a run failed: a word for machines, such as ``timeout``, and a sentence."""

    type: str
    message: str


class RunResult(NamedTuple):
    """The result of an execution. Spec: specs §4, "run".

    Args:
        status: ``completed`` or ``failed``; a failure is a result too, not a JSON-RPC error.
        run_id: id of the execution.
        summary: one sentence for a model.
        output: any JSON value; absent after a failure.
        output_blobs: files that the run left.
        logs_preview: the end of the printed text.
        error: why it failed.
    """

    status: RunStatus
    run_id: str
    summary: str
    output: Any = None
    output_blobs: tuple[OutputBlob, ...] = ()
    logs_preview: str = ""
    error: RunError | None = None


class ListedSkill(NamedTuple):
    """One skill of a list; the last three are empty unless ``detail`` was ``summary``. Spec: SKP ``list_skills``."""

    name: str
    version: str
    description: str = ""
    namespace: str = ""
    kind: str = ""


class SkillPage(NamedTuple):
    """A page of skills, and where the next one begins; None when there is none."""

    skills: tuple[ListedSkill, ...]
    next_cursor: str | None = None


class DescribedSkill(NamedTuple):
    """A skill, described: parsed ``skill.toml``, parsed frontmatter, and SKILL.md where it was asked for."""

    manifest: dict[str, Any]
    frontmatter: dict[str, Any] | None = None
    content: str | None = None


class FileContent(NamedTuple):
    """A file of a skill in its JSON form."""

    content: str
    encoding: Encoding = "text"


class CreatedBlob(NamedTuple):
    """The id of a blob that was made, and its size in bytes."""

    blob_id: str
    size_bytes: int


class BlobContent(NamedTuple):
    """A part of a blob, or all of it; ``size_bytes`` is that of all of it."""

    content: str
    size_bytes: int
    truncated: bool = False
    encoding: Encoding = "text"
    kind: str = ""
