"""The values of the Skills Protocol: parameters and results of its methods.

Parameters are strict: an unknown name is refused, because the call of a model that misspelt one would mean something
else. A ``null`` parameter counts as absent. Results are read leniently, since a newer server may add fields.
:data:`METHODS` maps each method to its parameters. Spec: SKP "Discovery Methods"; specs §4. Additions are marked
**[extension]**.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from skillwire import limits

#: How JSON holds a file or a blob: as text, or, for what is not UTF-8, in base64. **[extension]**
Encoding = Literal["text", "base64"]
ListDetail = Literal["names", "summary"]
SkillDetail = Literal["manifest", "summary", "full"]
BlobMode = Literal["sample_head", "sample_tail", "full"]
RunStatus = Literal["completed", "failed"]

_Text = Annotated[str, Meta(min_length=1)]
_Milliseconds = Annotated[int, Meta(ge=1)]


class Params(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of all parameters."""


class ListSkills(Params, frozen=True, kw_only=True):
    """The listed namespace and the detail of each skill. Spec: SKP ``list_skills``."""

    namespace: str | None = None
    detail: ListDetail = "names"
    limit: Annotated[int, Meta(ge=1)] = 50
    cursor: str | None = None


class DescribeSkill(Params, frozen=True, kw_only=True):
    """The described skill and the detail. Spec: SKP ``describe_skill``."""

    name: str
    version: str | None = None
    detail: SkillDetail = "summary"


class ReadSkillFile(Params, frozen=True, kw_only=True):
    """The file to read. Spec: SKP ``read_skill_file``; ``encoding`` is an extension."""

    name: str
    path: str
    version: str | None = None
    encoding: Encoding = "text"


class ExecuteSkill(Params, frozen=True, kw_only=True):
    """The skill to execute and its input; ``input_blobs`` become files for the code. Spec: specs §4."""

    name: str
    args: dict[str, Any] = {}
    version: str | None = None
    input_blobs: tuple[_Text, ...] = ()
    timeout_ms: _Milliseconds | None = None


class RunLimits(Params, frozen=True, kw_only=True):
    """The limits of a run of code. Spec: specs §4."""

    timeout_ms: _Milliseconds | None = None


class RunCode(Params, frozen=True, kw_only=True):
    """The code to run: ``entrypoint`` gets ``args`` and can read the files of ``mount_skills``. Spec: specs §4."""

    code: str
    language: Literal["python"] = "python"
    entrypoint: _Text = "main"
    args: dict[str, Any] = {}
    mount_skills: tuple[_Text, ...] = ()
    input_blobs: tuple[_Text, ...] = ()
    limits: RunLimits = RunLimits()


class CreateBlob(Params, frozen=True, kw_only=True):
    """The content of a new blob and its media type. Spec: specs §4; ``encoding`` is an extension."""

    content: str
    kind: Annotated[str, Meta(min_length=1, max_length=int(limits.RPC_KIND_LENGTH))]
    encoding: Encoding = "text"


class ReadBlob(Params, frozen=True, kw_only=True):
    """The part of a blob to read, of at most ``max_bytes``. Spec: specs §4; ``encoding`` is an extension."""

    blob_id: str
    mode: BlobMode = "sample_head"
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    encoding: Encoding = "text"


class LoadGuide(Params, frozen=True, kw_only=True):
    """No parameters, for ``load_skills_protocol_guide``. Spec: specs §4."""


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


class _Result(Struct, frozen=True, omit_defaults=True):
    """The options of all results."""


class OutputBlob(_Result, frozen=True):
    """A blob that a run left: its id, its media type, its size in bytes, and the name that the run gave it."""

    blob_id: str
    kind: str = ""
    size_bytes: int = 0
    name: str = ""


class RunError(_Result, frozen=True):
    """Why a run failed: a word for machines, such as ``timeout``, and a sentence."""

    type: str
    message: str


class RunResult(_Result, frozen=True):
    """The result of an execution; a failure is a result too, not a JSON-RPC error. Spec: specs §4, "run".

    ``summary`` is one sentence for a model, ``logs_preview`` the end of the printed text.
    """

    status: RunStatus
    run_id: str
    summary: str = ""
    output: Any = None
    output_blobs: tuple[OutputBlob, ...] = ()
    logs_preview: str = ""
    error: RunError | None = None


class ListedSkill(_Result, frozen=True):
    """One skill of a list; the last three are empty unless ``detail`` was ``summary``. Spec: SKP ``list_skills``."""

    name: str
    version: str
    description: str = ""
    namespace: str = ""
    kind: str = ""


class SkillPage(_Result, frozen=True):
    """A page of skills, and the cursor of the next one, if any."""

    skills: tuple[ListedSkill, ...]
    next_cursor: str | None = None


class DescribedSkill(_Result, frozen=True):
    """A described skill: parsed ``skill.toml``, parsed frontmatter, and SKILL.md if it was requested.

    ``artifact_type`` and ``digest`` of the artifact are beside the manifest **[extension]**.
    """

    manifest: dict[str, Any]
    frontmatter: dict[str, Any] | None = field(default=None, name="skill_md_frontmatter")
    content: str | None = field(default=None, name="skill_md_content")
    artifact_type: str | None = None
    digest: str | None = None


class FileContent(_Result, frozen=True):
    """A file of a skill in its JSON form."""

    content: str
    encoding: Encoding = "text"


class CreatedBlob(_Result, frozen=True):
    """The id of a new blob, and its size in bytes."""

    blob_id: str
    size_bytes: int


class BlobContent(_Result, frozen=True):
    """A part of a blob, or all of it; ``size_bytes`` is that of all of it."""

    content: str
    size_bytes: int
    truncated: bool = False
    encoding: Encoding = "text"
    kind: str = ""
