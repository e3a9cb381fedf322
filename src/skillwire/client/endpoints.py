"""What a client asks of the skills of endpoints: every use case as a flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from skillwire.client import endpoint_calls
from skillwire.errors import NotFoundError, Place
from skillwire.resolver.endpoint import describe
from skillwire.resolver.endpoint_files import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.client.call_values import CallArguments, PreparedCall
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.protocols.skills_rpc.messages import DescribedSkill
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import LocatedSkill, Session


class Endpoints(NamedTuple):
    """Asks, with the session of one client."""

    session: Session

    def described(self, skill: LocatedSkill) -> Flow[DescribedSkill]:
        """Return the manifest and the frontmatter of a skill of an endpoint.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND`` for a skill of another protocol.
        """
        if skill.ref.rpc is None:
            message = f"{skill.ref.name} was not found at an endpoint of the Skills Protocol"
            fix = "Its descriptor says how it is called, its files what it does."
            raise NotFoundError("SKILL_NOT_FOUND", message, place=Place(skill.ref.origin), fix=fix)
        return (yield from describe(skill, self.session))

    def file(self, skill: LocatedSkill, path: str) -> Flow[bytes]:
        """Return one file of a skill of an endpoint, which is the only one that is fetched."""
        return read_file(skill, path, self.session)

    def call(self, skill: LocatedSkill, inputs: Mapping[str, Any], arguments: CallArguments) -> Flow[RemoteExecution]:
        """Call a skill of an endpoint; return its run as an execution."""
        return endpoint_calls.call(skill, inputs, self.session, arguments)

    def prepare(self, skill: LocatedSkill, inputs: Mapping[str, Any], arguments: CallArguments) -> Flow[PreparedCall]:
        """Check a call of a skill of an endpoint, and return the request that would be sent."""
        return endpoint_calls.prepare(skill, inputs, self.session, arguments)
