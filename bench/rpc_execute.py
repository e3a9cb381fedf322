"""The cost of ``execute_skill`` beside the sandbox: ``python bench/rpc_execute.py [ROUNDS]``.

Ours is the whole call, as in every protocol: the skill is found by its dotted name, its inputs are checked, the
execution is written to the ledger, claimed, run and completed, and the caller gets the result. Beside it, in turns, the
same script runs directly in the same sandbox, without ledger and server. The difference is the overhead. Server and
caller are one process, the disk is that of the folder for temporary files, and each commit waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
import uvloop

from comparison import Goal, compare
from skillwire.adapters.sandbox import Job, Sandbox
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.model.execution import ExecutionSettings, RunSettings
from skillwire.protocols.skills_rpc.messages import ExecuteSkill, RunCode
from skillwire.protocols.skills_rpc.server import SkillIndex, SkillsRpc
from skillwire.server import create_app
from skillwire.server.configuration import ServerConfiguration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillwire.protocols.skills_rpc.messages import RunResult
    from skillwire.server.runs import Runs

ROUNDS: Final = 101
OVERHEAD_MS: Final = 15.0
NAME: Final = "local.leads.sync"
OWNER: Final = "principal bench"
ARGS: Final = {"rows": list(range(200))}
CODE: Final = "def main(args):\n    return {'rows': len(args['rows']), 'sum': sum(args['rows'])}\n"
SKILL_TOML: Final = """\
kind = "action"
[runtime]
language = "python"
entrypoint = "main.py"
export = "main"
[inputs.rows]
type = "array"
description = "Numbers."
"""
SKILL_MD: Final = (
    "---\nname: leads-sync\ndescription: Adds numbers up.\nmetadata:\n  version: 1.0.0\n---\n# Leads sync\n"
)


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory() as name, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        folder = Path(name)
        folder.chmod(0o755)  # the skill runs as another user when this is root
        os.environ["SKILLWIRE_HOME"] = str(folder / "home")
        skill = folder / "skills" / "leads-sync"
        skill.mkdir(parents=True)
        for file, text in {"SKILL.md": SKILL_MD, "skill.toml": SKILL_TOML, "main.py": CODE}.items():
            (skill / file).write_text(text, encoding="utf-8")
        runner.run(measure(skill, rounds))


async def measure(skill: Path, rounds: int) -> None:
    """Take turns."""
    configuration = ServerConfiguration(
        executions=ExecutionSettings(grant_all=True), runs=RunSettings(execute_skill=True, run_code=True)
    )
    application = create_app([skill.parent], configuration=configuration, access_log=False)
    await application.startup()
    revision = await application.catalog.first(20)
    assert revision is not None
    runs = application.services.executions.runs  # what /rpc answers with
    skills = SkillsRpc(
        SkillIndex(revision.public_view.visible.skills),
        revision.public_view.usable.skills,
        application.catalog.blobs.read,
    )
    sandbox, job = Sandbox(), Job(skill, "main.py", "main", ARGS, {}, ResourceLimits(30))
    expected = {"rows": len(ARGS["rows"]), "sum": sum(ARGS["rows"])}

    async def by_hand() -> None:
        ending = await sandbox.run(job)
        assert b'"output"' in ending.report

    async def executed() -> None:
        assert (await execute(runs, skills)).output == expected

    async def code() -> None:
        params = RunCode(code=CODE, args=ARGS)
        assert (await runs.run_code(OWNER, skills, params)).output == expected

    try:
        sides = (by_hand, executed, code)
        for side in sides:
            await side()
        times = [[await timed(side) for side in sides] for _ in range(rounds)]
    finally:
        await application.shutdown()
    hand = statistics.median(row[0] for row in times)
    for number, what in ((1, "execute_skill"), (2, "run_code")):
        overhead = [row[number] - hand for row in times]  # beside the median: one of two starts is the slower one
        peer = f"the goal, over {hand:.0f} ms for the same by hand"
        compare(f"overhead of {what}", overhead, [OVERHEAD_MS] * rounds, Goal("at most", 1), peer=peer)


async def execute(runs: Runs, skills: SkillsRpc) -> RunResult:
    """Execute the skill once."""
    return await runs.execute_skill(OWNER, skills, ExecuteSkill(name=NAME, args=ARGS))


async def timed(side: Callable[[], Awaitable[object]]) -> float:
    """Return how many milliseconds ``side`` takes."""
    began = time.perf_counter()
    await side()
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()
