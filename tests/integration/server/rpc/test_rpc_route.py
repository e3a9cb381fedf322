"""``POST /rpc``: JSON-RPC over HTTP, what is answered before it, and what strangers may not learn or take."""

import asyncio
import threading

import pytest
from tests.support.eventually import PATIENCE
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.model.execution import Outcome
from skillwire.protocols.skills_rpc.server import SkillIndex
from skillwire.server import rpc_methods as rpc_skills

NAMES = ["acme.count.words", "acme.open.notes"]


def request(method, params=None, **more):
    return {"jsonrpc": "2.0", "method": method, "params": params or {}, **more}


class TestAccess:
    async def test_the_list_of_a_new_revision_is_written_beside_the_loop(self, rpc, folder, monkeypatch):
        written = []

        def make(skills, within=None):
            written.append(threading.current_thread() if within is None else None)
            return SkillIndex(skills, within)

        monkeypatch.setattr(rpc_skills, "SkillIndex", make)
        await rpc.call("list_skills")
        publication = rpc.caller.application.catalog
        before = publication.current
        write_skill(folder, "new-notes")
        await publication.follow(PATIENCE)
        assert publication.current is not before
        listed = await rpc.call("list_skills")
        assert "acme.new.notes" in {skill["name"] for skill in listed["skills"]}
        threads = [thread for thread in written if thread is not None]
        assert threads
        assert threading.main_thread() not in threads


class TestExecutions:
    @pytest.mark.spec("SKP-http-bounds")
    async def test_of_a_batch_a_few_are_executed_at_a_time(self, rpc, executor):
        running, most = 0, 0

        async def run(attempt):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return Outcome(dict(attempt.inputs))

        executor.script = run
        batch = [
            request("execute_skill", {"name": NAMES[0], "args": {"n": number}}, id=number)
            for number in range(limits.RPC_BATCH)
        ]
        answers = (await rpc.send(batch)).json()
        assert [answer["result"]["output"]["n"] for answer in answers] == list(range(limits.RPC_BATCH))
        assert most <= limits.RPC_BATCH_AT_ONCE
        refused = await rpc.send([*batch, *batch])
        assert refused.json()["error"]["code"] == -32600
        assert len(executor.attempts) == limits.RPC_BATCH
