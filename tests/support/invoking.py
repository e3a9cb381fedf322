"""Skills that can be called, what runs them in tests, and a client that calls them over ASGI."""

import asyncio
import json
from typing import Any

from tests.support.eventually import PATIENCE
from tests.support.publishing import Asgi, write_skill

from skillwire.model.execution import Failure, Outcome

ACTION = """\
kind = "action"
{more}
[runtime]
language = "python"
entrypoint = "main.py"
export = "main"
{tables}
"""


def look_descriptor(base, method, inputs=()):
    """Return a descriptor that names a path and a method of its publisher's."""
    return {
        "protocol": {"version": "1.0.0"},
        "id": "acme/look",
        "name": "Look",
        "version": "1.0.0",
        "capability_type": "api",
        "description": "Does something useful.",
        "provider": {"name": "Acme"},
        "endpoint": {"url": f"{base}/look", "method": method},
        "inputs": list(inputs),
        "output": {"content_type": "application/json"},
        "auth": {"type": "none"},
        "access": "public",
    }


def write_action(parent, name, *, more="", tables="", files=None, **options):
    """Write an action of this name; ``more`` goes into the first lines of its ``skill.toml``, ``tables`` behind."""
    toml = ACTION.format(more=more, tables=tables)
    return write_skill(
        parent, name, {"main.py": "def main(args):\n    return args\n", "skill.toml": toml, **(files or {})}, **options
    )


class Scripted:
    """An executor that does what a test says: ``script`` gets each attempt and returns an outcome, or awaits first."""

    def __init__(self, script=lambda attempt: Outcome(dict(attempt.inputs))):
        self.script = script
        self.attempts = []
        self.cancelled = asyncio.Event()
        self._began = asyncio.Event()

    async def began(self, seconds=PATIENCE):
        """Return when the first attempt has begun."""
        async with asyncio.timeout(seconds):
            await self._began.wait()

    async def execute(self, attempt):
        self.attempts.append(attempt)
        self._began.set()
        try:
            outcome = self.script(attempt)
            return await outcome if asyncio.iscoroutine(outcome) else outcome
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def failing(reason="exception", message="it broke", **more):
    return Outcome(failure=Failure(reason, message, **more))


class Caller(Asgi):
    """Calls skills over ASGI."""

    async def invoke(self, name, inputs=None, fields=None, *, context=None, publisher="acme", path=None, **more):
        request: dict[str, Any] = {
            "caller": {"id": "ifay-instance-042", "type": "ifay", **more},
            "skill_id": f"{publisher}/{name}",
            "inputs": inputs or {},
        }
        if context is not None:
            request["context"] = context
        return await self.post(path or f"/skills/{name}/executions", request, fields)

    async def post(self, path, document, fields=None, method="POST"):
        own = {"Content-Type": "application/json", "Host": "skills.example.com", **(fields or {})}
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return await self.request(path, own, method=method, body=body)

    async def ended(self, answer, seconds=PATIENCE, *, fields=None):
        """Follow an execution to its end; return the last answer."""
        path = f"/executions/{answer.json()['execution_id']}"
        async with asyncio.timeout(seconds):
            while True:
                last = await self.request(path, {"Prefer": "wait=5", **(fields or {})})
                if last.json()["status"] not in {"accepted", "running"}:
                    return last
