"""The values of the Skills Protocol: what its methods take, and what they give.

Parameters are strict: a name that a method does not know is refused, since a model that misspelt one would otherwise
get an answer to another question. An optional parameter may be ``null``, which is as if it were not there. Results are
read leniently, because a server of a newer version may say more.

:data:`METHODS` is the protocol's list: each method with the parameters that it takes. Spec: SKP "Discovery Methods";
specs §4. What no text says is marked **[ours]**.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta, Struct

from skillwire import limits

#: How a skill's file or a blob stands in JSON: as it is, or, for what is not UTF-8, in base64. **[ours]**
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
    """Which skill is executed, and with what.

    ``input_blobs`` are ids of blobs, which the code finds as files. Spec: specs §4.
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
    """Which code is run, and with what.

    ``entrypoint`` is the function that is called with ``args``; ``mount_skills`` are dotted names of skills whose files
    the code finds. Spec: specs §4.
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


#: Method → what it takes. Spec: SKP; specs §4.
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
    """What came of an execution. Spec: specs §4, "run".

    Args:
        status: ``completed`` or ``failed``; the second is a result all the same, and no error of JSON-RPC.
        run_id: by which the execution can be found again.
        summary: one sentence for a model.
        output: any JSON value; not there when it failed.
        output_blobs: what the run left.
        logs_preview: the end of what it printed.
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
    """A file of a skill, as it stands in JSON."""

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
