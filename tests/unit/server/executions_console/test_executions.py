"""The pages of executions over ASGI: who sees which, what is asked of the desk, and streams that end."""

import asyncio
import json

import pytest
from blockbuster import blockbuster_ctx
from tests.support.console_site import make_key
from tests.support.eventually import PATIENCE
from tests.support.fake_desk import new_execution
from tests.support.opened import Blocking

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.executions.view import without_ids
from skillwire.model.execution import Attachments, ExecutionStatus, Failure, OutputBlob
from skillwire.server.console_pages import PageStreams
from skillwire.server.console_request import CallerNames
from skillwire.server.routes.console import ExecutionsConsole

HOSTILE = "<script>alert(1)</script>\u202e"
SOME = f"exec-{'0' * 32}"


async def text(browser, target):
    return (await browser.get(target)).body.decode()


async def test_the_list_asks_for_what_the_address_says(enter, desk, tokens):
    robot = tokens.issue("robot").token
    ann = await enter("ann", "operator")
    await ann.get("/executions?status=failed&skill=report&executor=http&trace=t-1&caller=robot&after=50&unknown=x")
    query = desk.asked[-1]
    assert query.statuses == {ExecutionStatus.FAILED}
    assert (query.skill, query.executor, query.trace_id, query.after) == ("report", "http", "t-1", "50")
    assert query.caller == f"identity {robot.token_id}"
    await ann.get("/executions?status=nonsense&executor=nonsense&skill=" + "x" * 300)
    assert desk.asked[-1][:5] == (None, None, None, None, None)


async def test_an_invalid_cursor_is_reported(enter, desk):
    desk.put(new_execution())
    ann = await enter("ann", "operator")
    answer = await ann.get("/executions?after=nonsense")
    assert answer.status == 400
    assert "The cursor is invalid." in answer.body.decode()


async def test_a_key_without_a_scope_sees_its_own_executions_and_those_whose_id_it_knows(enter, desk, tokens):
    eve = await enter("eve")
    own = desk.put(new_execution("of-eve", caller=f"identity {tokens.all()[-1].token_id}"))
    other = desk.put(new_execution("of-bob", caller="principal bob"))
    shared = desk.put(new_execution("of-anybody", caller="address 192.0.2.7"))
    page = await text(eve, "/executions?caller=principal+bob")
    assert "of-eve" in page
    assert "of-bob" not in page
    assert "of-anybody" not in page
    assert "<b>1</b>" in page.partition("All</span>")[2][:20]
    for execution, status in ((own, 200), (other, 404), (shared, 200)):
        path = f"/executions/{execution.execution_id}"
        assert (await eve.get(path)).status == status
        assert (await eve.get(f"{path}/inputs.json")).status == status
    answer = await eve.act(f"/executions/{other.execution_id}/cancel")
    assert answer.status == 404
    assert not desk.executions[other.execution_id].status.is_final
    assert (await eve.get(f"/executions/{other.execution_id}/live")).status == 404
    unknown = await eve.get(f"/executions/{SOME}")
    assert unknown.body == (await eve.get(f"/executions/{other.execution_id}")).body


async def test_the_beginning_of_an_id_leads_to_whom_it_may(enter, desk):
    execution = desk.put(new_execution(caller="principal bob"))
    told = without_ids(execution.execution_id)
    answer = await (await enter("ann", "operator")).get(f"/executions/{told}")
    assert (answer.status, answer.fields["location"]) == (303, f"/executions/{execution.execution_id}")
    assert (await (await enter("eve")).get(f"/executions/{told}")).status == 404
    desk.put(new_execution(execution_id=f"{told}{'0' * 24}"))
    assert (await (await enter("ann", "operator")).get(f"/executions/{told}")).status == 404


async def test_an_operator_cancels_in_their_name(enter, desk):
    ann = await enter("ann", "operator")
    execution = desk.put(new_execution(caller="principal bob"))
    answer = await ann.act(f"/executions/{execution.execution_id}/cancel")
    assert answer.fields["location"] == f"/executions/{execution.execution_id}?notice=cancelled"
    assert desk.executions[execution.execution_id].timeline[-1].by == "ann"
    again = await ann.act(f"/executions/{execution.execution_id}/cancel")
    assert again.fields["location"].endswith("notice=ended")
    assert "nothing was cancelled" in await text(ann, again.fields["location"])


async def test_a_page_shows_what_is_hostile_as_the_text_that_it_is(enter, desk):
    ann = await enter(f"ann {HOSTILE[:-1]}", "operator")
    execution = desk.put(
        new_execution(
            "report", inputs={"text": HOSTILE}, caller_id=HOSTILE, trace_id=HOSTILE, caller=f"principal {HOSTILE}"
        )
    )
    desk.run(execution.execution_id, worker=HOSTILE)
    desk.end(execution.execution_id, failure=Failure("exception", HOSTILE, details={HOSTILE: HOSTILE}))
    for target in ("/executions", f"/executions/{execution.execution_id}", "/login"):
        page = await text(ann, target)
        assert "<script>alert" not in page
        assert "\u202e" not in page
        assert page.count("<script") == 2
    assert "[U+202E]" in page or "ann" in page


async def test_inputs_and_output_are_files_that_no_browser_runs(enter, desk):
    ann = await enter("ann", "operator")
    execution = desk.put(new_execution(inputs={"a": HOSTILE}))
    desk.end(execution.execution_id, {"b": "x" * limits.CONSOLE_JSON_BYTES})
    path = f"/executions/{execution.execution_id}"
    page = await text(ann, path)
    assert "The first part of 128.0 KiB" in page
    for which, found in (("inputs", {"a": HOSTILE}), ("output", {"b": "x" * limits.CONSOLE_JSON_BYTES})):
        answer = await ann.get(f"{path}/{which}.json")
        assert json.loads(answer.body) == found
        assert answer.fields["content-disposition"] == f'attachment; filename="{execution.execution_id}-{which}.json"'
        assert answer.fields["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.fields["x-content-type-options"] == "nosniff"
    waiting = desk.put(new_execution())
    assert (await ann.get(f"/executions/{waiting.execution_id}/output.json")).status == 404


async def test_a_run_shows_its_code_its_log_and_what_it_handed_out(enter, desk):
    ann = await enter("ann", "operator")
    execution = desk.put(new_execution("run_code", attachments=Attachments(code=f"code {HOSTILE}")))
    desk.end(execution.execution_id, {})
    files = (OutputBlob("sha256:" + "0" * 64, "text/csv", 2048, "charts/<b>.csv"),)
    desk.step(execution.execution_id, "note", log=f"printed {HOSTILE}", blobs=files)
    page = await text(ann, f"/executions/{execution.execution_id}")
    assert "code &lt;script&gt;alert(1)&lt;/script&gt;[U+202E]" in page
    assert "printed &lt;script&gt;" in page
    assert "<dt>charts/&lt;b&gt;.csv</dt><dd>2.0 KiB, text/csv</dd>" in page
    assert "\u202e" not in page


async def test_an_output_that_was_forgotten_is_said_to_be(enter, desk):
    ann = await enter("ann", "operator")
    execution = desk.put(new_execution())
    desk.end(execution.execution_id, {})
    desk.step(execution.execution_id, "forget", output=None, output_forgotten=True)
    assert "The output was forgotten" in await text(ann, f"/executions/{execution.execution_id}")


async def test_counts_are_good_for_a_moment_whoever_looks(enter, desk, monkeypatch):
    counted = []
    count = desk.ledger.count

    async def counting(query):
        counted.append(query)
        return await count(query)

    monkeypatch.setattr(desk.ledger, "count", counting)
    ann, bob = await enter("ann", "operator"), await enter("bob", "operator")
    for browser in (ann, bob, ann):
        await browser.get("/executions?status=failed")
    assert len(counted) == 1
    await ann.get("/executions?skill=x")
    assert len(counted) == 2


@pytest.mark.parametrize(
    ("path", "accept", "fields", "is_page"),
    [
        (f"/executions/{SOME}", "text/html,application/xhtml+xml", {}, True),
        (f"/executions/{SOME}", "application/json", {}, False),
        (f"/executions/{SOME}", "text/event-stream", {}, False),
        (f"/executions/{SOME}", "*/*", {}, False),
        (f"/executions/{SOME}", "text/html", {"x-api-key": "sw_x"}, False),
        (f"/executions/{SOME}/result", "text/html", {}, False),
        ("/executions/exec-1", "text/html", {}, False),
    ],
)
def test_a_browser_gets_the_page_where_a_program_gets_the_status(path, accept, fields, is_page):
    headers = [(name.encode(), value.encode()) for name, value in {"accept": accept, **fields}.items()]
    assert ExecutionsConsole.prefers(path, {"method": "GET", "headers": headers}) is is_page
    assert not ExecutionsConsole.prefers(path, {"method": "DELETE", "headers": headers})


def test_callers_are_known_by_name_and_by_what_the_ledger_calls_them(tokens):
    old, new = tokens.issue("robot").token, tokens.issue("robot").token
    callers = Blocking(CallerNames(lambda: tokens.wrapped))
    assert callers.names(
        [f"identity {old.token_id}", "principal bob", "address 192.0.2.0", "identity gone", "odd"]
    ) == {
        f"identity {old.token_id}": "robot",
        "principal bob": "bob",
        "address 192.0.2.0": "192.0.2.0",
        "identity gone": "gone",
        "odd": "odd",
    }
    assert callers.caller_of("robot") == f"identity {new.token_id}"
    assert callers.caller_of(old.token_id) == f"identity {old.token_id}"
    assert callers.caller_of("2001:db8::7") == "address 2001:db8::/64"
    assert callers.caller_of("somebody") == "principal somebody"
    assert callers.caller_of("principal x") == "principal x"


class Listener:
    """A browser that listens to a stream, and goes away when told to."""

    def __init__(self):
        self.messages = []
        self.gone = asyncio.Event()
        self.told = asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.messages.append(message)
        self.told.set()

    @property
    def text(self):
        return b"".join(message.get("body", b"") for message in self.messages).decode()

    async def hears(self, wanted):
        async with asyncio.timeout(PATIENCE):
            while wanted not in self.text:
                await self.told.wait()
                self.told.clear()


async def yes():
    return True


async def test_a_stream_sends_the_part_anew_when_something_changed(desk):
    listener, streams = Listener(), PageStreams(desk.changes.beyond)

    async def make():
        return f"<p>\n{len(desk.executions)}\r</p>"

    task = asyncio.create_task(streams.serve(make, yes, listener.receive, listener.send))
    await listener.hears("event: part\ndata: <p>\ndata: 0\ndata: </p>\n\n")
    desk.put(new_execution())
    await listener.hears("data: 1\n")
    desk.changes.number += 1
    listener.gone.set()
    await asyncio.wait_for(task, PATIENCE)
    assert listener.messages[-1] == {"type": "http.response.body", "body": b""}
    assert listener.text.count("event: part") == 2


async def test_a_stream_ends_with_its_session_and_with_the_server(desk):
    async def make():
        return ""

    async def no():
        return False

    listener, streams = Listener(), PageStreams(desk.changes.beyond)
    await asyncio.wait_for(streams.serve(make, no, listener.receive, listener.send), PATIENCE)
    assert "event: ended" in listener.text
    listener = Listener()
    task = asyncio.create_task(streams.serve(make, yes, listener.receive, listener.send))
    await listener.hears("retry:")
    streams.close()
    await asyncio.wait_for(task, PATIENCE)
    assert not streams._open
    late = Listener()
    await streams.serve(make, yes, late.receive, late.send)
    assert late.messages[0]["status"] == 503


async def test_there_are_only_so_many_streams(desk, monkeypatch):
    monkeypatch.setattr(limits, "CONSOLE_STREAMS", 1)
    listener, second, streams = Listener(), Listener(), PageStreams(desk.changes.beyond)

    async def make():
        return ""

    task = asyncio.create_task(streams.serve(make, yes, listener.receive, listener.send))
    await listener.hears("retry:")
    await streams.serve(make, yes, second.receive, second.send)
    assert second.messages[0]["status"] == 503
    listener.gone.set()
    await task


async def test_a_stream_whose_part_cannot_be_made_fails_aloud(desk):
    async def make():
        raise UsageError("CURSOR", "no")

    listener = Listener()
    with pytest.raises(UsageError):
        await PageStreams(desk.changes.beyond).serve(make, yes, listener.receive, listener.send)


async def test_a_stream_is_for_who_is_signed_in_and_may_see_it(browser, enter, site, desk):
    execution = desk.put(new_execution())
    for path in ("/executions/live", "/inbox/live", f"/executions/{execution.execution_id}/live"):
        assert (await browser.get(path)).status == 403
    bob = await enter("bob")
    assert (await bob.get("/inbox/live")).status == 403
    ann = await enter("ann", "operator")
    site.console.close()
    assert (await ann.get("/executions/live")).status == 503


async def test_no_page_blocks_the_event_loop(enter, desk):
    execution = desk.put(new_execution())
    task = desk.put(new_execution("ask", task={"title": "Ask", "output": {"type": "string"}}))
    ann = await enter("ann", "operator")
    await ann.get("/executions")
    with blockbuster_ctx("skillwire"):
        for target in ("/executions", f"/executions/{execution.execution_id}", "/inbox", f"/inbox/{task.execution_id}"):
            assert (await ann.get(target)).status == 200
        await ann.sign_in("sw_wrong")
        await ann.act("/logout")


async def test_what_a_key_may_no_more_is_not_shown_any_more(enter, desk, tokens):
    ann = await enter("ann", "operator")
    desk.put(new_execution("of-bob", caller="principal bob"))
    assert "of-bob" in await text(ann, "/executions")
    token = tokens.all()[-1]
    with tokens._store._database.database.writing() as connection:
        connection.execute("UPDATE tokens SET scopes = '[]' WHERE token_id = ?", (token.token_id,))
    assert "of-bob" not in await text(ann, "/executions")


async def test_a_key_that_was_shown_is_nowhere(enter, desk, site):
    key = make_key("ann", "operator")
    ann = await enter("bob", "operator")
    ann.cookies = {}
    pages = [await ann.sign_in(key), await ann.get("/executions"), await ann.get("/login")]
    assert not any(key[20:] in page.body.decode() or key[20:] in str(page.fields) for page in pages)
    assert not desk.executions
    assert site is not None
