"""What a client asks of the skills of endpoints: every use case as a flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from skillwire.client import endpoint_calls
from skillwire.errors import NotFoundError, SourceLocation
from skillwire.resolver.sources.skills_rpc import describe, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.client.call_values import CallArguments, PreparedCall
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.ref import SkillRef
    from skillwire.protocols.skills_rpc.messages import DescribedSkill
    from skillwire.resolver.context import ResolveContext
    from skillwire.wire.exchange import Flow


class Endpoints(NamedTuple):
    """Asks, with the context of one client."""

    context: ResolveContext

    def described(self, skill: SkillRef) -> Flow[DescribedSkill]:
        """Return the manifest and the frontmatter of a skill of an endpoint.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND`` for a skill of another protocol.
        """
        if skill.rpc is None:
            message = f"{skill.name} was not found at an endpoint of the Skills Protocol"
            fix = "Its descriptor says how it is called, its files what it does."
            raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(skill.origin), fix=fix)
        return (yield from describe(skill, self.context))

    def file(self, skill: SkillRef, path: str) -> Flow[bytes]:
        """Return one file of a skill of an endpoint, which is the only one that is fetched."""
        return read_file(skill, path, self.context)

    def call(self, skill: SkillRef, inputs: Mapping[str, Any], arguments: CallArguments) -> Flow[RemoteExecution]:
        """Call a skill of an endpoint; return its run as an execution."""
        return endpoint_calls.call(skill, inputs, self.context, arguments)

    def prepare(self, skill: SkillRef, inputs: Mapping[str, Any], arguments: CallArguments) -> Flow[PreparedCall]:
        """Check a call of a skill of an endpoint, and return the request that would be sent."""
        return endpoint_calls.prepare(skill, inputs, self.context, arguments)
