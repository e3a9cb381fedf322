"""Runs: what is executed by name, for whom, with which blobs; and what becomes of it."""

import asyncio
import base64

import pytest
import structlog
from msgspec.structs import astuple
from tests.support.invoking import Caller, failing, write_action
from tests.support.publishing import write_skill
from tests.support.rpc import ANNA, BERT, CODE, ON, Site, held_back

from skillwire import limits
from skillwire.errors import (
    ConflictError,
    DecodeError,
    NotFoundError,
    PendingError,
    SkillwireError,
    TrustError,
    ValidationError,
)
from skillwire.model.execution import ExecutionSettings, ExecutionStatus, Outcome, OutputBlob, RunSettings
from skillwire.protocols.skills_rpc.messages import CreateBlob, ReadBlob, RunLimits
from skillwire.protocols.skills_rpc.server import GUIDE
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.publisher import Publisher


@pytest.fixture
async def site(tmp_path, serving):
    write_action(tmp_path / "skills", "leads-sync", tables='[inputs.sheet]\ntype = "blob"\ndescription = "A sheet."')
    write_skill(tmp_path / "skills", "read-me")

    async def serve(runs=ON, settings=None):
        return Site(await serving(settings, ServerConfiguration(runs=runs)))

    return serve


async def test_a_skill_is_executed_by_its_dotted_name(site):
    site = await site()
    sheet = await site.blob()
    run = await site.execute("acme.leads.sync", {"sheet": sheet})
    assert run.status == "completed"
    assert run.output == {"sheet": sheet}
    assert run.summary.startswith("acme.leads.sync 1.0.0 completed in ")
    assert (run.error, run.output_blobs, run.logs_preview) == (None, (), "")
    execution = await site.desk.ledger.find(run.run_id)
    assert (execution.caller, execution.caller_id, execution.caller_type) == (ANNA, "anna", "agent")


async def test_both_are_off_until_the_operator_says_otherwise(site):
    off = await site(RunSettings())
    for call in (off.execute("acme.leads.sync"), off.code(), off.blob()):
        with pytest.raises(TrustError, match="PERMISSION_DENIED") as caught:
            await call
        assert "[rpc]" in (caught.value.fix or "")
    with pytest.raises(TrustError) as caught:
        await off.execute("acme.leads.sync")
    assert str(caught.value.fix).endswith(" Or call it without rpc: skillwire call HOST/leads-sync.")


async def test_each_is_on_by_itself(tmp_path, serving):
    write_action(tmp_path / "skills", "leads-sync")
    skills = Site(await serving(None, ServerConfiguration(runs=RunSettings(execute_skill=True))))
    assert (await skills.execute("acme.leads.sync")).status == "completed"
    assert await skills.blob()
    with pytest.raises(TrustError, match="PERMISSION_DENIED"):
        await skills.code()


async def test_the_operator_may_want_to_know_who_asks(site):
    site = await site(RunSettings(execute_skill="authenticated", run_code="authenticated"))
    assert (await site.execute("acme.leads.sync")).status == "completed"
    assert (await site.code()).status == "completed"
    assert await site.blob()
    stranger = "address 192.0.2.7"
    for call in (site.execute("acme.leads.sync", owner=stranger), site.code(owner=stranger), site.blob(owner=stranger)):
        with pytest.raises(TrustError, match="AUTH_REQUIRED"):
            await call


async def test_what_nobody_granted_is_refused_with_the_fix(site):
    site = await site(settings=ExecutionSettings())
    with pytest.raises(TrustError, match="PERMISSION_DENIED") as caught:
        await site.execute("acme.leads.sync")
    assert "skillwire grant" in (caught.value.fix or "")
    assert (await site.code()).status == "completed"  # which nobody could have granted


@pytest.mark.parametrize("version", ["latest", "1.0.0", None])
async def test_the_published_version_is_executed(site, version):
    assert (await (await site()).execute("acme.leads.sync", version=version)).status == "completed"


@pytest.mark.parametrize(
    ("name", "version", "error", "code"),
    [
        ("acme.leads", None, NotFoundError, "SKILL_NOT_FOUND"),
        ("leads-sync", None, NotFoundError, "SKILL_NOT_FOUND"),
        ("run_code", None, NotFoundError, "SKILL_NOT_FOUND"),
        ("", None, NotFoundError, "SKILL_NOT_FOUND"),
        ("acme.leads.sync", "2.0.0", NotFoundError, "SKILL_NOT_FOUND"),
        ("acme.read.me", None, ValidationError, "VALIDATION_ERROR"),
    ],
)
async def test_what_is_not_there_or_not_executed_is_refused(site, name, version, error, code):
    with pytest.raises(error, match=code):
        await (await site()).execute(name, version=version)


async def test_names_are_looked_up_as_whoever_describes_a_skill_is_told(site):
    site = await site()
    for call in (site.execute("leads-sync"), site.code(mount_skills=("leads-sync",))):
        with pytest.raises(NotFoundError) as caught:
            await call
        assert caught.value.fix == "Its name here is acme.leads.sync."
    with pytest.raises(NotFoundError) as caught:
        await site.execute("acme.leads.sync", version="2.0.0")
    assert caught.value.fix == "Version 1.0.0 is published; leave version out for the latest."
    with pytest.raises(ValidationError, match="instructions"):
        await site.execute(GUIDE)
    with pytest.raises(ValidationError) as refused:
        await site.code(mount_skills=(GUIDE,))
    assert "load_skills_protocol_guide" in (refused.value.fix or "")


@pytest.mark.parametrize("sheet", ["hello", "blob:zz", "blob:", f"blob:{'A' * 64}", "x" * 64, 7])
async def test_an_input_that_is_a_blob_takes_ids_of_blobs_alone(site, executor, sheet):
    site = await site()
    with pytest.raises(ValidationError, match="VALIDATION_ERROR") as caught:
        await site.execute("acme.leads.sync", {"sheet": sheet})
    assert "/inputs/sheet" in caught.value.message
    with pytest.raises(NotFoundError, match="BLOB_NOT_FOUND"):
        await site.execute("acme.leads.sync", {"sheet": f"blob:{'0' * 64}"})
    assert executor.attempts == []


async def test_access_is_the_catalogs(tmp_path, site):
    write_action(tmp_path / "skills", "locked", more='access = "restricted"')
    write_action(tmp_path / "skills", "hidden", more='access = "private"')
    site = await site()
    for call in (site.execute("acme.locked"), site.code(mount_skills=("acme.locked",))):
        with pytest.raises(TrustError, match="PERMISSION_DENIED"):
            await call
    for call in (site.execute("acme.hidden"), site.code(mount_skills=("acme.hidden",))):
        with pytest.raises(NotFoundError, match="SKILL_NOT_FOUND"):
            await call


async def test_inputs_that_do_not_fit_are_refused_and_nothing_is_accepted(site, executor):
    site = await site()
    with pytest.raises(ValidationError, match="VALIDATION_ERROR"):
        await site.execute("acme.leads.sync", {"shet": "x"})
    with pytest.raises(DecodeError, match="LIMIT_SIZE"):
        await site.code(args={"x": "y" * limits.EXECUTION_REQUEST_BYTES})
    with pytest.raises(DecodeError, match="LIMIT_SIZE"):
        await site.code("#" * (limits.RUN_CODE_BYTES + 1))
    with pytest.raises(ValidationError):
        await site.code(entrypoint="main(1)")
    assert executor.attempts == []
    assert await site.desk.ledger.waiting() == {}


async def test_a_run_that_fails_is_a_result(site, executor):
    site = await site()
    executor.script = lambda _: failing(details={"traceback": "Traceback: here"})._replace(log="printed\n")
    run = await site.execute("acme.leads.sync")
    assert (run.status, run.error.type, run.error.message) == ("failed", "exception", "it broke")
    assert run.summary == "acme.leads.sync 1.0.0 failed: it broke"
    assert run.logs_preview == "printed\nTraceback: here"
    assert run.output is None


async def test_a_run_has_no_longer_than_it_was_given(site, executor):
    site = await site()
    executor.script = lambda _: asyncio.sleep(60)
    for run in await asyncio.gather(
        site.execute("acme.leads.sync", timeout_ms=100), site.code(limits=RunLimits(timeout_ms=100))
    ):
        assert (run.status, run.error.type) == ("failed", "timeout")


async def test_log_and_files_of_a_run_are_told(site, executor):
    site = await site()
    digest = "sha256:" + "a" * 64
    executor.script = lambda _: Outcome(1, log="said\n", blobs=(OutputBlob(digest, "text/csv", 7, "a.csv"),))
    run = await site.code()
    assert run.logs_preview == "said\n"
    assert [*map(astuple, run.output_blobs)] == [("blob:" + "a" * 64, "text/csv", 7, "a.csv")]
    assert run.summary.endswith("and handed out 1 file")


async def test_a_large_output_comes_whole(site, executor):
    site = await site()
    executor.script = lambda _: Outcome("x" * 400_000)
    assert (await site.code()).output == "x" * 400_000


async def test_a_run_is_given_its_blobs_wherever_they_are_named(site, executor):
    site = await site()
    first, second = await site.blob("one"), await site.blob("two")
    await site.execute("acme.leads.sync", {"sheet": first}, input_blobs=(second, second))
    await site.code(args={"a": first, "b": {"deep": second}, "c": "blob:none"})
    digests = [[f"sha256:{one.removeprefix('blob:')}" for one in given] for given in ([second, first], [first])]
    assert [list(attempt.execution.attachments.blobs) for attempt in executor.attempts] == digests


@pytest.mark.parametrize("blob_id", ["blob:" + "0" * 64, "blob:../../etc/passwd", "", "x"])
async def test_a_blob_that_is_not_there_is_refused_before_anything_runs(site, executor, blob_id):
    site = await site()
    for call in (site.execute("acme.leads.sync", input_blobs=(blob_id,)), site.code(input_blobs=(blob_id,))):
        with pytest.raises(NotFoundError, match="BLOB_NOT_FOUND"):
            await call
    assert executor.attempts == []
    assert await site.desk.ledger.waiting() == {}


async def test_that_of_another_one_is_not_there(site, executor):
    site = await site()
    blob = await site.blob(owner=BERT)
    for call in (
        site.code(input_blobs=(blob,)),
        site.code(args={"x": blob}),
        site.runs.blobs.read(ANNA, ReadBlob(blob_id=blob)),
        site.runs.blobs.open(ANNA, blob),
    ):
        with pytest.raises(NotFoundError, match="BLOB_NOT_FOUND"):
            await call
    assert executor.attempts == []


async def test_there_are_no_more_blobs_and_skills_than_a_sandbox_has_mounts(site):
    site = await site()
    many = tuple(f"blob:{number:064x}" for number in range(limits.RUN_INPUT_BLOBS + 1))
    with pytest.raises(ValidationError, match="input_blobs"):
        await site.code(input_blobs=many)
    with pytest.raises(ValidationError, match="mount_skills"):
        await site.code(mount_skills=("acme.read.me",) * (limits.RUN_MOUNTS + 1))


async def test_skills_are_mounted_as_they_were_when_the_run_was_accepted(site, executor):
    site = await site()
    now = site.audience.usable.skills["read-me"]
    await site.code(mount_skills=("acme.read.me", "acme.read.me"))
    (attempt,) = executor.attempts
    assert {name: skill.artifact.digest for name, skill in attempt.mounts.items()} == {
        "acme.read.me": now.artifact.digest
    }
    assert attempt.execution.attachments.code == CODE
    assert attempt.skill.name == "run_code"


async def test_only_code_reads_blobs(tmp_path, site, executor):
    write_action(
        tmp_path / "skills", "forecast", more="", tables='[executor]\nkind = "http"\nurl = "https://api.example.com/"'
    )
    toml = 'kind = "action"\n[executor]\nkind = "http"\nurl = "https://api.example.com/v2"\n'
    (tmp_path / "skills" / "forecast" / "skill.toml").write_text(toml)
    site = await site()
    blob = await site.blob()
    with pytest.raises(ValidationError, match="no code"):
        await site.execute("acme.forecast", input_blobs=(blob,))
    assert (await site.execute("acme.forecast")).status == "completed"
    (attempt,) = executor.attempts
    assert attempt.execution.executor == "http"


async def test_a_function_of_the_program_is_executed_as_any_other_skill(home):  # noqa: ARG001  # its state is here
    publisher = Publisher("acme")

    @publisher.skill(access="public")
    def forecast(city: str) -> str:
        """Say what the weather will be. Use when somebody asks about the weather of the next days."""
        return f"sunny in {city}"

    application = publisher.app(configuration=ServerConfiguration(runs=ON))
    await application.startup()
    try:
        await application.catalog.first(20)
        site = Site(Caller(application))
        blob = await site.blob()
        assert (await site.execute("acme.forecast", {"city": "Bern"})).output == "sunny in Bern"
        with pytest.raises(ValidationError, match="no code"):
            await site.execute("acme.forecast", {"city": "Bern"}, input_blobs=(blob,))
    finally:
        await application.shutdown()


async def test_those_who_wait_are_told_when_the_server_stops(site, executor, monkeypatch):
    monkeypatch.setattr("skillwire.limits.SERVER_SHUTDOWN_SECONDS", 0.1)
    site = await site()
    executor.script = lambda _: asyncio.sleep(60)
    waiting = asyncio.create_task(site.code())
    await executor.began()
    site.desk.changes.close()
    with pytest.raises(PendingError, match="RUN_PENDING") as caught:
        await waiting
    assert str(caught.value.details["run_id"]).startswith("exec-")
    execution = await site.desk.ledger.find(caught.value.details["run_id"])
    assert execution.status is ExecutionStatus.RUNNING


async def test_too_many_that_wait_are_refused(site, monkeypatch):
    site = await site()
    monkeypatch.setattr("skillwire.limits.EXECUTION_FOLLOWERS", 0)
    with pytest.raises(ConflictError, match="TOO_MANY_EXECUTIONS"):
        await site.code()


@pytest.mark.parametrize(
    ("params", "content", "truncated"),
    [
        ({}, "0123456789" * 409 + "012345", True),
        ({"max_bytes": 4}, "0123", True),
        ({"mode": "sample_tail", "max_bytes": 4}, "6789", True),
        ({"mode": "full"}, "0123456789" * 500, False),
        ({"mode": "full", "max_bytes": 5}, "01234", True),
        ({"max_bytes": 10**12}, "0123456789" * 500, False),
    ],
)
async def test_a_blob_is_read_in_part_or_whole(site, params, content, truncated):
    site = await site()
    blob = await site.blob("0123456789" * 500, "text/csv")
    told = await site.runs.blobs.read(ANNA, ReadBlob(blob_id=blob, **params))
    assert (told.content, told.truncated, told.size_bytes, told.kind) == (content, truncated, 5000, "text/csv")


async def test_text_is_never_cut_within_a_character(site):
    site = await site()
    blob = await site.blob("äöü€" * 100)
    for length in range(1, 20):
        for mode in ("sample_head", "sample_tail"):
            told = await site.runs.blobs.read(ANNA, ReadBlob(blob_id=blob, mode=mode, max_bytes=length))
            assert set(told.content) <= set("äöü€")
            assert length - 3 <= len(told.content.encode()) <= length


async def test_what_is_no_text_is_read_in_base64(site):
    site = await site()
    data = bytes(range(256))
    blob = await site.blob(base64.b64encode(data).decode(), "image/png", encoding="base64")
    with pytest.raises(DecodeError, match="ENCODING") as caught:
        await site.runs.blobs.read(ANNA, ReadBlob(blob_id=blob))
    assert "base64" in (caught.value.fix or "")
    told = await site.runs.blobs.read(ANNA, ReadBlob(blob_id=blob, encoding="base64"))
    assert (base64.b64decode(told.content), told.encoding) == (data, "base64")


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"content": "x", "kind": "csv"}, "BLOB_KIND"),
        ({"content": "x", "kind": "a/b\r\nX: y"}, "BLOB_KIND"),
        ({"content": "not base64!", "kind": "text/csv", "encoding": "base64"}, "VALIDATION_ERROR"),
        ({"content": "x" * 50_001, "kind": "text/csv"}, "LIMIT_SIZE"),
    ],
)
async def test_what_is_no_blob_is_refused(site, params, code):
    with pytest.raises(SkillwireError, match=code):
        await (await site()).runs.blobs.create(ANNA, CreateBlob(**params))


async def test_a_blob_comes_and_goes_in_pieces(site):
    site = await site()

    async def content():
        for number in range(100):
            yield b"%02d" % number * 100

    created = await site.runs.blobs.receive(ANNA, "text/plain", content())
    with await site.runs.blobs.open(ANNA, created.blob_id) as blob:
        assert (blob.size, blob.kind, blob.blob_id) == (20_000, "text/plain", created.blob_id)
        assert b"".join([piece async for piece in blob.pieces()]) == b"".join([piece async for piece in content()])
        assert b"".join([piece async for piece in blob.pieces(19_998)]) == b"99"
        assert b"".join([piece async for piece in blob.pieces(0, 4)]) == b"0000"


async def test_a_stream_that_breaks_off_or_is_too_large_leaves_nothing(tmp_path, site):
    site = await site()

    async def broken():
        yield b"half"
        raise ConnectionError("gone")

    async def large():
        while True:
            yield b"x" * 10_000

    with pytest.raises(ConnectionError):
        await site.runs.blobs.receive(ANNA, "text/plain", broken())
    with pytest.raises(DecodeError, match="LIMIT_SIZE"):
        await site.runs.blobs.receive(ANNA, "text/plain", large())
    assert [path for path in (tmp_path / "home" / "state" / "run-blobs").rglob("*") if path.is_file()] == []


async def test_one_address_leaves_places_to_others(site, executor, monkeypatch):
    monkeypatch.setattr("skillwire.limits.EXECUTION_FOLLOWERS_CALLER", 2)
    site = await site()
    executor.script = lambda _: asyncio.sleep(60)
    greedy = "address 192.0.2.7"
    waiting = [asyncio.create_task(site.code(owner=greedy)) for _ in range(5)]
    await executor.began()
    done = [one for one in waiting if one.done()]
    assert [type(one.exception()) for one in done] == [ConflictError] * 3
    with pytest.raises(ConflictError, match="TOO_MANY_EXECUTIONS"):
        await site.execute("acme.leads.sync", owner=greedy)
    executor.script = lambda attempt: Outcome(dict(attempt.inputs))
    assert (await site.code(owner="address 198.51.100.7")).status == "completed"
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await site.code(owner=greedy)).status == "completed"


async def test_a_run_is_followed_and_taken_back_by_whom_it_belongs_to_alone(site, executor):
    site = await site()
    executor.script = lambda _: asyncio.sleep(60)
    run_id = await site.runs.begin_skill(ANNA, site.audience.usable.skills["leads-sync"], {})
    await executor.began()
    with pytest.raises(PendingError) as caught:
        await site.runs.follow(ANNA, run_id, 0.0)
    assert caught.value.details == {"run_id": run_id, "status": "running"}
    for owner, which in ((BERT, run_id), (ANNA, "exec-" + "0" * 44), (ANNA, "")):
        with pytest.raises(NotFoundError, match="RUN_NOT_FOUND"):
            await site.runs.follow(owner, which, 1.0)
        await site.runs.cancel(owner, which)
    assert not (await site.desk.ledger.find(run_id)).status.is_final
    await site.runs.cancel(ANNA, run_id)
    run = await site.runs.follow(ANNA, run_id, 5.0)
    assert (run.status, run.error.type) == ("failed", "cancelled")


async def test_what_is_cancelled_while_it_is_written_is_accepted_as_everything_else(site, executor):
    site = await site()
    with held_back(site.desk) as (waits, go_on), structlog.testing.capture_logs() as logs:
        waiting = asyncio.create_task(site.execute("acme.leads.sync"))
        await waits.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        go_on.set()
        await executor.began()
    assert [line["skill"] for line in logs if line["event"] == "accepted"] == ["leads-sync"]
