"""What a server answers for Skill Sharing: the index of a catalog and its descriptors.

A :class:`Sharing` is made from skills already reduced to what the caller may see, for one address, because indexes and
descriptors contain full URLs::

    /.well-known/skill-sharing[?type=TYPE]      the index
    /skills[?type=TYPE]                         the same entries as a registry's list
    /skills/NAME.json                           one descriptor

A folder's ``descriptor.json`` is served unchanged. Otherwise a descriptor is made: an instruction is *knowledge* with
its artifact's digest URL as endpoint; an action is invoked here. Made descriptors of public skills, and
their entries, state the artifact's digest **[extension]**; a folder's own descriptor cannot, since the artifact
contains it. Spec: SSP §3, §4; specs §0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from skillwire.errors import NotFoundError, UsageError
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.skill import SharedInput, Skill
from skillwire.model.skill import Sharing as SharingFacts
from skillwire.protocols.skill_sharing import EXECUTIONS, REGISTRY, descriptor_path
from skillwire.protocols.skill_sharing.codec import EXECUTION_PLACEHOLDER, decode_descriptor
from skillwire.protocols.skill_sharing.messages import (
    PROTOCOL_VERSION,
    AuthConfig,
    AuthType,
    CapabilityType,
    IndexProvider,
    InvocationEndpoint,
    OutputDefinition,
    ParameterDefinition,
    ProtocolVersion,
    Provider,
    SkillDescriptor,
    SkillIndex,
    SkillIndexEntry,
    StatedDescriptor,
    StatedEntry,
)

_ARTIFACTS: Final = "/.well-known/agent-skills/sha256"
_PROTOCOL: Final = ProtocolVersion(version=PROTOCOL_VERSION)
_NO_AUTH: Final = AuthConfig(type=AuthType.NONE)


#: A descriptor: the generated message, or the digest of the publisher's own, whose bytes are served.
Described = SkillDescriptor | Digest


class Sharing:
    """The descriptors of the skills that a caller may see.

    ``base_url`` is the server's address for the caller, without a final slash; ``auth`` is for skills that are not
    public.
    """

    def __init__(self, skills: Mapping[str, Skill], provider: str, base_url: str, auth: AuthConfig = _NO_AUTH) -> None:
        self._skills = skills
        self._provider = provider
        self.base_url = base_url
        self._auth = auth

    def index(self, capability_type: str | None = None) -> bytes:
        """Return the index, of one capability type or of all. Raises UsageError. Spec: SSP §4.3, §4.5."""
        provider = IndexProvider(name=self._provider, url=self.base_url or UNSET)
        entries = list(self._entries(check_type(capability_type)))
        return msgspec.json.encode(SkillIndex(protocol=_PROTOCOL, provider=provider, skills=entries))

    def listing(self, capability_type: str | None = None) -> bytes:
        """Return the entries alone, as a registry answers. Spec: SSP §4.2; specs §2."""
        return msgspec.json.encode(list(self._entries(check_type(capability_type))))

    def describe(self, name: str) -> Described:
        """Return the descriptor of a skill. Raises NotFoundError (``SKILL_NOT_FOUND``), also for a hidden skill."""
        skill = self._skills.get(name)
        if skill is None or skill.sharing is None:
            raise not_found(name)
        facts = skill.sharing
        if facts.descriptor is not None:
            return facts.descriptor
        auth = _NO_AUTH if skill.access is Access.PUBLIC else self._auth
        if facts.auth is not None:
            auth = msgspec.convert(dict(facts.auth), AuthConfig)
        endpoint = dict(facts.endpoint or {})
        if isinstance(retry := endpoint.get("retry"), dict):
            endpoint["retry"] = {"max_attempts": 0, "backoff_ms": 0, **retry}
        return StatedDescriptor(
            protocol=_PROTOCOL,
            id=sharing_id(skill),
            name=facts.name,
            version=facts.version,
            capability_type=CapabilityType(facts.capability_type),
            description=facts.description,
            provider=Provider(name=skill.publisher, url=self.base_url or UNSET),
            endpoint=msgspec.convert({**self._endpoint(skill), **endpoint}, InvocationEndpoint),
            inputs=[] if skill.kind != "action" else [_parameter(one) for one in facts.inputs],
            output=_output(skill, facts),
            auth=auth,
            access=skill.access,
            tags=list(facts.tags) or UNSET,
            digest=_digest_of(skill),
        )

    def _entries(self, capability_type: str | None) -> Iterable[SkillIndexEntry]:
        for skill in self._skills.values():
            facts = skill.sharing
            if facts is None or (capability_type is not None and facts.capability_type != capability_type):
                continue
            yield StatedEntry(
                id=sharing_id(skill),
                name=facts.name,
                capability_type=CapabilityType(facts.capability_type),
                description=facts.description,
                descriptor_url=f"{self.base_url}{descriptor_path(skill.name)}",
                access=skill.access,
                version=facts.version,
                digest=_digest_of(skill),
            )

    def _endpoint(self, skill: Skill) -> dict[str, Any]:
        if skill.kind != "action":
            artifact = skill.artifact
            return {"url": f"{self.base_url}{_ARTIFACTS}/{artifact.digest.hex}{artifact.extension}", "method": "GET"}
        status = f"{self.base_url}{EXECUTIONS}/{EXECUTION_PLACEHOLDER}"
        return {
            "url": f"{self.base_url}{REGISTRY}/{skill.name}{EXECUTIONS}",
            "method": "POST",
            "content_type": "application/json",
            "status_url": status,
            "result_url": f"{status}/result",
        }


def _digest_of(skill: Skill) -> str | UnsetType:
    """Return the digest to state: of public skills, since others are listed for strangers, without own descriptors."""
    has_own = skill.sharing is not None and skill.sharing.descriptor is not None
    return str(skill.artifact.digest) if skill.access is Access.PUBLIC and not has_own else UNSET


def _output(skill: Skill, facts: SharingFacts) -> OutputDefinition:
    if facts.output is not None:
        return msgspec.convert({"content_type": "application/json", **facts.output}, OutputDefinition)
    if skill.kind == "action":
        return OutputDefinition(content_type="application/json")
    is_file = skill.artifact.artifact_type == "skill-md"
    description = "The instructions: SKILL.md." if is_file else "The skill's files, packed."
    return OutputDefinition(content_type=skill.artifact.media_type, description=description)


def descriptor_of(skill: Skill, address: str, read: Callable[[Digest], bytes | None]) -> SkillDescriptor:
    """Return the descriptor of a skill at a site; ``read`` returns the bytes of its file."""
    described = Sharing({skill.name: skill}, skill.publisher, address).describe(skill.name)
    if not isinstance(described, Digest):
        return described
    return decode_descriptor(read(described) or b"", f"{address}{descriptor_path(skill.name)}", is_own=True)


def encode_descriptor(message: SkillDescriptor) -> bytes:
    """Return a descriptor as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(message), indent=2)


def not_found(name: str) -> NotFoundError:
    """Return the error about an absent or hidden skill. Spec: SSP §8.3.4."""
    return NotFoundError("SKILL_NOT_FOUND", f"Skill '{name}' was not found", details={"skill_id": name})


def check_type(capability_type: str | None) -> str | None:
    """Return ``capability_type`` if it is valid, or None for all. Raises UsageError (``CAPABILITY_TYPE``)."""
    if capability_type is None or capability_type in set(CapabilityType):
        return capability_type
    message = f"{ascii(capability_type)[:40]} is no capability type"
    details = {"expected": [*CapabilityType], "actual": capability_type[:40]}
    fix = f"Ask for one of {', '.join(CapabilityType)}, or for none."
    raise UsageError("CAPABILITY_TYPE", message, details=details, fix=fix)


def sharing_id(skill: Skill) -> str:
    """Return the id of a skill in Skill Sharing."""
    return skill.identifiers.skill_sharing if skill.identifiers else f"{skill.publisher}/{skill.name}"


def _parameter(one: SharedInput) -> ParameterDefinition:
    return ParameterDefinition(
        name=one.name,
        type=one.input_type,
        description=one.description,
        required=one.required,
        default=UNSET if one.default is None else one.default,
        schema=dict(one.schema) if one.schema else UNSET,
    )
