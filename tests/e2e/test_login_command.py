"""``skillwire auth login`` with a key, as a user types it: asked for without an echo, tried, kept for one origin."""

import json
import os
import sys

import pytest
from tests.support.command import run_command
from tests.support.private_origin import private_origin
from tests.support.terminal import Terminal

KEY = "hush-key-1"


@pytest.fixture
def origin():
    with private_origin() as origin:
        origin.accepts = lambda headers: headers.get("x-api-key") == KEY
        origin.auth = {"type": "api_key", "header": "X-API-Key", "description": "Ask \x1b[31mteam@example.com"}
        yield origin


class User:
    """Somebody with an empty home, and all that they ever saw."""

    def __init__(self, folder):
        self.home = folder / "skillwire"
        self.folder = folder
        self.log = ""
        self.environment = {**os.environ, "SKILLWIRE_HOME": str(self.home)}

    def command(self, *arguments):
        return [sys.executable, "-m", "skillwire", "--debug", *arguments]

    def run(self, *arguments, status=0, stdin="", **environment):
        environment = {"SKILLWIRE_HOME": str(self.home), **environment}
        done = run_command("--debug", *arguments, cwd=self.folder, env=environment, input=stdin)
        self.log += done.out + done.err
        assert done.code == status, done.out + done.err
        return done.out if status == 0 else done.out + done.err

    @property
    def store(self):
        return self.home / "state" / "credentials.json"


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


def test_a_key_is_asked_for_without_an_echo_tried_and_kept(user, origin):
    with Terminal(
        user.command("auth", "login", origin.url), cwd=user.folder, environment=user.environment, columns=120
    ) as terminal:
        terminal.until(f"Key for {origin.url} (X-API-Key):")
        terminal.type(f"{KEY}\n")
        assert terminal.wait() == 0
        screen = terminal.text()
    assert KEY.encode() not in terminal.raw
    assert f"logged in to {origin.url}" in screen
    assert "team@example.com" in screen
    assert b"\x1b[31mteam" not in terminal.raw
    assert "secret-plan" in user.run("find", "plan", "--from", origin.url)
    assert set(origin.sent("x-api-key")) == {KEY}
    assert origin.sent("authorization") == []
    assert user.store.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("way", ["stdin", "environment"])
def test_a_script_hands_a_key_over_without_an_argument(user, origin, way):
    if way == "stdin":
        told = user.run("auth", "login", origin.url, "--token-stdin", "--json", stdin=f"{KEY}\n")
    else:
        told = user.run("auth", "login", origin.url, "--api-key-env", "MY_KEY", "--json", MY_KEY=KEY)
    document = json.loads(told)
    assert (document["origin"], document["kind"], document["header"]) == (origin.url, "api_key", "X-API-Key")
    assert (document["renewable"], document["server"], document["stored_in"]) == (False, None, "file")
    (listed,) = json.loads(user.run("auth", "status", "--json"))["logins"]
    assert listed == {key: value for key, value in document.items() if key not in {"schema", "findings", "verified"}}
    assert document["verified"]
    assert KEY not in user.log


def test_a_dry_run_says_what_is_wanted_asks_nothing_and_stores_nothing(user, origin):
    told = json.loads(user.run("auth", "login", origin.url, "--dry-run", "--json"))
    assert {key: told[key] for key in ("origin", "kind", "header", "hosts", "scopes", "stored_in")} == {
        "origin": origin.url,
        "kind": "api_key",
        "header": "X-API-Key",
        "hosts": [],
        "scopes": [],
        "stored_in": "file",
    }
    assert f"would log in to {origin.url}" in user.run("auth", "login", origin.url, "--dry-run")
    origin.auth = {
        "type": "oauth2",
        "oauth2": {
            "authorization_url": "https://login.example.com/authorize",
            "token_url": "https://login.example.com/token",
            "scopes": {"read": "Read"},
        },
    }
    plan = json.loads(user.run("auth", "login", origin.url, "--dry-run", "--json"))
    assert (plan["kind"], plan["hosts"], plan["scopes"]) == ("oauth2", ["https://login.example.com"], ["read"])
    assert not user.store.exists()
    assert origin.sent("x-api-key") == []


def test_a_key_that_the_origin_refuses_is_not_kept(user, origin):
    told = user.run("auth", "login", origin.url, "--token-stdin", status=5, stdin="wrong-key\n")
    assert "error[ACCESS_DENIED]" in told
    assert "wrong-key" not in told
    assert not user.store.exists()


def test_a_key_that_a_failing_server_could_not_try_is_kept_as_not_verified(user, origin):
    origin.answer = lambda *_: (502, b"no upstream")
    told = user.run("auth", "login", origin.url, "--token-stdin", "--json", stdin=f"{KEY}\n")
    assert json.loads(told)["verified"] is False
    told = user.run("auth", "login", origin.url, "--token-stdin", stdin=f"{KEY}\n")
    assert f"stored, not verified: {origin.url}" in told
    assert "logged in" not in told
    assert "status 502" in user.log
    assert user.store.exists()


def test_a_key_is_tried_where_everything_is_public_too(user, origin):
    origin.describe()
    origin.accepts = lambda headers: headers.get("x-api-key") in {None, KEY}
    assert "error[ACCESS_DENIED]" in user.run("auth", "login", origin.url, "--token-stdin", status=5, stdin="wrong\n")
    assert not user.store.exists()
    user.run("auth", "login", origin.url, "--token-stdin", stdin=KEY)


@pytest.mark.parametrize("path", ["/team", "/team/"])
def test_a_key_is_tried_below_the_path_where_its_site_is(user, origin, path):
    """Another server has the root of the host, and refuses a key that is not its own."""
    origin.documents["/team/.well-known/agent-skills/index.json"] = {"skills": []}
    user.run("auth", "login", f"{origin.url}{path}", "--token-stdin", stdin="of-the-team")
    assert "of-the-team" in user.store.read_text()


def test_an_address_of_a_skill_is_one_of_its_origin(user, origin):
    user.run("auth", "login", f"{origin.url}/secret-plan", "--token-stdin", stdin=KEY)
    assert origin.sent("x-api-key") == [KEY]


@pytest.mark.parametrize("key", ["", "two words", "bad\x01key", "é"])
def test_what_no_header_can_hold_is_no_key(user, origin, key):
    user.run("auth", "login", origin.url, "--api-key-env", "MY_KEY", status=2, MY_KEY=key)
    assert not key.strip() or key not in user.log


def test_nobody_to_ask_is_said(user, origin):
    told = user.run("auth", "login", origin.url, "--json", status=2)
    error = json.loads(told[: told.rindex("}") + 1])["error"]
    assert error["code"] == "LOGIN_FORM"
    assert "--token-stdin" in error["fix"]


def test_an_origin_that_says_nothing_gets_a_bearer_or_the_field_that_the_user_names(user, origin):
    origin.auth = {"type": "nonsense"}
    user.run("auth", "login", origin.url, "--token-stdin", "--header", "X-API-Key", stdin=KEY)
    assert "secret-plan" in user.run("find", "plan", "--from", origin.url)
    origin.accepts = lambda headers: headers.get("authorization") == f"Bearer {KEY}"
    user.run("auth", "login", origin.url, "--token-stdin", stdin=KEY)
    assert "secret-plan" in user.run("find", "plan", "--from", origin.url)


def test_a_field_that_no_header_has_is_refused(user, origin):
    origin.auth = {"type": "api_key", "header": "X-Key: 1\r\nX-Other"}
    assert "error[LOGIN_FORM]" in user.run("auth", "login", origin.url, "--token-stdin", status=2, stdin=KEY)
    assert not user.store.exists()


def test_an_origin_that_needs_no_login_says_so(user, origin):
    origin.auth = {"type": "none"}
    origin.describe()
    origin.accepts = lambda _: True
    assert "error[LOGIN_FORM]" in user.run("auth", "login", origin.url, status=2)


def test_a_signing_key_is_kept_with_its_name(user, origin):
    origin.auth = {"type": "custom", "custom": {"instructions": "Sign the body.", "parameters": []}}
    assert "--key-id" in user.run("auth", "login", origin.url, "--token-stdin", status=2, stdin=KEY)
    assert "error[LOGIN_FORM]" in user.run(
        "auth", "login", origin.url, "--token-stdin", "--key-id", "a:b", status=2, stdin=KEY
    )
    told = user.run("auth", "login", origin.url, "--token-stdin", "--key-id", "one", status=5, stdin=KEY)
    assert "error[ACCESS_DENIED]" in told
    assert not user.store.exists()
    origin.accepts = lambda headers: headers.get("x-signature", "").startswith("one:")
    user.run("auth", "login", origin.url, "--token-stdin", "--key-id", "one", stdin=KEY)
    assert KEY not in str(origin.requests)
    stored = json.loads(user.store.read_text())[origin.url]
    assert (stored["kind"], stored["key_id"], stored["secrets"]) == ("custom", "one", {"secret": KEY})


@pytest.mark.parametrize(
    "arguments",
    [
        ["--token-stdin", "--client-secret-stdin"],
        ["--token-stdin", "--api-key-env", "X"],
        ["--client-secret-stdin", "--client-secret-env", "X"],
    ],
)
def test_a_secret_comes_from_one_place(user, origin, arguments):
    assert "error[LOGIN_FORM]" in user.run("auth", "login", origin.url, *arguments, status=2)
    assert origin.requests == []


def test_oauth_without_a_client_id_is_said(user, origin):
    urls = {"authorization_url": "https://auth.example/a", "token_url": "https://auth.example/t", "scopes": {}}
    origin.auth = {"type": "oauth2", "oauth2": urls}
    assert "--client-id" in user.run("auth", "login", origin.url, status=2)


def test_every_command_says_where_a_credential_is_and_never_what(user, origin):
    user.run("auth", "login", origin.url, "--token-stdin", stdin=KEY)
    place = "skillwire auth login, in credentials.json"
    assert place in user.run("config", "show")
    assert place in user.run("which", f"{origin.url}/secret-plan", "--explain")
    assert f"logged in to {origin.url}" in user.run("doctor", "--json")
    user.store.chmod(0o644)
    assert "error[CREDENTIALS_OPEN]" in user.run("find", "plan", "--from", origin.url, status=7)
    assert "chmod 600" in user.run("doctor", "--json", status=1)
    assert KEY not in user.log


def test_logging_out(user, origin):
    user.run("auth", "login", origin.url, "--token-stdin", stdin=KEY)
    assert f"would log out of {origin.url}" in user.run("auth", "logout", "--all", "--dry-run")
    assert f"logged out of {origin.url}" in user.run("auth", "logout", origin.url)
    assert json.loads(user.store.read_text()) == {}
    assert "error[LOGIN_MISSING]" in user.run("auth", "logout", origin.url, status=3)
    assert "error[USAGE]" in user.run("auth", "logout", status=2)
    assert json.loads(user.run("auth", "logout", "--all", "--json"))["logouts"] == []


def test_what_a_login_has_shown_is_gone_from_the_cache_after_it(user, origin):
    def kept():
        return [path for path in user.home.rglob("responses/*/*") if b"secret-plan" in path.read_bytes()]

    user.run("auth", "login", origin.url, "--token-stdin", stdin=KEY)
    user.run("find", "plan", "--from", origin.url)
    assert kept()
    user.run("auth", "logout", origin.url)
    assert not kept()


def test_a_keyring_that_there_is_not_is_said_and_nothing_is_kept(user, origin):
    backend = {"SKILLWIRE_CREDENTIAL_STORE": "keyring", "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    assert "error[KEYRING]" in user.run("auth", "login", origin.url, "--token-stdin", status=7, stdin=KEY, **backend)
    assert not user.store.exists()


def test_a_project_cannot_choose_where_secrets_go(user, origin):
    (user.folder / "skillwire.toml").write_text('credential_store = "keyring"\n')
    assert "error[SETTING_FORM]" in user.run("auth", "login", origin.url, "--token-stdin", status=2, stdin=KEY)
