"""A server in small: runs a hostile skill with the Python executor, once for each line of JSON on standard input.

Started by :mod:`tests.support.sandbox_world` as root or as somebody else, with a folder of its own as its argument.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import structlog

from skillwire.adapters.executors.python import PythonExecutor
from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.adapters.stores import open_stores
from skillwire.errors import SkillwireError
from skillwire.model.digest import Digest
from skillwire.model.execution import Attachments, Attempt, Execution, RunSettings
from skillwire.model.skill import Action, Artifact, Permissions, Skill, SkillFile
from skillwire.trust.address import AddressPolicy

#: What is in the blob that a hostile skill is given.
GIVEN = b"given"


def make_skill(blobs, files, action):
    rows = tuple(SkillFile(path, len(content), blobs.put(content)) for path, content in files.items())
    digest = Digest.of(b"\0".join(path.encode() + b"\0" + content for path, content in files.items()))
    artifact = Artifact("archive", "application/gzip", ".tar.gz", 1, digest)
    return Skill("tests", "hostile", "1.0.0", "A skill.", rows, artifact, kind="action", action=action)


def make_attempt(skill, inputs, seconds):
    execution = Execution(
        execution_id="exec-" + "0" * 32,
        skill=skill.name,
        skill_id="tests/hostile",
        version=skill.version,
        digest=skill.artifact.digest,
        executor="python",
        caller="somebody",
        caller_id="somebody",
        caller_type="user",
        inputs=b"{}",
        created=0.0,
        updated=0.0,
        deadline=0.0,
        timeout=0.0,
        turn=0.0,
        trace_id="trace-1",
        attempt=1,
        worker="w",
    )
    return Attempt(execution, skill, inputs, seconds)


async def serve(folder):
    blobs = FileBlobs(folder / "state" / "blobs")
    run_blobs = open_stores().run_blobs(RunSettings())
    await _keep(run_blobs, "somebody else", os.environ["SERVER_TOKEN"].encode())
    given = await _keep(run_blobs, "somebody", GIVEN)
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    os.set_inheritable(os.open(folder / "home" / "canary.txt", os.O_RDONLY), True)  # a server that is careless
    os.set_inheritable(os.open("/", os.O_RDONLY), True)
    while line := await reader.readline():
        answer = await run(json.loads(line), blobs, run_blobs, given)
        path = await run_blobs.file_of(given)
        assert path is not None
        assert await asyncio.to_thread(path.read_bytes) == GIVEN
        os.write(1, json.dumps(answer).encode() + b"\n")


async def _keep(run_blobs, owner, content):
    async def whole():
        yield content

    (blob,) = await run_blobs.store(owner, [(whole(), "text/plain")], time.time())
    return blob.digest


async def run(order, blobs, run_blobs, given):
    """Run one skill, which is given a blob and sees itself as a skill beside it."""
    executor = PythonExecutor(
        blobs,
        secrets=Secrets(os.environ),
        policy=AddressPolicy(allow=tuple(order.get("allow", ()))),
        bounds=lambda seconds: ResourceLimits(seconds, **order.get("bounds", {})),
        resolve=resolver({name: list(answers) for name, answers in order.get("resolve", {}).items()}),
        run_blobs=run_blobs,
    )
    action = Action(
        "python",
        "main.py",
        order["export"],
        Permissions(tuple(order.get("network", ())), tuple(order.get("secrets", ()))),
    )
    files = {name: await asyncio.to_thread(Path(path).read_bytes) for name, path in order["files"].items()}
    attempt = make_attempt(make_skill(blobs, files, action), order.get("inputs", {}), order.get("seconds", 40.0))
    attachments = Attachments((str(given),), (("tests.hostile", str(attempt.skill.artifact.digest)),))
    execution = replace(attempt.execution, attachments=attachments)
    attempt = attempt._replace(execution=execution, mounts={"tests.hostile": attempt.skill})
    try:
        task = asyncio.ensure_future(executor.execute(attempt))
        if "cancel" in order:
            asyncio.get_running_loop().call_later(order["cancel"], task.cancel)
        outcome = await task
    except asyncio.CancelledError:
        return {"cancelled": True}
    except SkillwireError as error:
        return {"error": str(error)}
    failure = (
        None if outcome.failure is None else {**outcome.failure._asdict(), "details": dict(outcome.failure.details)}
    )
    left = {}
    for one in outcome.blobs:
        path = await run_blobs.file_of(Digest(one.digest))
        left[one.name] = await asyncio.to_thread(path.read_text, "latin-1")
    return {"output": outcome.output, "failure": failure, "log": outcome.log, "left": left}


def resolver(answers):
    """Return a resolver that gives each answer of a name once, and then the last one for ever."""

    def resolve(host):
        rows = answers[host]
        return rows.pop(0) if len(rows) > 1 else rows[0]

    return resolve


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(serve(Path(sys.argv[1])))
