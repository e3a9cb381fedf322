"""Programs that publish functions share a state folder, and each runs its own functions only."""

import asyncio

import pytest
from tests.support.invoking import Caller

import skillwire


def publisher_of(name, function):
    publisher = skillwire.Publisher("acme")
    publisher.skill(name=name, idempotent=True)(function)
    return publisher


async def alpha() -> str:
    """Say alpha. Use when somebody wants to hear alpha."""
    return "alpha"


async def beta() -> str:
    """Say beta. Use when somebody wants to hear beta."""
    return "beta"


async def gives_up() -> None:
    """Say that it was cancelled. Use when nobody cancelled anything."""
    calls.append(1)
    raise asyncio.CancelledError


calls: list[int] = []


@pytest.fixture
async def serve(tmp_path):
    applications = []

    async def start(name, function):
        application = publisher_of(name, function).app(blobs=tmp_path / f"blobs-{name}", access_log=False)
        applications.append(application)
        await application.startup()
        await application.catalog.first(20)
        return Caller(application)

    yield start
    for application in applications:
        await application.shutdown()


async def test_each_program_runs_its_own_functions_only(serve):
    first, second = await serve("alpha", alpha), await serve("beta", beta)
    answers = []
    for _ in range(8):
        answers.append((first, await first.invoke("alpha"), "alpha"))
        answers.append((second, await second.invoke("beta"), "beta"))
    for caller, answer, output in answers:
        ended = (await caller.ended(answer)).json()
        assert (ended["status"], ended.get("output")) == ("completed", output), ended


async def test_a_function_that_says_it_was_cancelled_is_not_run_again_and_again(serve):
    calls.clear()
    caller = await serve("gives-up", gives_up)
    ended = (await caller.ended(await caller.invoke("gives-up"))).json()
    assert ended["status"] == "failed"
    assert ended["error"]["details"]["reason"] == "exception"
    assert len(calls) <= 3
