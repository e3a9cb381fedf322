"""Each way to log in, as a user types it, at a real authorization server."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.oidc_provider import NATIVE, SERVICE, oidc_provider
from tests.support.private_origin import private_origin, takes_live_tokens
from tests.support.terminal import Terminal

pytestmark = pytest.mark.deep
__all__ = ["oidc_provider"]
PROJECT = Path(__file__).parents[2]
PERSON = """
import sys
sys.path.insert(0, {project!r})
from tests.support.oidc_provider import OidcProvider
OidcProvider({issuer!r}, {{}}).approve(sys.argv[1], visit_callback=True)
"""


@pytest.fixture
def origin():
    with private_origin() as origin:
        origin.accepts = takes_live_tokens
        yield origin


class User:
    """Somebody with an empty home; ``run`` is what they type, ``log`` all that they ever saw."""

    def __init__(self, folder, provider):
        self.home = folder / "skillwire"
        self.folder = folder / "project"
        self.folder.mkdir()
        person = folder / "person.py"
        person.write_text(PERSON.format(project=str(PROJECT), issuer=provider.issuer))
        self.log = ""
        self.environment = {
            **os.environ,
            "SKILLWIRE_HOME": str(self.home),
            "SKILLWIRE_ALLOW": provider.issuer,
            "BROWSER": f"{sys.executable} {person} %s",
            "SECRET": str(SERVICE.secret),
        }

    def command(self, *arguments):
        return [sys.executable, "-m", "skillwire", "--debug", *arguments]

    def run(self, *arguments, status=0, stdin="", **environment):
        environment = {**self.environment, **environment}
        done = run_command("--debug", *arguments, cwd=self.folder, env=environment, input=stdin)
        self.log += done.out + done.err
        assert done.code == status, done.out + done.err
        return done.out if status == 0 else done.err

    def terminal(self, *arguments):
        return Terminal(self.command(*arguments), cwd=self.folder, environment=self.environment, columns=200)

    @property
    def store(self):
        return self.home / "state" / "credentials.json"

    def stored(self, origin):
        return json.loads(self.store.read_text())[origin.url]

    def change(self, origin, **fields):
        document = json.loads(self.store.read_text())
        document[origin.url].update(fields)
        self.store.write_text(json.dumps(document))


@pytest.fixture
def user(tmp_path, oidc_provider):
    return User(tmp_path, oidc_provider)


def wants_oauth(origin, provider, **scopes):
    origin.auth = {
        "type": "oauth2",
        "oauth2": {
            "authorization_url": provider.authorization_endpoint,
            "token_url": provider.token_endpoint,
            "scopes": scopes or {"skill:forecast": "Forecasts"},
        },
    }
    origin.describe()


def asked(origin, field="authorization"):
    values = origin.sent(field)
    origin.requests.clear()
    return values


def test_a_person_logs_in_in_the_browser_and_installs(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    user.run("find", "plan", "--from", origin.url, status=5)
    assert asked(origin) == []
    done = json.loads(user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes", "--json"))
    assert (done["kind"], done["renewable"], done["server"]) == ("oauth2", True, oidc_provider.issuer)
    assert done["stored_in"] == "file"
    user.run("add", f"{origin.url}/secret-plan", "--yes", "--agent", "codex")
    assert (user.folder / ".agents/skills/secret-plan/SKILL.md").is_file()
    token = user.stored(origin)["secrets"]["secret"]
    assert set(asked(origin)) == {f"Bearer {token}"}
    assert user.store.stat().st_mode & 0o777 == 0o600
    assert origin.url in user.run("auth", "status")


def test_tokens_are_renewed_ahead_of_their_end_and_the_refresh_token_rotates(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes")
    before = user.stored(origin)
    assert asked(origin) == [f"Bearer {before['secrets']['secret']}"]  # tried once
    user.change(origin, expires_at=before["expires_at"] - 250)
    user.run("find", "plan", "--from", origin.url)
    after = user.stored(origin)
    assert after["secrets"]["secret"] != before["secrets"]["secret"]
    assert after["secrets"]["refresh_token"] != before["secrets"]["refresh_token"]
    assert after["login"] == before["login"]
    assert set(asked(origin)) == {f"Bearer {after['secrets']['secret']}"}


def test_a_token_that_is_refused_is_renewed_once(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes")
    before = user.stored(origin)["secrets"]["secret"]
    origin.accepts = lambda headers: headers.get("authorization", before) != f"Bearer {before}"
    asked(origin)
    user.run("find", "plan", "--from", origin.url)
    after = user.stored(origin)["secrets"]["secret"]
    first, *others = asked(origin)
    assert first == f"Bearer {before}"
    assert set(others) == {f"Bearer {after}"}


def test_an_origin_that_refuses_every_token_makes_one_renewal(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes")
    origin.accepts = lambda _: False
    asked(origin)
    told = user.run("find", "plan", "--from", origin.url, status=5)
    assert "ACCESS_DENIED" in told
    assert len(set(asked(origin))) == 2


def test_a_refused_refresh_says_to_log_in_again(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes")
    stored = user.stored(origin)
    form = {"token": stored["secrets"]["refresh_token"], "client_id": NATIVE.client_id}
    oidc_provider.post(oidc_provider.revocation_endpoint, form)
    user.change(origin, expires_at=stored["expires_at"] - 1000)
    told = user.run("find", "plan", "--from", origin.url, status=5)
    assert "error[LOGIN_EXPIRED]" in told
    assert "skillwire auth login" in told


def test_many_processes_at_once_renew_once(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes")
    stored = user.stored(origin)
    user.change(origin, expires_at=stored["expires_at"] - 250)
    asked(origin)
    command = user.command("find", "plan", "--from", origin.url, "--refresh")
    running = [
        subprocess.Popen(command, env=user.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in running:
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
    # Another use of an old refresh token would have been taken for theft, and ended the grant.
    assert set(asked(origin)) == {f"Bearer {user.stored(origin)['secrets']['secret']}"}
    user.change(origin, expires_at=0)
    user.run("find", "plan", "--from", origin.url, "--refresh")


def test_a_login_on_another_device(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    with user.terminal("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--flow", "device") as terminal:
        terminal.until("Log in at")
        terminal.type("y\n")
        screen = terminal.until("enter the code")
        code = screen.partition("enter the code ")[2].split()[0]
        oidc_provider.approve(f"{oidc_provider.issuer}/device?user_code={code}")
        terminal.until("logged in to")
        assert terminal.wait() == 0
    user.run("find", "plan", "--from", origin.url)


def test_a_program_logs_in_with_its_own_secret_and_gets_new_tokens_by_it(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    arguments = ["--client-id", SERVICE.client_id, "--client-secret-env", "SECRET", "--yes"]
    user.run("auth", "login", origin.url, *arguments)
    first = user.stored(origin)
    user.change(origin, expires_at=1)
    user.run("find", "plan", "--from", origin.url)
    assert user.stored(origin)["secrets"]["secret"] != first["secrets"]["secret"]
    arguments[2:4] = ["--client-secret-stdin"]
    user.run("auth", "login", origin.url, *arguments, stdin="wrong\n", status=5)
    assert "error[LOGIN_REFUSED]" in user.log


def test_the_metadata_of_a_protected_resource_is_enough(user, origin, oidc_provider):
    origin.documents["/.well-known/oauth-protected-resource"] = {
        "resource": origin.url,
        "authorization_servers": [oidc_provider.issuer],
        "scopes_supported": ["skill:forecast"],
    }
    origin.challenge = f'Bearer resource_metadata="{origin.url}/.well-known/oauth-protected-resource"'
    done = json.loads(user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes", "--json"))
    assert done["scope"] == "skill:forecast"
    user.run("find", "plan", "--from", origin.url)


def test_the_issuer_may_be_named(user, origin, oidc_provider):
    arguments = ["--issuer", oidc_provider.issuer, "--client-id", NATIVE.client_id, "--scope", "skill:forecast"]
    user.run("auth", "login", origin.url, *arguments, SKILLWIRE_ALLOW="")
    user.run("find", "plan", "--from", origin.url, SKILLWIRE_ALLOW="")


def test_nobody_is_sent_to_a_server_without_consent(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    told = user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, status=4)
    assert "error[LOGIN_NOT_AGREED]" in told
    assert "requested scopes: skill:forecast" in " ".join(told.split())
    assert oidc_provider.issuer in told
    assert not user.store.exists()


def test_a_server_inside_the_network_is_not_contacted_for_a_strangers_word(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    told = user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes", status=4, SKILLWIRE_ALLOW="")
    assert "error[PORT_REFUSED]" in told


def test_logging_out_revokes_and_forgets(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes")
    refresh_token = user.stored(origin)["secrets"]["refresh_token"]
    assert json.loads(user.run("auth", "logout", origin.url, "--dry-run", "--json"))["logouts"][0]["revoked"] is False
    done = json.loads(user.run("auth", "logout", origin.url, "--json"))
    assert done["logouts"] == [{"origin": origin.url, "revoked": True}]
    assert json.loads(user.store.read_text()) == {}
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": NATIVE.client_id}
    assert oidc_provider.post(oidc_provider.token_endpoint, form)["error"] == "invalid_grant"
    assert "error[LOGIN_MISSING]" in user.run("auth", "logout", origin.url, status=3)
    user.run("auth", "logout", "--all")


def _redirect_of(terminal):
    screen = terminal.until("code_challenge_method=S256")
    url = next(part for part in screen.split() if "redirect_uri" in part)
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("state={state}&iss=https://other.example&code=c", "LOGIN_STATE"),
        ("state={state}&code=c", "LOGIN_STATE"),
        ("state={state}&iss={iss}&error=access_denied", "LOGIN_DENIED"),
        ("state={state}&iss={iss}&code=made-up", "LOGIN_REFUSED"),
        ("state={state}&iss={iss}&code=a&code=b", "LOGIN_ANSWER"),
    ],
)
def test_an_answer_that_does_not_fit_ends_the_login(user, origin, oidc_provider, answer, code):
    wants_oauth(origin, oidc_provider)
    command = ["auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes", "--flow", "code", "--no-browser"]
    with Terminal(
        user.command(*command), cwd=user.folder, environment=user.environment, columns=1000, lines=40
    ) as terminal:
        fields = _redirect_of(terminal)
        target = answer.format(state=fields["state"], iss=oidc_provider.issuer)
        with urllib.request.urlopen(f"{fields['redirect_uri']}?{target}") as response:  # noqa: S310  # of loopback
            page = response.read().decode()
        assert terminal.wait() in {1, 4, 5}
        assert f"error[{code}]" in terminal.text()
    assert "skillwire has the answer" in page
    assert not user.store.exists()


def test_an_answer_of_no_login_of_ours_does_not_end_this_one(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    command = ["auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes", "--flow", "code", "--no-browser"]
    with Terminal(
        user.command(*command), cwd=user.folder, environment=user.environment, columns=1000, lines=40
    ) as terminal:
        question = next(part for part in terminal.until("code_challenge_method=S256").split() if "redirect_uri" in part)
        callback = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(question).query))["redirect_uri"]
        for query in ("", "?code=c", "?state=wrong&code=c"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(callback + query)  # noqa: S310  # of loopback
            caught.value.close()
            assert caught.value.code == 400
        oidc_provider.approve(question, visit_callback=True)
        terminal.until("logged in to")
        assert terminal.wait() == 0


def test_nothing_that_a_login_printed_or_wrote_shows_a_secret(user, origin, oidc_provider):
    wants_oauth(origin, oidc_provider)
    secrets = set()
    user.run("auth", "login", origin.url, "--client-id", NATIVE.client_id, "--yes", "--json")
    secrets |= set(user.stored(origin)["secrets"].values())
    user.change(origin, expires_at=1)
    user.run("find", "plan", "--from", origin.url, "--json")
    secrets |= set(user.stored(origin)["secrets"].values())
    user.run("which", f"{origin.url}/secret-plan", "--explain")
    user.run("config", "show", "--origin")
    user.run("doctor", "--json")
    user.run("auth", "status", "--json")
    user.run("add", f"{origin.url}/secret-plan", "--yes", "--agent", "codex", "--json")
    form = {"token": user.stored(origin)["secrets"]["refresh_token"], "client_id": NATIVE.client_id}
    oidc_provider.post(oidc_provider.revocation_endpoint, form)
    user.change(origin, expires_at=1)
    user.run("find", "plan", "--from", origin.url, status=5)
    user.run("auth", "login", origin.url, "--client-id", SERVICE.client_id, "--client-secret-env", "SECRET", "--yes")
    secrets |= set(user.stored(origin)["secrets"].values())
    assert len(secrets) >= 6
    assert "skillwire auth login, in credentials.json" in user.log
    for path in [*user.home.rglob("*"), *user.folder.rglob("*")]:
        if not path.is_file():
            continue
        content = path.read_bytes()
        found = [secret for secret in secrets if secret.encode() in content]
        assert not found or path == user.store, path
    assert not [secret for secret in secrets if secret in user.log]
