"""``skillwire serve`` with a real authorization server: who gets what with which token, and who logs in to it."""

import json
import sys
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.oidc_provider import (
    JWT_RESOURCE,
    NATIVE,
    OPAQUE_RESOURCE,
    RESOURCE_SERVER,
    oidc_provider,
    running_oidc_provider,
)
from tests.support.publishing import ServeProcess, write_skill

pytestmark = pytest.mark.deep
__all__ = ["oidc_provider"]
INDEX = "/.well-known/agent-skills/index.json"
PROJECT = Path(__file__).parents[2]
PERSON = """
import sys
sys.path.insert(0, {project!r})
from tests.support.oidc_provider import OidcProvider
OidcProvider({issuer!r}, {{}}).approve(sys.argv[1], visit_callback=True)
"""


def start(folder, provider, audience, patch=""):
    """Serve two private skills and a restricted one, to whom ``provider`` vouches for."""
    for name, access in (("forecast", "private"), ("billing", "private"), ("staff-guide", "restricted")):
        write_skill(folder / "skills", name, {"skill.toml": f'access = "{access}"\n'})
    write_skill(folder / "skills", "open-notes")
    secret = folder / "secret"
    secret.write_text(str(RESOURCE_SERVER.secret))
    secret.chmod(0o600)
    (folder / "server.toml").write_text(f"""
[auth]
offer = "oauth2"
[oauth2]
issuer = "{provider.issuer}"
audience = "{audience}"
authorization_url = "{provider.authorization_endpoint}"
token_url = "{provider.token_endpoint}"
client_id = "{RESOURCE_SERVER.client_id}"
client_secret_file = "secret"
scopes = {{ "skill:forecast" = "Read the forecast" }}
[grants]
subjects = {{ "alice" = ["billing"] }}
""")
    return ServeProcess(folder / "skills", "--config", folder / "server.toml", home=folder / "home", patch=patch)


@pytest.fixture(scope="module", params=[JWT_RESOURCE, OPAQUE_RESOURCE], ids=["jwt", "opaque"])
def audience(request):
    return request.param


@pytest.fixture(scope="module")
def server(oidc_provider, audience, tmp_path_factory):
    with start(tmp_path_factory.mktemp("company"), oidc_provider, audience) as running:
        running.wait_for(lambda ready: ready["skills"] == 1)
        yield running


@pytest.fixture
def bearer(oidc_provider, audience):
    """Return the header fields that show a new token of the service."""

    def make(scope="skill:forecast"):
        return {"Authorization": f"Bearer {oidc_provider.token(resource=audience, scope=scope)}"}

    return make


def names(answer):
    return {skill["name"] for skill in answer.json()["skills"]}


def file_of(skill):
    return f"/.well-known/agent-skills/{skill}/SKILL.md"


@pytest.mark.spec("SSP-auth-oauth2")
def test_a_token_opens_the_private_skills_of_its_scopes_and_no_others(server, bearer):
    fields = bearer()
    assert names(server.get(INDEX)) == {"open-notes"}
    assert names(server.get(INDEX, fields)) == {"open-notes", "forecast"}
    assert server.get(file_of("forecast"), fields).status == 200
    assert server.get(file_of("billing"), fields).status == 404
    assert server.get(file_of("forecast")).status == 404
    assert names(server.get(INDEX, bearer("skill:*"))) == {"open-notes", "forecast", "billing", "staff-guide"}


@pytest.mark.spec("SSP-auth-required")
def test_without_a_token_the_answer_says_where_to_get_one(server, oidc_provider):
    answer = server.get(file_of("staff-guide"))
    metadata = f"http://127.0.0.1:{server.port}/.well-known/oauth-protected-resource"
    expected = f'Bearer realm="skills", resource_metadata="{metadata}"'
    assert (answer.status, answer.fields["www-authenticate"]) == (401, expected)
    error = answer.json()["error"]
    assert error == {
        "code": "AUTH_REQUIRED",
        "message": "Authentication is required to use this skill",
        "details": {
            "required_auth_type": "oauth2",
            "authorization_url": oidc_provider.authorization_endpoint,
            "token_url": oidc_provider.token_endpoint,
        },
        "retry": {"suggested_delay_ms": 0, "max_attempts": 1},
    }


@pytest.mark.spec("SSP-permission-denied")
def test_a_token_that_does_not_suffice_is_told_what_it_grants(server, bearer):
    answer = server.get(file_of("staff-guide"), bearer("skill:forecast publish"))
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (403, "PERMISSION_DENIED")
    assert set(error["details"]["granted_scopes"]) == {"skill:forecast", "publish"}


def test_a_token_that_was_made_up_is_refused(server, oidc_provider):
    for token in ("made-up", "a.b.c", "sw_made-up"):
        answer = server.get(INDEX, {"Authorization": f"Bearer {token}"})
        error = answer.json()["error"]
        assert (answer.status, error["code"]) == (401, "AUTH_REQUIRED")
        assert error["details"]["authorization_url"] == oidc_provider.authorization_endpoint


def test_a_token_that_has_ended_is_refused(tmp_path, oidc_provider, audience, bearer):
    """The server's clock is ahead, so that nobody has to wait."""
    ahead = "import time\nreal = time.time\ntime.time = lambda: real() + 1000"
    with start(tmp_path, oidc_provider, audience, ahead) as later:
        later.wait_for(lambda ready: ready["skills"] == 1)
        answer = later.get(INDEX, bearer())
        reason = "expired" if audience == JWT_RESOURCE else "inactive"  # who asks the issuer hears nothing more exact
        assert (answer.status, answer.json()["error"]["details"]["reason"]) == (401, reason)


def test_an_issuer_that_is_down_is_no_fault_of_the_caller(tmp_path, audience):
    with running_oidc_provider() as provider:
        token = provider.token(resource=audience)
        running = start(tmp_path, provider, audience)
    with running:
        running.wait_for(lambda ready: ready["skills"] == 1)
        answer = running.get(INDEX, {"Authorization": f"Bearer {token}"})
        assert (answer.status, answer.json()["error"]["code"]) == (503, "ENDPOINT_UNREACHABLE")
        assert int(answer.fields["retry-after"]) >= 1
        assert names(running.get(INDEX)) == {"open-notes"}


def test_a_person_logs_in_and_installs_a_private_skill(oidc_provider, tmp_path):
    person = tmp_path / "person.py"
    person.write_text(PERSON.format(project=str(PROJECT), issuer=oidc_provider.issuer))
    environment = {
        "SKILLWIRE_HOME": str(tmp_path / "user"),
        "SKILLWIRE_ALLOW": oidc_provider.issuer,
        "BROWSER": f"{sys.executable} {person} %s",
    }
    project = tmp_path / "project"
    project.mkdir()

    def run(*arguments, status=0):
        done = run_command(*arguments, cwd=project, env=environment)
        assert done.code == status, done.out + done.err
        return done.out

    with start(tmp_path / "company", oidc_provider, JWT_RESOURCE) as server:
        server.wait_for(lambda ready: ready["skills"] == 1)
        origin = f"http://127.0.0.1:{server.port}"
        run("show", f"{origin}/billing", status=3)
        login = json.loads(run("auth", "login", origin, "--client-id", NATIVE.client_id, "--yes", "--json"))
        assert (login["kind"], login["server"], login["scope"]) == ("oauth2", oidc_provider.issuer, "skill:forecast")
        assert "billing" in run("find", "--from", origin)
        for name in ("billing", "forecast"):
            assert name in run("show", f"{origin}/{name}")
            run("add", f"{origin}/{name}", "--yes", "--agent", "universal")
            assert (project / ".agents/skills" / name / "SKILL.md").is_file()
        run("auth", "logout", origin)
        run("show", f"{origin}/billing", status=3)
