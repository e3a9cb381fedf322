"""The values of Skill Sharing: descriptors, indexes, invocations and errors.

These classes are the only source of the protocol's schema in JSON Schema, TypeScript and MDX. :data:`CONDITIONS` holds
the fields that require another field; decoding checks them. An absent optional field is ``msgspec.UNSET``, so absence
and ``null`` differ and encoding restores the input. Unknown fields are ignored, since a minor version may add some.
Spec: SSP §3, §4, §5, §9.1.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

from skillwire.model.access import Access
from skillwire.model.execution import ExecutionStatus, Priority
from skillwire.model.skill import SEMVER_PATTERN

#: The version of the protocol that we speak.
PROTOCOL_VERSION: Final = "1.0.0"

Number = int | float


class CapabilityType(StrEnum):
    """The classification of a skill's capability. Spec: SSP §3.4.1."""

    PLUGIN = "plugin"
    API = "api"
    KNOWLEDGE = "knowledge"
    TASK = "task"


class AuthType(StrEnum):
    """How a caller authenticates. Spec: SSP §3.4.3."""

    API_KEY = "api_key"
    OAUTH2 = "oauth2"
    CUSTOM = "custom"
    NONE = "none"


class Method(StrEnum):
    """How an endpoint is called. Spec: SSP §3.5.3."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"


class _Message(Struct, frozen=True, omit_defaults=True):
    """The options of all messages."""


class ProtocolVersion(_Message, frozen=True, kw_only=True):
    """The version of the protocol that a document conforms to. Spec: SSP §3.5.1."""

    version: Annotated[str, Meta(pattern=SEMVER_PATTERN, description="Version of the protocol, as SemVer.")]
    changelog_url: Annotated[str, Meta(description="URL of the changelog.")] | UnsetType = UNSET


class IndexProvider(_Message, frozen=True, kw_only=True):
    """The publisher of an index. Spec: SSP §4.3.2."""

    name: Annotated[str, Meta(description="Name of the provider.")]
    url: Annotated[str, Meta(description="URL of the provider.")] | UnsetType = UNSET


class Provider(IndexProvider, frozen=True, kw_only=True):
    """The provider of a skill. Spec: SSP §3.2."""

    contact: Annotated[str, Meta(description="How to reach the provider.")] | UnsetType = UNSET


class Retry(_Message, frozen=True, kw_only=True):
    """How often and after which pause a call may be made again. Spec: SSP §3.5.3."""

    max_attempts: Annotated[Number, Meta(description="How many attempts may be made.")]
    backoff_ms: Annotated[Number, Meta(description="Pause before the next attempt, in milliseconds.")]


class ParameterDefinition(_Message, frozen=True, kw_only=True):
    """One input of a skill. Spec: SSP §3.5.2."""

    name: Annotated[str, Meta(description="Name of the parameter.")]
    type: Annotated[str, Meta(description="A type of JSON Schema.")]
    description: Annotated[str, Meta(description="What the parameter means.")]
    required: Annotated[bool, Meta(description="Whether the parameter has to be given.")]
    default: Annotated[Any, Meta(description="Value when the parameter is not given.")] = UNSET
    schema: Annotated[dict[str, Any], Meta(description="JSON Schema of a complex parameter.")] | UnsetType = UNSET

    @property
    def has_default(self) -> bool:
        """Whether it has a default value, which may be null."""
        return self.default is not UNSET


_RequestType = Annotated[str, Meta(description="Media type of the request; application/json when absent.")]
_OF_EXECUTION: Final = "{execution_id} is replaced by the execution's id."
_StatusUrl = Annotated[str, Meta(description=f"URL of an execution's status; {_OF_EXECUTION}")]
_ResultUrl = Annotated[str, Meta(description=f"URL of an execution's result; {_OF_EXECUTION}")]


class InvocationEndpoint(_Message, frozen=True, kw_only=True):
    """Where and how a skill is invoked. Spec: SSP §3.5.3, §5.5."""

    url: Annotated[str, Meta(description="URL to which an invocation is sent.")]
    method: Annotated[Method, Meta(description="HTTP method.")]
    content_type: _RequestType | UnsetType = UNSET
    status_url: _StatusUrl | UnsetType = UNSET
    result_url: _ResultUrl | UnsetType = UNSET
    timeout_ms: Annotated[Number, Meta(description="Time limit of an invocation, in milliseconds.")] | UnsetType = UNSET
    retry: Annotated[Retry, Meta(description="How a failed call is made again.")] | UnsetType = UNSET


class OutputDefinition(_Message, frozen=True, kw_only=True):
    """What a skill gives back. Spec: SSP §3.5.4."""

    content_type: Annotated[str, Meta(description="Media type of the output.")]
    schema: Annotated[dict[str, Any], Meta(description="JSON Schema of the output.")] | UnsetType = UNSET
    description: Annotated[str, Meta(description="What the output means.")] | UnsetType = UNSET


class OAuth2Config(_Message, frozen=True, kw_only=True):
    """Where tokens come from. Spec: SSP §3.5.5."""

    authorization_url: Annotated[str, Meta(description="URL of the authorization endpoint.")]
    token_url: Annotated[str, Meta(description="URL of the token endpoint.")]
    scopes: Annotated[dict[str, str], Meta(description="Scopes that exist: name to description.")]


class CustomAuth(_Message, frozen=True, kw_only=True):
    """Another way of authentication, for people to read. Spec: SSP §3.5.5."""

    instructions: Annotated[str, Meta(description="What a caller has to do.")]
    parameters: Annotated[list[ParameterDefinition], Meta(description="What a caller needs.")]


class AuthConfig(_Message, frozen=True, kw_only=True):
    """How callers authenticate. Spec: SSP §3.5.5, §7.2."""

    type: Annotated[AuthType, Meta(description="Method of authentication.")]
    description: Annotated[str, Meta(description="What a caller should know.")] | UnsetType = UNSET
    header: Annotated[str, Meta(description="Header field that carries an API key.")] | UnsetType = UNSET
    oauth2: Annotated[OAuth2Config, Meta(description="Required when type is oauth2.")] | UnsetType = UNSET
    custom: Annotated[CustomAuth, Meta(description="Required when type is custom.")] | UnsetType = UNSET

    def __post_init__(self) -> None:
        for condition in CONDITIONS["AuthConfig"]:
            if getattr(self, condition.field) == condition.value and getattr(self, condition.demanded) is UNSET:
                raise ValueError(f"{condition.demanded} is required when {condition.field} is {condition.value}")


class SkillDescriptor(_Message, frozen=True, kw_only=True):
    """Everything about one skill. Spec: SSP §3."""

    protocol: Annotated[ProtocolVersion, Meta(description="The protocol that this descriptor conforms to.")]
    id: Annotated[str, Meta(description="Identifier of the skill, unique in the world.")]
    name: Annotated[str, Meta(description="Name for people.")]
    version: Annotated[str, Meta(pattern=SEMVER_PATTERN, description="Version of the skill, as SemVer.")]
    capability_type: Annotated[CapabilityType, Meta(description="What kind of capability it is.")]
    description: Annotated[str, Meta(description="What the skill does.")]
    provider: Annotated[Provider, Meta(description="Who provides the skill.")]
    endpoint: Annotated[InvocationEndpoint, Meta(description="Where and how it is invoked.")]
    inputs: Annotated[list[ParameterDefinition], Meta(description="Inputs of the skill.")]
    output: Annotated[OutputDefinition, Meta(description="What it gives back.")]
    auth: Annotated[AuthConfig, Meta(description="How callers authenticate.")]
    access: Annotated[Access, Meta(description="Who may see and invoke it.")]
    tags: Annotated[list[str], Meta(description="Search words.")] | UnsetType = UNSET
    documentation_url: Annotated[str, Meta(description="URL of its documentation.")] | UnsetType = UNSET
    created_at: Annotated[str, Meta(description="When it was made, as ISO 8601.")] | UnsetType = UNSET
    updated_at: Annotated[str, Meta(description="When it was last changed, as ISO 8601.")] | UnsetType = UNSET


class SkillIndexEntry(_Message, frozen=True, kw_only=True):
    """One skill of an index. Spec: SSP §4.3.3."""

    id: Annotated[str, Meta(description="Identifier of the skill, unique in the index.")]
    name: Annotated[str, Meta(description="Name for people.")]
    capability_type: Annotated[CapabilityType, Meta(description="What kind of capability it is.")]
    description: Annotated[str, Meta(description="What the skill does, in brief.")]
    descriptor_url: Annotated[str, Meta(description="URL of its descriptor.")]
    access: Annotated[Access, Meta(description="Who may see and invoke it.")]
    version: Annotated[str, Meta(pattern=SEMVER_PATTERN, description="Version of the skill, as SemVer.")]


class SkillIndex(_Message, frozen=True, kw_only=True):
    """The skills of a domain. Spec: SSP §4.3.2."""

    protocol: Annotated[ProtocolVersion, Meta(description="The protocol that this index conforms to.")]
    provider: Annotated[IndexProvider, Meta(description="Who publishes the skills.")]
    skills: Annotated[list[SkillIndexEntry], Meta(description="The skills, each id once.")]


class StatedDescriptor(SkillDescriptor, frozen=True, kw_only=True):
    """A descriptor with the digest of the skill's artifact **[extension]**, which the schema does not have."""

    digest: str | UnsetType = UNSET


class StatedEntry(SkillIndexEntry, frozen=True, kw_only=True):
    """An entry of an index with the digest of the skill's artifact **[extension]**, which the schema does not have."""

    digest: str | UnsetType = UNSET


class Caller(_Message, frozen=True, kw_only=True):
    """The caller of a skill. Spec: SSP §5.3."""

    id: Annotated[str, Meta(description="Identifier of the caller.")]
    type: Annotated[str, Meta(description="Kind of caller, such as ifay, service or user.")]
    credentials: Annotated[dict[str, Any], Meta(description="Credentials of the caller.")] | UnsetType = UNSET


class InvocationContext(_Message, frozen=True, kw_only=True):
    """Circumstances of an invocation. Spec: SSP §5.3."""

    trace_id: Annotated[str, Meta(description="Identifier for tracing across systems.")] | UnsetType = UNSET
    priority: Annotated[Priority, Meta(description="How urgent it is.")] | UnsetType = UNSET
    timeout_ms: Annotated[Number, Meta(description="How long the caller waits, in milliseconds.")] | UnsetType = UNSET


class InvocationRequest(_Message, frozen=True, kw_only=True):
    """What a caller sends to invoke a skill. Spec: SSP §5.3."""

    caller: Annotated[Caller, Meta(description="Who invokes.")]
    skill_id: Annotated[str, Meta(description="Which skill is invoked.")]
    inputs: Annotated[dict[str, Any], Meta(description="Inputs by name.")]
    context: Annotated[InvocationContext, Meta(description="Circumstances.")] | UnsetType = UNSET


class RetryAdvice(_Message, frozen=True, kw_only=True):
    """Whether it helps to try again. Spec: SSP §8.2."""

    suggested_delay_ms: Annotated[Number, Meta(description="Pause before the next attempt, in milliseconds.")]
    max_attempts: Annotated[Number, Meta(description="How many attempts may be made.")]


class ErrorBody(_Message, frozen=True, kw_only=True):
    """What went wrong. Spec: SSP §5.4, §8.2."""

    code: Annotated[str, Meta(description="Code of the error.")]
    message: Annotated[str, Meta(description="What happened, for people.")]
    details: Annotated[Any, Meta(description="More about this case.")] = UNSET
    retry: Annotated[RetryAdvice, Meta(description="Whether it helps to try again.")] | UnsetType = UNSET


_Failure = Annotated[ErrorBody, Meta(description="What went wrong, when status is failed or timeout.")]


class Timestamps(_Message, frozen=True, kw_only=True):
    """When things happened, as ISO 8601. Spec: SSP §5.4."""

    created_at: Annotated[str, Meta(description="When the execution was made.")]
    updated_at: Annotated[str, Meta(description="When it last changed.")]
    completed_at: Annotated[str, Meta(description="When it ended.")] | UnsetType = UNSET


class InvocationResponse(_Message, frozen=True, kw_only=True):
    """How far an execution is, and what came of it. Spec: SSP §5.4."""

    execution_id: Annotated[str, Meta(description="Identifier of the execution.")]
    status: Annotated[ExecutionStatus, Meta(description="How far it is.")]
    skill_id: Annotated[str, Meta(description="Which skill is executed.")]
    output: Annotated[Any, Meta(description="What the skill gave back, when status is completed.")] = UNSET
    error: _Failure | UnsetType = UNSET
    timestamps: Annotated[Timestamps, Meta(description="When things happened.")]


#: The definitions of the schema, in the text's order; whatever else appears in them is written in place. SSP §9.1.
DEFINITIONS: Final[dict[str, type]] = {
    "SkillDescriptor": SkillDescriptor,
    "SkillIndex": SkillIndex,
    "SkillIndexEntry": SkillIndexEntry,
    "InvocationRequest": InvocationRequest,
    "InvocationResponse": InvocationResponse,
    "ProtocolVersion": ProtocolVersion,
    "CapabilityType": CapabilityType,
    "AccessPolicy": Access,
    "AuthType": AuthType,
    "ExecutionStatus": ExecutionStatus,
    "ParameterDefinition": ParameterDefinition,
    "AuthConfig": AuthConfig,
    "InvocationEndpoint": InvocationEndpoint,
    "OutputDefinition": OutputDefinition,
}


class Condition(NamedTuple):
    """If ``field`` is ``value``, the field ``demanded`` is required."""

    field: str
    value: str
    demanded: str


#: Definition → its conditions. Spec: SSP §3.5.5.
CONDITIONS: Final[dict[str, tuple[Condition, ...]]] = {
    "AuthConfig": (Condition("type", "oauth2", "oauth2"), Condition("type", "custom", "custom")),
}
