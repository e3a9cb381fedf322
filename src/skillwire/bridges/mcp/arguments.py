"""What the tools take, as a model reads it: the schema of each says what it means."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from skillwire import limits
from skillwire.bridges.mcp.uris import SKILL_MD
from skillwire.protocols.skills_rpc.messages import Encoding

_Name = Annotated[str, Meta(description="The skill's name, as find_skills says it.")]
_Wait = Annotated[
    int,
    Meta(
        ge=0,
        le=int(limits.MCP_WAIT_SECONDS),
        description="Seconds to wait for the end, before an answer says how far it is.",
    ),
]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all arguments have in common: an unknown one is refused, since a model misspelt another."""


class FindSkills(Arguments, frozen=True, kw_only=True):
    """What to search for."""

    query: Annotated[
        str, Meta(description="Words that say what is to be done; without any, skills are listed by name.")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=50, description="At most so many skills.")] = 10


class DescribeSkill(Arguments, frozen=True, kw_only=True):
    """Which skill."""

    name: _Name


class ReadSkillFile(Arguments, frozen=True, kw_only=True):
    """Which file, and from where on."""

    name: _Name
    path: Annotated[str, Meta(description="Path of the file in the skill.")] = SKILL_MD
    offset: Annotated[int, Meta(ge=0, description="The character of a long text to begin at.")] = 0


class CallSkill(Arguments, frozen=True, kw_only=True):
    """Which skill, with which inputs."""

    name: _Name
    arguments: Annotated[dict[str, Any], Meta(description="The skill's inputs, as describe_skill says them.")] = {}
    wait_seconds: _Wait = 20


class ExecutionStatus(Arguments, frozen=True, kw_only=True):
    """Which execution."""

    execution_id: Annotated[str, Meta(description="The run_id that call_skill gave.", max_length=100)]
    wait_seconds: _Wait = 0


class KeepBlob(Arguments, frozen=True, kw_only=True):
    """What becomes a blob."""

    content: Annotated[str, Meta(description="What the file holds.")]
    kind: Annotated[
        str, Meta(min_length=1, max_length=int(limits.RPC_KIND_LENGTH), description="Its media type, such as text/csv.")
    ] = "text/plain"
    encoding: Annotated[Encoding, Meta(description="How content is written: as text, or bytes in base64.")] = "text"
