"""The ledger of several servers on one PostgreSQL: none runs an execution twice, and each is counted once."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.support.executions import BEGIN, NO_QUOTA, claim_of, make_execution

from skillwire.adapters.postgres.database import PostgresClock, PostgresDatabase
from skillwire.adapters.sql.blobs import RowOutputs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sql.servers import SqlLeases
from skillwire.model.execution import CALLBACK_SECONDS, IdempotencyKey, Moment, NewExecution, StatisticsCursor

NOW = Moment(BEGIN + 1, 1_000.0, "postgresql")


@pytest.fixture
async def servers(postgres_url):
    """Return what opens a number of servers on one database: their databases and ledgers."""
    async with AsyncExitStack() as stack:

        def open_servers(number):
            databases = [PostgresDatabase(postgres_url, connections=4) for _ in range(number)]
            for database in databases:
                stack.push_async_callback(database.close)
            return [(database, SqlLedger(database, RowOutputs(database))) for database in databases]

        yield open_servers


def ledgers(servers):
    return [ledger for _, ledger in servers]


async def test_of_eight_servers_that_claim_at_once_none_gets_what_another_has(servers):
    eight = ledgers(servers(8))
    new = [NewExecution(make_execution(BEGIN + n * 1e-6, caller=f"caller {n % 5}")) for n in range(400)]
    await eight[0].accept_all(new)
    claimed: Counter[str] = Counter()

    async def work(number, ledger):
        while found := await ledger.claim(f"w{number}", NOW, NO_QUOTA, limit=7):
            claimed.update(one.execution_id for one in found)
            ends = [ledger.complete(claim_of(one), b"{}", NOW) for one in found]
            assert all(await asyncio.gather(*ends))

    await asyncio.gather(*[work(*one) for one in enumerate(eight)])
    assert claimed == Counter(one.execution.execution_id for one in new)


async def test_of_eight_servers_that_deliver_webhooks_at_once_one_makes_each_delivery(servers):
    eight = ledgers(servers(8))
    webhook = "https://example.org/hook"
    new = [NewExecution(make_execution(BEGIN + n * 1e-6, webhook=webhook)) for n in range(200)]
    await eight[0].accept_all(new)
    await asyncio.gather(*[eight[0].cancel(one.execution.execution_id, "anna", NOW) for one in new])

    async def deliver(ledger, now, taken):
        while found := await ledger.due_callbacks(now, limit=7):
            taken.update(one.execution_id for one in found)

    for now in (NOW, NOW._replace(wall=NOW.wall + CALLBACK_SECONDS + 1)):  # when all who began a delivery were killed
        taken: Counter[str] = Counter()
        await asyncio.gather(*[deliver(ledger, now, taken) for ledger in eight])
        assert taken == Counter(one.execution.execution_id for one in new)


async def test_quotas_hold_exactly_over_all_servers(servers):
    eight = ledgers(servers(8))
    quota = replace(NO_QUOTA, per_caller=10, per_skill=15)
    new = [
        NewExecution(make_execution(BEGIN + n * 1e-6, caller=f"caller {n % 2}", skill=f"skill-{n % 3 // 2}"))
        for n in range(120)
    ]
    await eight[0].accept_all(new)
    found = await asyncio.gather(*[ledger.claim(f"w{n}", NOW, quota, limit=9) for n, ledger in enumerate(eight * 2)])
    claimed = [one for some in found for one in some]
    assert Counter(one.caller for one in claimed) == {"caller 0": 10, "caller 1": 10}
    assert max(Counter(one.skill for one in claimed).values()) <= 15


async def test_servers_with_one_idempotency_key_make_one_execution(servers):
    some = ledgers(servers(4))
    keys = [IdempotencyKey("anna", f"key {n}", b"body") for n in range(10)]

    async def accept(ledger):
        return await ledger.accept_all([NewExecution(make_execution(), key) for key in keys])

    answers = await asyncio.gather(*[accept(ledger) for ledger in some])
    for accepted in zip(*answers, strict=True):
        assert Counter(one.how for one in accepted) == {"new": 1, "repeated": 3}
        assert len({one.execution.execution_id for one in accepted}) == 1
    assert sum((await some[0].count()).values()) == len(keys)


async def test_of_those_that_end_an_execution_at_once_one_does(servers):
    some = ledgers(servers(6))
    await some[0].accept_all([NewExecution(make_execution(BEGIN + n * 1e-6)) for n in range(30)])
    for execution in await some[0].claim("w", NOW, NO_QUOTA, limit=30):
        claim = claim_of(execution)
        ends = [ledger.complete(claim, b"%d" % n, NOW) for n, ledger in enumerate(some)]
        done = await asyncio.gather(*ends, some[0].cancel(claim.execution_id, "anna", NOW))
        found = await some[1].find(claim.execution_id)
        assert found is not None
        last = found.timeline[-1].what
        assert [event.what for event in found.timeline] == ["accept", "claim", last]
        assert done[:-1].count(True) == (last == "complete")


async def test_machines_whose_clocks_are_five_minutes_off_keep_each_others_leases(servers):
    some, offsets = servers(3), (0.0, 300.0, -300.0)
    loop = asyncio.get_running_loop()

    def clock_of(database, offset):
        return PostgresClock(database, steady=lambda: loop.time() + offset)

    clocks = [clock_of(database, offset) for offset, (database, _) in zip(offsets, some, strict=True)]
    for clock in clocks:
        await clock.measure()
    quota = replace(NO_QUOTA, lease=30.0)
    for accepting, claiming, looking in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        new = make_execution(clocks[accepting]().wall, is_repeatable=True)
        await some[accepting][1].accept_all([NewExecution(new)])
        (held,) = await some[claiming][1].claim("w", clocks[claiming](), quota)
        assert await some[looking][1].recover(clocks[looking]()) == ()
        assert await some[looking][1].expire(clocks[looking]()) == ()
        assert await some[claiming][1].complete(claim_of(held), b"{}", clocks[claiming]())


async def test_statistics_of_sixteen_writers_miss_none_and_count_none_twice(servers):
    some = servers(4)
    reader, seen, outcomes = servers(1)[0][1], 0, 0
    cursor, is_over = StatisticsCursor(BEGIN - 1), False

    async def write(number, ledger):
        for n in range(12):
            new = [NewExecution(make_execution(BEGIN, caller=f"c{number}-{n}", max_attempts=1)) for _ in range(4)]
            await ledger.accept_all(new)
            await asyncio.gather(*[ledger.cancel(one.execution.execution_id, "anna", NOW) for one in new])

    async def read():
        nonlocal seen, outcomes, cursor
        found = await reader.statistics(cursor, NOW.wall + 1, 1_000)
        cursor, seen, outcomes = found.cursor, seen + found.accepted, outcomes + len(found.ended)

    async def tail():
        while not is_over:
            await read()
            await asyncio.sleep(0)

    tailing = asyncio.create_task(tail())
    await asyncio.gather(*[write(n, some[n % 4][1]) for n in range(16)])
    is_over = True
    await tailing
    await read()
    assert (seen, outcomes) == (16 * 12 * 4, 16 * 12 * 4)


async def test_statistics_go_on_when_the_database_is_behind_those_who_read_them(servers):
    """As when a standby that lacked transactions became the primary: their numbers come again."""
    ledger = servers(1)[0][1]
    lost = StatisticsCursor(BEGIN - 1, place=2**40, ended=7, accepted=2**40)
    cursor = (await ledger.statistics(lost, NOW.wall + 1, 9)).cursor
    await ledger.accept_all([NewExecution(execution := make_execution(BEGIN))])
    await ledger.cancel(execution.execution_id, "anna", NOW)
    found = await ledger.statistics(cursor, NOW.wall + 1, 9)
    assert (found.accepted, [one.outcome for one in found.ended]) == (1, ["cancelled"])


async def test_of_servers_that_want_to_lead_at_once_one_does(servers):
    leases = [SqlLeases(database) for database, _ in servers(8)]
    for turn in range(5):
        now = BEGIN + turn * 20
        numbers = await asyncio.gather(*[one.lead("sweep", f"s{n}", now, 10) for n, one in enumerate(leases)])
        assert [number for number in numbers if number is not None] == [turn + 1]
