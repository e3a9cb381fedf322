"""An application that publishes skills, open ones and others, and a client that speaks JSON-RPC with it."""

import asyncio
import json

import pytest
from tests.support.eventually import PATIENCE
from tests.support.invoking import write_action
from tests.support.opened import open_tokens
from tests.support.publishing import write_skill

from skillwire.model.execution import RunSettings
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.rpc_methods import RpcCaller, RpcDispatcher, SkillListCache
from skillwire.server.stdio import StdioSession

JSON = {"Content-Type": "application/json", "Host": "skills.example.com"}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "open-notes", {"table.bin": bytes(range(256)), "large.txt": "x" * 50_000})
    write_skill(folder, "hidden-notes", {"skill.toml": 'access = "private"\n'})
    write_skill(folder, "known-notes", {"skill.toml": 'access = "restricted"\n', "more.md": "# More\n"})
    write_action(folder, "count-words", tables='[inputs.n]\ntype = "integer"\n')
    write_action(folder, "hidden-action", more='access = "private"\n')
    return folder


class Rpc:
    """Speaks JSON-RPC with an application."""

    def __init__(self, caller):
        self.caller = caller

    async def send(self, document, fields=None):
        """Return the HTTP answer to ``document``."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return await self.caller.request("/rpc", {**JSON, **(fields or {})}, method="POST", body=body)

    async def answer(self, method, params=None, fields=None):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        answer = await self.send(request, fields)
        assert answer.status == 200, answer.body
        document = answer.json()
        assert (document["jsonrpc"], document["id"]) == ("2.0", 1)
        return document

    async def call(self, method, params=None, fields=None):
        return (await self.answer(method, params, fields))["result"]

    async def error(self, method, params=None, fields=None):
        return (await self.answer(method, params, fields))["error"]


@pytest.fixture
def speaking(serving, folder):  # noqa: ARG001  # the folder is what is served
    """Return what serves the folder to a client of JSON-RPC; keywords are settings of ``[rpc]``."""

    async def speak(configuration=None, settings=None, **runs):
        configuration = configuration or ServerConfiguration(runs=RunSettings(**runs))
        return Rpc(await serving(settings, configuration, access_log=False))

    return speak


@pytest.fixture
async def rpc(speaking):
    return await speaking(execute_skill=True, run_code=True)


@pytest.fixture
def key(home):  # noqa: ARG001  # tokens are made in the home of the test
    """Return the header fields of somebody to whom every skill was opened."""
    return {"X-API-Key": open_tokens().issue("ci", skills=["*"]).secret}


@pytest.fixture
async def talk(rpc):
    """Return what sends lines to a session on standard input and output, and returns what it answers."""
    application = rpc.caller.application
    revision, skills = application.catalog.current, SkillListCache(application.catalog.blobs)
    answering = RpcDispatcher(application.services.executions.runs)

    async def caller():
        return RpcCaller("principal local", await skills.of(revision.public_view, revision))

    async def talk(*lines, on_answer=lambda: None):
        told = []

        async def coming():
            for line in lines:
                yield line

        async def write(data):
            assert data.endswith(b"\n")
            assert data.count(b"\n") == 1
            told.append(json.loads(data))
            on_answer()

        async with asyncio.timeout(PATIENCE):
            await StdioSession(answering, caller, write).run(coming())
        return told

    return talk
