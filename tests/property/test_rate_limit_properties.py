"""Token buckets: never more than the limit, never less than it, bounded, and what they promise holds."""

from hypothesis import given
from hypothesis import strategies as st

from skillwire.model.access import ANONYMOUS, Principal
from skillwire.server.quotas import RateLimit, RateLimiter, caller_of, network_of

LIMITS = st.builds(RateLimit, st.integers(1, 6000), st.integers(1, 50))
PAUSES = st.lists(st.floats(0, 120), max_size=80)


@given(LIMITS, PAUSES)
def test_no_span_of_time_holds_more_than_the_burst_and_what_filled_meanwhile(limit, pauses):
    limiter, now, taken = RateLimiter(limit), 0.0, []
    for pause in pauses:
        now += pause
        if limiter.take("a", now).allowed:
            taken.append(now)
    for first, begin in enumerate(taken):
        for last in range(first, len(taken)):
            most = limit.burst + (taken[last] - begin) * limit.per_second
            assert last - first + 1 <= most + 1e-6


@given(LIMITS, st.lists(st.tuples(st.floats(0, 60), st.integers(0, 3)), max_size=80))
def test_servers_that_share_a_limit_let_no_more_in_than_one(limit, requests):
    servers = [RateLimiter(limit, servers=lambda: 4) for _ in range(4)]
    now, taken = 0.0, []
    for pause, chosen in requests:
        now += pause
        if servers[chosen].take("a", now).allowed:
            taken.append(now)
    least = max(limit.burst, 4)  # each server lets one in
    assert all(
        number + 1 <= least + (moment - begin) * limit.per_second + 1e-6
        for first, begin in enumerate(taken)
        for number, moment in enumerate(taken[first:])
    )


@given(LIMITS, PAUSES)
def test_who_waits_as_long_as_is_asked_is_let_in(limit, pauses):
    limiter, now = RateLimiter(limit), 0.0
    for pause in pauses:
        now += pause
        found = limiter.take("a", now)
        assert 0 <= found.remaining <= found.limit == limit.burst
        if found.allowed:
            assert found.retry_after == 0
            assert "Retry-After" not in found.headers()
        else:
            assert found.headers()["Retry-After"] == str(found.retry_after)
            assert found.retry_after >= 1
            now += found.retry_after
            assert limiter.take("a", now).allowed


@given(LIMITS, PAUSES)
def test_looking_says_whether_the_next_request_is_let_in_and_counts_nothing(limit, pauses):
    limiter, unseen, now = RateLimiter(limit), RateLimiter(limit), 0.0
    for pause in pauses:
        now += pause
        looks = [limiter.look("a", now) for _ in range(3)]
        taken = limiter.take("a", now)
        assert taken == unseen.take("a", now)
        assert {(look.allowed, look.retry_after) for look in looks} == {(taken.allowed, taken.retry_after)}


@given(LIMITS, st.integers(0, 60))
def test_after_the_reset_the_whole_burst_is_there(limit, requests):
    limiter, now = RateLimiter(limit), 5.0
    found = limiter.take("a", now)
    for _ in range(requests):
        found = limiter.take("a", now)
    now += found.reset
    assert [limiter.take("a", now).allowed for _ in range(limit.burst + 1)] == [True] * limit.burst + [False]


@given(LIMITS, st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(-10, 10)), max_size=60))
def test_callers_do_not_disturb_each_other_and_a_clock_may_jump(limit, steps):
    together, apart, now = RateLimiter(limit), {name: RateLimiter(limit) for name in "abcdef"}, 100.0
    for name, pause in steps:
        now += pause
        assert together.take(name, now) == apart[name].take(name, now)


@given(st.lists(st.integers(0, 30), max_size=100), st.integers(1, 8))
def test_table_is_bounded_and_the_longest_silent_is_forgotten(callers, most):
    limiter = RateLimiter(RateLimit(1, 1), callers=most)
    order: list[int] = []
    for now, caller in enumerate(callers):
        allowed = limiter.take(str(caller), now / 1000).allowed
        assert allowed == (caller not in order[-most:])
        order = [one for one in order if one != caller] + [caller]
        assert len(limiter) <= most


def test_an_ipv6_network_is_one_caller_and_an_ipv4_address_is_one():
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::9") == "2001:db8:1:2::/64"
    assert network_of("2001:db8:1:3::9") == "2001:db8:1:3::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("unix:") == "unix:"


def test_no_name_of_a_principal_is_counted_as_an_address():
    assert caller_of(ANONYMOUS, "192.0.2.1") == "address 192.0.2.1"
    assert caller_of(Principal("address 192.0.2.1"), "192.0.2.9") == "principal address 192.0.2.1"
    assert caller_of(Principal("identity a"), "192.0.2.9") != caller_of(Principal("b", identity="a"), "192.0.2.9")


@given(LIMITS)
def test_fields_say_limit_remaining_and_reset(limit):
    fields = RateLimiter(limit).take("a", 0.0).headers()
    assert fields["RateLimit-Limit"] == str(limit.burst)
    assert fields["RateLimit-Remaining"] == str(limit.burst - 1)
    assert int(fields["RateLimit-Reset"]) >= 1
