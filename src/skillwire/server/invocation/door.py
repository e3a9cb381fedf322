"""The doors of executions: ours, and those that publishers' own descriptors name.

A call may say who calls in its body, so the body is read before its sender is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.server.invocation.service import Call

if TYPE_CHECKING:
    from skillwire.server.invocation.endpoints import Meant
    from skillwire.server.invocation.service import Executions
    from skillwire.server.metrics import Route
    from skillwire.server.visit import Visit


class ExecutionsDoor:
    """Answers calls of skills, and questions about executions.

    Args:
        executions: answers them.
    """

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    async def usual(self, visit: Visit) -> Route | None:
        """Answer at the paths that are ours."""
        meant = self._executions.meaning(visit.path)
        return None if meant is None else await self._answer(meant, visit)

    async def described(self, visit: Visit) -> Route | None:
        """Answer at the paths that descriptors name."""
        revision = await visit.find_revision()
        meant = await self._executions.described(visit.path, visit.scope, revision) if revision else None
        return None if meant is None else await self._answer(meant, visit)

    async def _answer(self, meant: Meant, visit: Visit) -> Route:
        async with self._executions.bodies.reading(visit.scope, visit.receive) as body:
            shown = self._executions.identified(visit.scope, body.data)
            asker = await visit.identify(body.data, scope=shown)
            audience, revision = await visit.audience(), await visit.revision()
            call = Call(asker, audience, revision.number, body)
            await self._executions.answer(meant, call, visit.scope, visit.receive, visit.send)
        return "execution"
