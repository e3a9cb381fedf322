"""Places: nobody takes those of all others, whoever it says it is."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from skillwire.server.invocation.places import Places


@pytest.fixture
def places():
    return Places(lambda: (16, 2))


def fill(places, stack, owners):
    """Let owners take places as long as there is room; return how many were taken."""
    number = 0
    for owner in owners:
        while places.has_room(owner):
            stack.enter_context(places.taking(owner))
            number += 1
    return number


def test_a_caller_has_its_share_and_has_it_again(places):
    with ExitStack() as stack:
        assert fill(places, stack, ["principal anna"]) == 2
        assert places.has_room("principal bert")
    assert places.has_room("principal anna")
    assert not places._taken


def test_all_have_so_many(places):
    with ExitStack() as stack:
        assert fill(places, stack, (f"principal {number}" for number in range(20))) == 16
        assert not places.has_room("principal late")


@pytest.mark.parametrize("near", ["address 192.0.2.{}", "address 2001:db8:1:{}::/64", "address 2001:db8:1:{}::7/128"])
def test_addresses_next_to_each_other_share(places, near):
    with ExitStack() as stack:
        assert fill(places, stack, (near.format(number) for number in range(20))) == 4
        for other in ("address 198.51.100.7", "address 2001:db8:2::/64", "address testclient", "principal anna"):
            assert places.has_room(other)


def test_strangers_leave_room_to_those_who_say_who_they_are(places):
    with ExitStack() as stack:
        assert fill(places, stack, (f"address 10.0.{number}.1" for number in range(100))) == 12
        assert not places.has_room("address 198.51.100.7")
        assert fill(places, stack, ["principal anna", "identity token:1"]) == 4
    assert not places._taken
