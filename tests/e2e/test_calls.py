"""Calls in processes of their own, against a provider on loopback: lost connections, kills, and two clients at once."""

import asyncio
import json
import signal
import subprocess

import pytest
from blockbuster import blockbuster_ctx
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, eventually
from tests.support.processes import skillwire
from tests.support.provider import Provider
from tests.support.transcript import CTRL_C, Surrounding

from skillwire import AsyncClient, Client, ExecutionError
from skillwire.adapters.files.credentials import open_store
from skillwire.model.credential import Credential


@pytest.fixture
def provider():
    with Provider() as provider:
        yield provider


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return tmp_path


def start(home, *words):
    return skillwire(*words, home=home / "home", cwd=home, stdin=subprocess.DEVNULL)


def finish(process):
    out, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, out, errors


def run(home, *words):
    done = run_command(*words, cwd=home)
    return done.code, done.out, done.err


def test_a_call_that_arrives_three_times_is_executed_once(provider, home):
    code, out, _ = run(home, "call", f"{provider.address}/flaky", "city=Bern")
    assert (code, json.loads(out)["city"]) == (0, "Bern")
    sent = provider.asked("POST", "/call/flaky")
    assert len(sent) == 3
    assert len({headers["idempotency-key"] for headers in sent}) == 1
    assert len(provider.begun) == 1


def test_a_busy_provider_is_left_alone_as_long_as_it_wants(provider, home):
    code, _, _ = run(home, "call", f"{provider.address}/busy", "city=Bern")
    assert code == 0
    assert len(provider.asked("POST", "/call/busy")) == 2, "it came back before it was asked to"


def test_what_was_killed_before_its_answer_is_taken_up_and_not_executed_twice(provider, home):
    held = provider.hold("forecast")
    process = start(home, "call", f"{provider.address}/forecast", "city=Bern", "--no-wait")
    eventually(lambda: provider.begun)
    process.send_signal(signal.SIGKILL)
    finish(process)
    held.set()
    code, out, errors = run(home, "call", f"{provider.address}/forecast", "city=Bern")
    assert (code, json.loads(out)["city"]) == (0, "Bern")
    assert "CALL_TAKEN_UP" in errors
    assert len(provider.begun) == 1
    run(home, "call", f"{provider.address}/forecast", "city=Bern")
    assert len(provider.begun) == 2, "what was answered is called anew"


def test_the_same_call_twice_at_once_is_two_calls(provider, home):
    held = provider.hold("forecast")
    calls = [start(home, "call", f"{provider.address}/forecast", "city=Bern") for _ in range(2)]
    eventually(lambda: len(provider.begun) == 2)
    held.set()
    assert [finish(process)[0] for process in calls] == [0, 0]


def test_an_execution_that_was_begun_here_is_ended_there(provider, home):
    code, out, _ = run(home, "call", f"{provider.address}/slow", "city=Bern", "--no-wait")
    assert code == 0
    name = out.strip()
    waiting = start(home, "executions", "result", name)
    eventually(lambda: provider.asked("GET", "/status/"))
    assert run(home, "executions", "cancel", name)[0] == 0
    code, _, errors = finish(waiting)
    assert code == 8
    assert "error[EXECUTION_CANCELLED]" in errors


def test_ctrl_c_stops_waiting_and_cancels_nothing(provider):
    with Surrounding(80, {}) as surrounding:
        with surrounding.start(["call", f"{provider.address}/slow", "city=Bern"]) as terminal:
            terminal.until("running at the provider")
            terminal.type(CTRL_C)
            assert terminal.wait() == 130
            assert terminal.settings() == terminal.initial_settings
            assert terminal.text().splitlines() == [
                "interrupted; the execution continues at the provider",
                "wait: skillwire executions result exec-slow-0001",
                "cancel: skillwire executions cancel exec-slow-0001",
            ]
        assert not provider.asked("DELETE")
        provider.released.set()
        with surrounding.start(["executions", "result", "exec-slow-0001"]) as terminal:
            assert terminal.wait() == 0
            assert '"city": "Bern"' in terminal.text()


def test_hostile_output_on_a_terminal(provider):
    with (
        Surrounding(80, {}) as surrounding,
        surrounding.start(["call", f"{provider.address}/hostile", "city=x"]) as seen,
    ):
        assert seen.wait() == 0
        assert seen.text().splitlines() == [
            "[U+001B][2J[U+001B][31mYour session is over.[U+202E] Type your password:",
            "fine",
        ]


async def test_the_asynchronous_client_follows_many_at_once_and_blocks_nothing(provider, home):
    open_store().keep(Credential(f"http://{provider.address}", "api_key", "key-1", "login", header="X-API-Key"))
    async with AsyncClient(home) as client, asyncio.timeout(PATIENCE):
        with blockbuster_ctx("skillwire"):
            skill = await client.show(f"{provider.address}/secret")
            done = await asyncio.gather(*(skill.call({"city": str(number)}) for number in range(8)))
            broken = await client.call(f"{provider.address}/broken", {"city": "x"})
            slow = await client.call(f"{provider.address}/slow", {"city": "x"}, wait=False)
            assert (await client.cancel(str(slow.execution_id))).is_cancelled
            assert (await client.execution(str(slow.execution_id))).is_cancelled
    assert [one.output["city"] for one in done] == [str(number) for number in range(8)]
    with pytest.raises(ExecutionError):
        broken.check()
    assert {headers.get("x-api-key") for headers in provider.asked("POST", "/call/secret")} == {"key-1"}


async def test_a_cancelled_task_leaves_the_execution_to_be_found(provider, home):
    async with AsyncClient(home) as client:
        accepted = asyncio.get_running_loop().create_future()
        call = client.call(f"{provider.address}/slow", {"city": "x"}, on_change=accepted.set_result)
        task = asyncio.create_task(call)
        execution = await asyncio.wait_for(accepted, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not (await client.execution(execution.execution_id)).is_final
    assert len(provider.begun) == 1


def test_a_client_in_the_same_process_comes_back_at_its_timeout(provider, home):
    with Client(home) as client:
        execution = client.call(f"{provider.address}/slow", {"city": "x"}, timeout=5)
        assert not provider.released.is_set(), "it came back by itself"
        assert execution.status == "running"
        provider.released.set()
        assert client.result(str(execution.execution_id)).output["city"] == "x"
    assert 0 < provider.begun[0]["context"]["timeout_ms"] <= 5000, "less what the look-up took"
