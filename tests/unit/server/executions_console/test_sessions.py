"""Sessions: what a cookie proves, when it stops to, and what no stranger can make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.opened import Blocking, open_tokens

from skillwire import limits
from skillwire.registry.tokens import Tokens
from skillwire.server.console_request import Sessions, is_form_token


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def own(tokens, clock):
    """Return the tokens of the state folder by the test's clock."""
    return Blocking(Tokens(tokens._store, tokens._key, clock))


@pytest.fixture
def sessions(own, clock):
    return Blocking(Sessions(lambda: own.wrapped, clock))


def test_a_cookie_proves_who_signed_in_for_as_long_as_it_says(own, sessions, clock):
    token = own.issue("ann", scopes=["operator"]).token
    cookie = sessions.begin(token)
    session = sessions.recognise(cookie)
    assert (session.principal.name, session.principal.scopes) == ("ann", {"operator"})
    assert session.principal.identity == token.token_id
    clock.now += limits.CONSOLE_SESSION_SECONDS - 1
    assert sessions.recognise(cookie) == session
    clock.now += 1
    assert sessions.recognise(cookie) is None


def test_a_session_ends_with_its_token(own, sessions, clock):
    token = own.issue("ann", expires_in=60).token
    cookie = sessions.begin(token)
    clock.now += 60
    assert sessions.recognise(cookie) is None
    kept = own.issue("ann").token
    cookie = sessions.begin(kept)
    own.revoke(kept.token_id)
    assert sessions.recognise(cookie) is None


def test_what_a_token_may_is_what_it_may_now(own, sessions):
    token = own.issue("ann", scopes=["operator"]).token
    cookie = sessions.begin(token)
    with own._store._database.database.writing() as connection:
        connection.execute("UPDATE tokens SET scopes = '[]' WHERE token_id = ?", (token.token_id,))
    assert sessions.recognise(cookie).principal.scopes == frozenset()


def test_signing_out_ends_one_session_and_no_other_also_after_a_restart(own, sessions, clock):
    token = own.issue("ann").token
    first, second = sessions.begin(token), sessions.begin(token)
    sessions.end(sessions.recognise(first))
    for each in (sessions, Blocking(Sessions(lambda: own.wrapped, clock))):
        assert each.recognise(first) is None
        assert each.recognise(second) is not None


def test_what_is_remembered_of_ended_sessions_is_bounded(own, sessions, clock, monkeypatch):
    monkeypatch.setattr(limits, "CONSOLE_SESSIONS_ENDED", 3)
    token = own.issue("ann").token

    def ended():
        with own._store._database.database.reading() as connection:
            return connection.execute("SELECT count(*) FROM ended_sessions").fetchone()[0]

    for _ in range(5):
        sessions.end(sessions.recognise(sessions.begin(token)))
    assert ended() == 3
    clock.now += limits.CONSOLE_SESSION_SECONDS
    sessions.end(sessions.recognise(sessions.begin(token)))
    assert ended() == 1


def test_a_signing_key_begins_no_session_that_is_believed(own, sessions):
    token = own.issue("ann", kind="signing_key").token
    assert sessions.recognise(sessions.begin(token)) is None


def test_forms_of_one_session_are_no_other_sessions(own, sessions):
    token = own.issue("ann").token
    first, second = [sessions.recognise(sessions.begin(token)) for _ in range(2)]
    assert is_form_token(first, first.form_token)
    assert not is_form_token(first, second.form_token)
    assert not is_form_token(first, "")
    assert not is_form_token(first, "\ud800")


def test_a_cookie_of_another_server_is_none_and_has_another_name(own, sessions, clock):
    other = Blocking(Tokens(own._store, b"another key that is 32 bytes lng", clock))
    cookie = Blocking(Sessions(lambda: other.wrapped, clock)).begin(own.issue("ann").token)
    assert sessions.recognise(cookie) is None
    names = {
        each.cookie_name(is_secure=False, is_at_root=True)
        for each in (sessions, Blocking(Sessions(lambda: other.wrapped, clock)))
    }
    assert len(names) == 2


def test_over_https_no_other_site_can_set_the_cookie(sessions):
    assert sessions.cookie_name(is_secure=True, is_at_root=True).startswith("__Host-skillwire-")
    assert sessions.cookie_name(is_secure=True, is_at_root=False).startswith("__Secure-skillwire-")
    assert sessions.cookie_name(is_secure=False, is_at_root=True).startswith("skillwire-")


@given(data=st.data())
def test_no_change_of_a_cookie_is_believed(data):
    tokens = open_tokens()
    sessions = Blocking(Sessions(lambda: tokens.wrapped, Clock()))
    tokens.wrapped._clock = Clock()
    cookie = sessions.begin(tokens.issue("ann").token)
    place = data.draw(st.integers(0, len(cookie) - 1))
    letter = data.draw(st.characters(codec="ascii"))
    changed = cookie[:place] + letter + cookie[place + 1 :]
    assert (sessions.recognise(changed) is None) == (changed != cookie)
    assert sessions.recognise(data.draw(st.text())) is None
