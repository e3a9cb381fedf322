"""Logins on other devices: decided once, fetched once, and asked for no faster than allowed."""

import pytest
from tests.support.memory_packages import MemoryPackages
from tests.support.memory_stores import MemoryDeviceLogins
from tests.support.opened import Blocking

from skillwire import limits
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sql.tokens import SqlDeviceLogins
from skillwire.model.access import DeviceLogin
from skillwire.model.package import Change

NOW = 1_000_000.0
LOGIN = DeviceLogin(b"device", b"user", "skillwire", ("read", "publish"), "192.0.2.7", NOW + 600, 5.0)
APPROVED = LOGIN._replace(decision="approved", scopes=("read",), account="ann", decided_by="abc", lifetime=60.0)
CHANGE = Change(NOW, "ann", "token.approve", "ann", {"client": "skillwire"})


@pytest.fixture
def packages(database):
    return SqlPackages(database) if database else MemoryPackages()


@pytest.fixture
def store(database, packages):
    return Blocking(SqlDeviceLogins(database) if database else MemoryDeviceLogins(packages))


def test_a_login_is_found_by_the_hash_of_its_user_code(store):
    assert store.add(LOGIN, now=NOW, most=9)
    assert store.find(b"user") == LOGIN
    assert (store.find(b"device"), store.poll(b"user", NOW)) == (None, None)


def test_a_login_is_decided_once_with_its_audit_entry(store, packages):
    store.add(LOGIN, now=NOW, most=9)
    assert store.decide(APPROVED, CHANGE)
    assert not store.decide(LOGIN._replace(decision="refused", account="eve"), CHANGE)
    assert store.find(b"user") == APPROVED
    assert not store.decide(APPROVED._replace(device=b"other"), CHANGE)
    assert [entry.change for entry in Blocking(packages).audit(0, 9)] == [CHANGE]


def test_a_decision_is_fetched_once(store):
    store.add(LOGIN, now=NOW, most=9)
    assert store.poll(b"device", NOW) == LOGIN
    store.decide(APPROVED, CHANGE)
    fetched = store.poll(b"device", NOW + 5)
    assert fetched == APPROVED._replace(polled=NOW)
    assert not fetched.is_polled_too_soon(NOW + 5)
    assert (store.poll(b"device", NOW + 10), store.find(b"user")) == (None, None)


def test_a_poll_too_soon_gets_nothing_and_waits_longer_from_then_on(store):
    store.add(LOGIN, now=NOW, most=9)
    store.poll(b"device", NOW)
    store.decide(APPROVED, CHANGE)
    soon = store.poll(b"device", NOW + 4)
    assert soon.is_polled_too_soon(NOW + 4)
    again = store.poll(b"device", NOW + 10)
    assert (again.interval, again.polled) == (5.0 + limits.DEVICE_POLL_SECONDS, NOW + 4)
    assert again.is_polled_too_soon(NOW + 10)
    assert not store.poll(b"device", NOW + 10 + 15).is_polled_too_soon(NOW + 25)
    assert store.poll(b"device", NOW + 90) is None


def test_logins_are_bounded_and_forgotten_some_time_after_their_end(store):
    for number in range(3):
        login = LOGIN._replace(device=b"d%d" % number, user=b"u%d" % number)
        assert store.add(login, now=NOW, most=2) is (number < 2)
    late = NOW + 600 + limits.DEVICE_LOGIN_SECONDS
    assert not store.add(LOGIN, now=late, most=2)
    assert store.add(LOGIN, now=late + 1, most=2)
    assert (store.find(b"u0"), store.find(b"user")) == (None, LOGIN)
