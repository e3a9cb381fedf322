"""Runs: what is executed by name, for whom, with which blobs; and what becomes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.executions import claim_of
from tests.support.invoking import write_action
from tests.support.publishing import write_skill

from skillwire.executions.accept import ExecutionSettings, RunSettings
from skillwire.model.execution import ExecutionQuery
from skillwire.protocols.skills_rpc.messages import CreateBlob, ExecuteSkill, RunCode
from skillwire.protocols.skills_rpc.server import SkillIndex, SkillsRpc
from skillwire.server.configuration import ServerConfiguration

if TYPE_CHECKING:
    from skillwire.server.runs import Runs
ANNA, BERT = "principal anna", "principal bert"


ON = RunSettings(execute_skill=True, run_code=True, blob_bytes=50_000, blobs_per_owner=400_000)


CODE = "def main(args):\n    return args\n"


class Site:
    """A server's runs, and everybody's audience."""

    def __init__(self, caller):
        self.application = caller.application
        self.runs: Runs = self.application.services.executions.runs
        self.desk = self.application.services.executions.desk

    @property
    def audience(self):
        return self.application.catalog.current.public_view

    @property
    def skills(self):
        index = SkillIndex(self.audience.visible.skills)
        return SkillsRpc(index, self.audience.usable.skills, self.application.catalog.blobs.read)

    async def execute(self, name, args=None, owner=ANNA, **more):
        return await self.runs.execute_skill(owner, self.skills, ExecuteSkill(name=name, args=args or {}, **more))

    async def code(self, code=CODE, args=None, owner=ANNA, **more):
        return await self.runs.run_code(owner, self.skills, RunCode(code=code, args=args or {}, **more))

    async def blob(self, content="hello", kind="text/plain", owner=ANNA, **more):
        return (await self.runs.blobs.create(owner, CreateBlob(content=content, kind=kind, **more))).blob_id


@pytest.fixture
async def site(tmp_path, serving):
    write_action(tmp_path / "skills", "leads-sync", tables='[inputs.sheet]\ntype = "blob"\ndescription = "A sheet."')
    write_skill(tmp_path / "skills", "read-me")

    async def serve(runs=ON, settings=None):
        return Site(await serving(settings, ServerConfiguration(runs=runs)))

    return serve


async def test_a_person_does_what_a_person_does_within_the_time_of_a_run(tmp_path, site):
    folder = write_action(tmp_path / "skills", "approve")
    (folder / "skill.toml").write_text('kind = "action"\n[executor]\nkind = "human"\n')
    site = await site(settings=ExecutionSettings(longest=100.0))
    waiting = asyncio.create_task(site.execute("acme.approve"))
    async with asyncio.timeout(5):
        while not (found := await asyncio.to_thread(site.desk.ledger.waiting)):  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.01)
    assert found == {ANNA: 1}
    (task,) = (await site.desk.search(ExecutionQuery())).executions
    assert task.timeout == 100.0
    held = await site.desk.take_task(task.execution_id, "ann")
    await site.desk.complete_task(claim_of(held), {"ok": True})
    assert (await waiting).output == {"ok": True}
