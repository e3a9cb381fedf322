"""The ladder on a virtual clock: every rung with every outcome, and the time that each one costs."""

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.support.virtual_time import virtual_loop

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.codes import CODES
from skillwire.errors import FetchError, NotFoundError, SkillwireError, TrustError, UsageError, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.ref import SkillRef
from skillwire.resolver.ladder import (
    AFTER,
    CACHE,
    CENTER,
    DHT,
    LADDER,
    LAN,
    NAMED,
    Action,
    Climb,
    Ladder,
    Outcome,
    Rung,
)
from skillwire.resolver.rank import conflicting_digests
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import All, HttpRequest, HttpResponse, Sleep, Work, drive_async, within

pytestmark = pytest.mark.virtual_time
NAMES = list(LADDER)
#: The text's deadlines are shorter here than a day.
DEADLINES = {LAN: 3.0, DHT: 5.0, CENTER: 10.0, CACHE: 5.0, NAMED: 60.0}


class Source:
    """Answers after ``delay`` seconds with ``result``, which may be an error; ``asked`` has the times."""

    def __init__(self, result, delay=0.01):
        self.result, self.delay = result, delay
        self.asked = []

    def ask(self, seconds):  # noqa: ARG002 - the form of a rung
        self.asked.append(virtual_loop().time())
        yield HttpRequest(f"http://source/{self.delay}", timeout=1e9)
        if isinstance(self.result, SkillwireError):
            raise self.result
        return self.result


class Kept(Source):
    """Answers without a request."""

    def ask(self, seconds):  # noqa: ARG002 - the form of a rung
        yield from ()
        return self.result


async def run(flow):
    """Do the steps of a flow in virtual time, as the asynchronous client does."""

    async def do(step):
        if isinstance(step, HttpRequest):
            delay = float(step.url.rpartition("/")[2])
            await asyncio.sleep(min(delay, step.timeout))
            if delay > step.timeout:
                raise FetchError("TIMEOUT", f"no answer within {step.timeout:g} s")
            return HttpResponse(step.url, 200, {}, b"")
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Work):
            return step.call()
        assert isinstance(step, All)
        return await AsyncDriver(AddressPolicy()).run_all(**step._asdict(), run=run)

    return await drive_async(flow, do)


def ladder(**options):
    return Ladder(virtual_loop().time, lambda: 1.0, **options)


def climb(sources, seconds=None, question="", on=None, off=()):
    rungs = [
        Rung(
            name,
            None if name in off else one.ask,
            "its setting is off" * (name in off),
            LADDER[name]._replace(deadline=DEADLINES[name]),
        )
        for name, one in sources.items()
    ]
    return (on or ladder()).climb(question, rungs, seconds)


def failed(code, kind=FetchError):
    return kind(code, "it went wrong")


#: Result and delay → outcome and seconds of the rung, and whether the next rung is asked.
OUTCOMES: dict[str, tuple[Any, float, Outcome, float | None, bool]] = {
    "found": (["skill"], 0.5, Outcome.FOUND, 0.5, False),
    "found after nearly all time": (["skill"], 0.9, Outcome.FOUND, None, False),
    "nothing": ([], 0.5, Outcome.NOTHING, 0.5, True),
    "hangs": (["skill"], 1e6, Outcome.TIMEOUT, None, True),
    "001": (failed("DISC_001"), 0.3, Outcome.TIMEOUT, None, True),
    "002": (failed("DISC_002", NotFoundError), 0.3, Outcome.NOTHING, 0.3, True),
    "003": (failed("DISC_003", TrustError), 0.3, Outcome.REFUSED, 0.3, False),
    "004": (failed("DISC_004", TrustError), 0.3, Outcome.REFUSED, 0.3, False),
    "005": (failed("DISC_005"), 0.3, Outcome.FAILED, 0.3, True),
    "006": (failed("DISC_006"), 0.3, Outcome.FAILED, 0.3, True),
    "007": (failed("DISC_007", NotFoundError), 0.3, Outcome.NOTHING, 0.3, True),
    "refused": (failed("CONNECT_FAILED"), 0.01, Outcome.FAILED, 0.01, True),
    "malformed": (failed("REGISTRY_ANSWER", ValidationError), 0.3, Outcome.FAILED, 0.3, True),
    "other bytes": (failed("DIGEST_MISMATCH", TrustError), 0.3, Outcome.REFUSED, 0.3, False),
}


@pytest.mark.spec("SDP-fallback")
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("name", NAMES)
async def test_every_rung_with_every_outcome(name, outcome):
    caught: Any
    result, delay, expected, seconds, goes_on = OUTCOMES[outcome]
    if outcome == "found after nearly all time" and name != LAN:
        delay = 0.99 * DEADLINES[name]
    sources = {one: Source([]) for one in NAMES[: NAMES.index(name)]}
    sources |= {name: Source(result, delay)}
    sources |= {one: Source([f"skill of {one}"]) for one in NAMES[NAMES.index(name) + 1 :]}
    climbing = climb(sources)
    started = virtual_loop().time()
    rest = NAMES[NAMES.index(name) + 1 :]
    if isinstance(result, SkillwireError) and (not goes_on or not rest):
        with pytest.raises(type(result)) as caught:
            await run(climbing.next())
        assert caught.value.code == result.code
        assert [row["name"] for row in caught.value.details["rungs"]] == NAMES
    elif outcome == "hangs" and not rest:
        with pytest.raises(FetchError, match=r"tried: lan \(nothing"):
            await run(climbing.next())
    else:
        second = CACHE if outcome == "005" and CACHE in rest else next(iter(rest), None)
        found = await run(climbing.next())
        assert found == (result if expected is Outcome.FOUND else [f"skill of {second}"] if second else [])
    trace = next(one for one in climbing.traces if one.name == name)
    assert trace.outcome is expected
    is_retried = outcome in {"001", "hangs"}
    assert trace.attempts == (LADDER[name].attempts if is_retried else 1)
    if seconds is not None:
        assert trace.seconds == pytest.approx(seconds)
    assert trace.seconds <= DEADLINES[name] + 1e-6
    assert virtual_loop().time() - started <= DEADLINES[name] + 0.05
    assert sorted(one.name for one in climbing.traces) == sorted(NAMES)


def test_each_code_of_discovery_has_an_action():
    assert {code for code in CODES if code.startswith("DISC_")} <= AFTER.keys()
    assert [AFTER[code] for code in ("DISC_001", "DISC_003", "DISC_004", "DISC_005")] == [
        Action.RETRY, Action.STOP, Action.STOP, Action.USE_CACHE,
    ]  # fmt: skip


@pytest.mark.spec("SDP-fallback")
async def test_a_silent_network_is_asked_again_after_a_growing_pause_within_its_deadline():
    silent = Source(failed("DISC_001"), 0.1)
    climbing = climb({LAN: silent, CACHE: Source([])})
    with pytest.raises(FetchError):
        await run(climbing.next())
    assert len(silent.asked) == LADDER[LAN].attempts == 2
    assert silent.asked[1] - silent.asked[0] == pytest.approx(0.2)  # the answer, and a pause of 0.1 s
    hanging = Source([], 1e6)
    climbing = climb({LAN: hanging})
    with pytest.raises(FetchError, match="no answer within"):
        await run(climbing.next())
    assert climbing.traces[0].seconds <= 3.0


async def test_a_failed_network_uses_the_cache_before_the_other_rungs():
    sources = {LAN: Source(failed("DISC_005")), CENTER: Source(["of the center"]), CACHE: Source(["cached"])}
    climbing = climb(sources)
    assert await run(climbing.next()) == ["cached"]
    assert [(one.name, one.outcome) for one in climbing.traces] == [
        (LAN, Outcome.FAILED), (CACHE, Outcome.FOUND), (CENTER, Outcome.NOT_REACHED),
    ]  # fmt: skip
    assert sources[CENTER].asked == []


async def test_rungs_that_are_off_are_named_and_not_asked():
    sources = {LAN: Source(["skill"]), DHT: Source(["skill"]), CENTER: Source(["other"])}
    climbing = climb(sources, off={LAN, DHT})
    assert await run(climbing.next()) == ["other"]
    assert [str(one) for one in climbing.traces] == ["lan (off)", "dht (off)", "skillCenter (found, 0.0 s)"]
    assert climbing.traces[0].reason == "its setting is off"


@pytest.mark.parametrize("seconds", [0.5, 3.0, 11.0])
async def test_a_time_limit_bounds_all_rungs_and_still_asks_the_cache(seconds):
    sources = {name: Source([], 1e6) for name in (LAN, DHT, CENTER, NAMED)} | {CACHE: Source(["cached"], 0.0)}
    climbing = climb(sources, seconds)
    assert await run(climbing.next()) == ["cached"]
    assert seconds - 0.25 <= virtual_loop().time() <= seconds
    assert climbing.traces[-1].outcome is Outcome.NOT_REACHED


@pytest.mark.parametrize(
    ("seconds", "outcome", "asked"), [(None, "found", 2.0), (4.0, "found", 1.0), (2.0, "not reached", None)]
)
async def test_a_deadline_begins_after_the_start_and_a_time_limit_before_it(seconds, outcome, asked):
    given = []

    def ask(seconds):
        given.append(seconds)
        return Source(["skill"], 0.5).ask(seconds)

    row = LADDER[LAN]._replace(deadline=3.0)
    climbing = ladder().climb("", [Rung(LAN, ask, row=row, start=partial(Source([], 2.5).ask, 0.0))], seconds)
    await run(climbing.next())
    assert climbing.traces[0].outcome == outcome
    assert given == ([] if asked is None else [pytest.approx(asked)])


async def test_a_rung_that_fails_to_start_is_not_asked():
    source = Source(["skill"])
    start = partial(Source(failed("LAN_UNAVAILABLE")).ask, 0.0)
    climbing = ladder().climb("", [Rung(LAN, source.ask, start=start), Rung(CACHE, Source(["cached"]).ask)])
    assert await run(climbing.next()) == ["cached"]
    assert (climbing.traces[0].outcome, climbing.traces[0].code) == (Outcome.FAILED, "LAN_UNAVAILABLE")
    assert source.asked == []


async def test_what_a_rung_found_may_be_rejected_and_the_next_one_is_asked():
    climbing = climb({LAN: Source(["a"]), CENTER: Source(["b"])})
    assert await run(climbing.next()) == ["a"]
    climbing.reject(failed("DISC_006"))
    assert await run(climbing.next()) == ["b"]
    climbing.reject(failed("CONNECT_FAILED"))
    with pytest.raises(FetchError) as caught:
        await run(climbing.next())
    assert caught.value.code == "DISC_006"
    assert caught.value.message == "it went wrong; tried: lan (failed, 0.0 s), skillCenter (failed, 0.0 s)"
    stopped: Climb[str] = climb({LAN: Source(["a"])})
    await run(stopped.next())
    with pytest.raises(TrustError):
        stopped.reject(failed("DISC_004", TrustError))


async def test_a_wrong_use_is_raised_at_once():
    with pytest.raises(UsageError):
        await run(climb({LAN: Source(failed("USAGE", UsageError)), CENTER: Source(["b"])}).next())


async def test_a_rung_that_is_always_asked_adds_to_what_was_found():
    rungs = [
        Rung(LAN, Source(["a"]).ask), Rung(CACHE, Source(["old"]).ask),
        Rung(NAMED, Source(["b"]).ask, is_always=True),
    ]  # fmt: skip
    assert await run(ladder().climb("", rungs).next()) == ["a", "b"]


@pytest.mark.parametrize(("question", "again"), [("q", 1), ("", 2)])
async def test_negative_answers_are_kept_for_five_seconds(question, again):
    on, source = ladder(), Source(failed("DISC_002", NotFoundError))
    for _ in range(2):
        with pytest.raises(NotFoundError):
            await run(climb({CENTER: source}, question=question, on=on).next())
    assert len(source.asked) == again
    await asyncio.sleep(4.9)
    with pytest.raises(NotFoundError):
        await run(climb({CENTER: source}, question=question, on=on).next())
    await asyncio.sleep(0.2)  # from the first answer on
    source.result = ["skill"]
    assert await run(climb({CENTER: source}, question=question, on=on).next()) == ["skill"]


class TestHedging:
    @pytest.mark.parametrize(
        ("delays", "winner", "at"),
        [
            ((0.1, 0.1), LAN, 0.1),
            ((1.5, 0.1), CENTER, 0.7),
            ((0.65, 5.0), LAN, 0.65),
            ((1e6, 1.0), CENTER, 1.6),
        ],
    )
    async def test_the_next_rung_starts_after_the_p95_of_the_one_before(self, delays, winner, at):
        sources = {LAN: Source([LAN], delays[0]), CENTER: Source([CENTER], delays[1])}
        climbing = climb(sources, on=ladder(hedges=True))
        assert await run(climbing.next()) == [winner]
        assert virtual_loop().time() == pytest.approx(at, abs=0.01)
        loser = next(one for one in climbing.traces if one.name != winner)
        assert loser.outcome in {Outcome.NOT_REACHED, Outcome.TIMEOUT}

    async def test_a_failure_starts_the_next_rung_at_once(self):
        sources = {LAN: Source(failed("DISC_006"), 0.1), CENTER: Source([CENTER], 0.1)}
        assert await run(climb(sources, on=ladder(hedges=True)).next()) == [CENTER]
        assert virtual_loop().time() == pytest.approx(0.2, abs=0.01)

    async def test_a_refusal_is_final(self):
        sources = {LAN: Source(failed("DISC_004", TrustError), 0.1), CENTER: Source([CENTER], 0.1)}
        with pytest.raises(TrustError):
            await run(climb(sources, on=ladder(hedges=True)).next())
        assert sources[CENTER].asked == []

    async def test_each_rung_starts_after_its_own_delay_and_none_after_an_answer(self):
        sources = {LAN: Source([], 1e6), DHT: Source([]), CENTER: Source(["x"], 0.6), CACHE: Source([], 1e6)}
        sources[NAMED] = Source(["y"], 0.1)
        assert await run(climb(sources, on=ladder(hedges=True), off={DHT}).next()) == ["x"]
        starts = [one.asked for one in sources.values()]  # the DHT is off, so that SkillCenter comes at once
        assert starts == [[0.0], [], [pytest.approx(0.6)], [pytest.approx(1.1)], [pytest.approx(1.15)]]

    async def test_p95_is_that_of_the_rung_itself(self):
        on = ladder(hedges=True)
        assert on.p95(LAN) == LADDER[LAN].p95
        for number in range(64):
            on.took(LAN, number / 100)
        assert on.p95(LAN) == pytest.approx(0.6)


@pytest.mark.parametrize("hedges", [False, True])
async def test_under_load_sources_that_die_in_turn_give_no_wrong_record_and_cost_no_more_than_the_budget(hedges):
    """Two hundred questions at once, over and over, while one source after the other dies and comes back."""
    on, budget, alive = ladder(hedges=hedges), 4.0, dict.fromkeys((LAN, CENTER, CACHE), True)

    def answer(name, number, _):
        yield HttpRequest(f"http://source/{0.01 if name == CACHE else 0.05}", timeout=1e9)
        if not alive[name]:
            if number % 2 and name != CACHE:  # which asks no server
                yield HttpRequest("http://source/1000000.0", timeout=1e9)
            raise failed("CONNECT_FAILED")
        return [(number, name)]

    async def ask(number):
        started = virtual_loop().time()
        rungs = [Rung(name, partial(answer, name, number)) for name in alive]
        found = await run(on.climb("", rungs, budget).next())
        assert virtual_loop().time() - started <= budget
        assert all(asked == number for asked, _ in found)
        return found

    for dead in ({LAN}, {LAN, CENTER}, {CENTER}, {CACHE}, set()):
        alive.update({name: name not in dead for name in alive})
        answers = await asyncio.gather(*map(ask, range(200)))
        assert {name for found in answers for _, name in found} <= alive.keys() - dead
        assert all(answers)


async def test_a_silence_that_a_limit_has_cut_short_is_not_kept_as_an_answer():
    on, source = ladder(), Source(["skill"], 0.5)
    with pytest.raises(FetchError):
        await run(within(climb({CENTER: source}, question="x", on=on).next(), 0.1, virtual_loop().time))
    assert await run(climb({CENTER: source}, question="x", on=on).next()) == ["skill"]


async def test_a_limit_around_a_climb_bounds_its_rungs_and_leaves_the_cache_a_moment():
    silent = {name: Source([], 1e6) for name in (LAN, CENTER, NAMED)}
    climbing = climb({**silent, CACHE: Kept(["kept"])})
    started = virtual_loop().time()
    assert await run(within(climbing.next(), 2.0, virtual_loop().time)) == ["kept"]
    assert virtual_loop().time() - started <= 2.0 * 15 / 16
    assert [(trace.name, trace.outcome) for trace in climbing.traces] == [
        (LAN, Outcome.TIMEOUT),
        (CENTER, Outcome.NOT_REACHED),
        (CACHE, Outcome.FOUND),
        (NAMED, Outcome.NOT_REACHED),
    ]


async def test_a_version_with_two_digests_is_an_alarm():
    one = SkillRef("notes", "https://a.example", "", "1.0.0", Digest.of(b"1"), "agent-skills 0.2.0", 0.0)
    other = one._replace(digest=Digest.of(b"2"), found_via="skillCenter")
    alarm = conflicting_digests([one, other])
    assert alarm is not None
    assert (alarm.code, str(one.digest) in alarm.message, str(other.digest) in alarm.message) == (
        "DIGEST_CONFLICT",
        True,
        True,
    )
    for alike in (other._replace(version="1.0.1"), other._replace(origin="https://b.example"), one):
        assert conflicting_digests([one, alike]) is None
