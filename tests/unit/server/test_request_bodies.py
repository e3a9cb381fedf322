"""What many callers at once, and a server that stops, must not do."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.eventually import PATIENCE
from tests.support.invoking import write_action

from skillwire import limits
from skillwire.executions.view import tag_of
from skillwire.model.execution import Outcome
from skillwire.server.execution_service import GrantCache
from skillwire.server.problems import ProblemError
from skillwire.server.request_bodies import INVOCATIONS, Bodies


def pieces(*bodies, more_last=False):
    messages = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
    messages[-1]["more_body"] = more_last
    left = iter(messages)

    async def receive():
        message = next(left, None)
        if message is None:
            await asyncio.Event().wait()
        return message

    return receive


@pytest.mark.virtual_time
async def test_bodies_are_bounded_each_and_together(monkeypatch):
    monkeypatch.setattr("skillwire.limits.EXECUTION_SMALL_BODY_BYTES", 2)
    bodies, post = Bodies(INVOCATIONS._replace(largest=10, held=15)), {"method": "POST", "headers": []}
    async with bodies.reading(post, pieces(b"12345", b"67890")) as body:
        assert body.data == b"1234567890"
        async with bodies.reading(post, pieces(b"12")) as small:  # small ones are always read
            assert small.data == b"12"
        with pytest.raises(ProblemError) as refused:
            async with bodies.reading(post, pieces(b"123456")):
                pass
        assert (refused.value.problem.status, refused.value.problem.fields["Retry-After"]) == (503, "1")
    with pytest.raises(ProblemError) as refused:
        async with bodies.reading(post, pieces(b"12345678901", more_last=True)):
            pass
    assert refused.value.problem.status == 413
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), bodies.reading(post, pieces(b"12345678", more_last=True)):
            pass
    async with bodies.reading(post, pieces(b"1234567890")) as body:  # nothing of all that is held any more
        assert len(body.data) == 10
        body.release()  # nor of one that was read
        async with bodies.reading(post, pieces(b"1234567890")) as another:
            assert (body.data, another.data) == (b"", b"1234567890")


async def test_the_bodies_of_one_address_do_not_take_the_room_of_another(monkeypatch):
    monkeypatch.setattr("skillwire.limits.EXECUTION_SMALL_BODY_BYTES", 2)
    bodies = Bodies(INVOCATIONS._replace(of_address=15))

    def post(address):
        return {"method": "POST", "headers": [], "client": (address, 1)}

    async with bodies.reading(post("2001:db8::1"), pieces(b"1234567890")):
        with pytest.raises(ProblemError) as refused:
            async with bodies.reading(post("2001:db8::2"), pieces(b"123456")):  # of the same network
                pass
        assert refused.value.problem.status == 503
        async with bodies.reading(post("2001:db8:1::1"), pieces(b"1234567890")) as body:
            assert body.data == b"1234567890"
    assert not bodies._of


async def test_a_wish_to_wait_that_is_not_heeded_is_not_said_to_be(tmp_path, serving, executor, monkeypatch):
    write_action(tmp_path / "skills", "slow")
    caller = await serving()
    executor.script = lambda _: asyncio.sleep(60)
    monkeypatch.setattr("skillwire.limits.EXECUTION_FOLLOWERS", 0)
    async with asyncio.timeout(PATIENCE):
        answer = await caller.invoke("slow", fields={"Prefer": "wait=50"})
    assert answer.status == 202
    assert "preference-applied" not in answer.fields


async def test_a_look_at_one_grant_forgets_no_other():
    looked = []

    async def look(skill):
        looked.append(skill.name)
        return True

    granted = GrantCache(look)
    one, two = (
        cast(
            "Any",
            SimpleNamespace(
                name=name, action=SimpleNamespace(executor="python"), artifact=SimpleNamespace(digest=name)
            ),
        )
        for name in ("one", "two")
    )
    for skill in (one, two, one, two):
        assert await granted.allows(skill, is_call=True)
    assert looked == ["one", "two"]


@pytest.mark.parametrize("size", [70_000, 1_000_000])
async def test_large_outputs_are_sent_in_pieces_and_left_out_of_streams(tmp_path, serving, executor, size):
    write_action(tmp_path / "skills", "large")
    caller = await serving()
    executor.script = lambda _: Outcome("x" * size)
    ended = await caller.ended(await caller.invoke("large"))
    assert ended.json()["output"] == "x" * size
    assert ended.fields["etag"] == tag_of(ended.body)
    path = f"/executions/{ended.json()['execution_id']}"
    pieces = []

    async def send(message):
        pieces.append(len(message.get("body", b"")))

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    await caller.application({**scope, "headers": [], "scheme": "http"}, asyncio.Event().wait, send)
    assert sum(pieces) == len(ended.body)
    assert max(pieces) <= limits.SERVER_PIECE_BYTES
    same = await caller.get(path, {"If-None-Match": ended.fields["etag"]})
    assert (same.status, same.body) == (304, b"")
    head = await caller.request(f"{path}/result", method="HEAD")
    assert (head.fields["content-length"], head.body) == (str(len(ended.body)), b"")
    stream = await caller.get(path, {"Accept": "text/event-stream"})
    told = json.loads(stream.body.decode().rpartition("data: ")[2].split("\n")[0])
    assert told["status"] == "completed"
    assert ("output" in told) == (size < limits.WEBHOOK_BYTES)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_bytes(b"1" * 1_000_002)])
async def test_a_large_output_whose_file_is_lost_is_left_out(tmp_path, serving, executor, home, spoil):
    write_action(tmp_path / "skills", "large")
    caller = await serving()
    executor.script = lambda _: Outcome("x" * 1_000_000)
    ended = await caller.ended(await caller.invoke("large"))
    for file in home.rglob("*"):
        if file.is_file() and file.stat().st_size == 1_000_002:
            spoil(file)
    answer = await caller.get(f"/executions/{ended.json()['execution_id']}")
    assert answer.json()["status"] == "completed"
    assert "output" not in answer.json()


async def test_a_method_without_a_body_is_not_read():
    async with Bodies().reading({"method": "GET"}, pieces(b"never read")) as body:
        assert body.data == b""


async def test_strangers_of_one_address_do_not_share_their_keys(tmp_path, serving):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    key, made = {"Idempotency-Key": "1"}, set()
    for name in ("one", "two", "one"):
        request = {"caller": {"id": name, "type": "user"}, "skill_id": "acme/sum-up", "inputs": {}}
        answer = await caller.post("/skills/sum-up/executions", request, key)
        made.add((name, answer.json()["execution_id"]))
    assert len(made) == 2
