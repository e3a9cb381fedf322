"""Somebody who knows nothing but the address of our server logs in at a real authorization server, and adds a skill."""

import json

import pytest
from tests.interop.hosting import Serve
from tests.support.command import run_command
from tests.support.free_port import free_port
from tests.support.oidc_provider import JWT_RESOURCE, SERVICE, oidc_provider, running_oidc_provider
from tests.support.publishing import ServeProcess, write_skill

pytestmark = pytest.mark.deep
__all__ = ["oidc_provider"]
CONFIGURATION = """
[auth]
offer = "oauth2"
[oauth2]
issuer = "{issuer}"
audience = "{audience}"
authorization_url = "{authorization}"
token_url = "{token}"
[oauth2.scopes]
"skill:forecast" = "Forecasts"
"""


@pytest.mark.parametrize("access", ["private", "restricted"])
def test_address_of_a_server_whose_skills_are_all_closed_is_enough(tmp_path, oidc_provider, access):
    write_skill(tmp_path / "skills", "forecast", {"skill.toml": f'access = "{access}"\n'})
    settings = tmp_path / "server.toml"
    settings.write_text(
        CONFIGURATION.format(
            issuer=oidc_provider.issuer,
            audience=JWT_RESOURCE,
            authorization=oidc_provider.authorization_endpoint,
            token=oidc_provider.token_endpoint,
        )
    )
    project = tmp_path / "project"
    project.mkdir()
    environment = {
        "SKILLWIRE_HOME": str(tmp_path / "home"),
        "SKILLWIRE_ALLOW": oidc_provider.issuer,
        "SECRET": str(SERVICE.secret),
    }

    def run(*arguments):
        done = run_command(*arguments, cwd=project, env=environment)
        assert done.code == 0, done.out + done.err
        return done.out

    with ServeProcess(tmp_path / "skills", "--config", settings, home=tmp_path / "server") as server:
        server.wait_for(lambda ready: ready.get("status") == "ready")
        origin = f"http://127.0.0.1:{server.port}"
        client = ["--client-id", SERVICE.client_id, "--client-secret-env", "SECRET"]
        done = json.loads(run("auth", "login", origin, *client, "--yes", "--json"))
        assert done["scope"] == "skill:forecast"
        run("add", f"{origin}/forecast", "--yes", "--agent", "codex")
    assert (project / ".agents/skills/forecast/SKILL.md").is_file()


@pytest.fixture
def strict(tmp_path):
    """Serve a skill, at an address that is the audience, for an issuer that makes tokens for named resources only."""
    port = free_port()
    write_skill(tmp_path / "skills", "forecast", {"skill.toml": 'access = "restricted"\n'})
    with running_oidc_provider() as provider:
        settings = tmp_path / "server.toml"
        settings.write_text(
            CONFIGURATION.format(
                issuer=provider.issuer,
                audience=f"http://127.0.0.1:{port}/",
                authorization=provider.authorization_endpoint,
                token=provider.token_endpoint,
            )
        )
        with Serve(tmp_path / "skills", tmp_path / "host", "--config", settings, "--port", port) as server:
            yield provider, server.url


def log_in(tmp_path, provider, origin, *arguments):
    environment = {
        "SKILLWIRE_HOME": str(tmp_path / "home"),
        "SKILLWIRE_ALLOW": provider.issuer,
        "SECRET": str(SERVICE.secret),
    }
    client = ["--client-id", SERVICE.client_id, "--client-secret-env", "SECRET", "--yes"]
    done = run_command("auth", "login", origin, *client, *arguments, cwd=tmp_path, env=environment)
    listed = run_command("find", "forecast", "--from", origin, cwd=tmp_path, env=environment)
    return done, listed


def test_login_requests_the_resource_that_the_server_names(tmp_path, strict):
    provider, origin = strict
    provider.add_resource(f"{origin}/", "skill:forecast")
    done, listed = log_in(tmp_path, provider, origin, "--json")
    assert (done.code, listed.code) == (0, 0), done.err + listed.err
    assert json.loads(done.out)["scope"] == "skill:forecast"


@pytest.mark.parametrize("arguments", [(), ("--resource", "https://skills.example/")])
def test_token_that_opens_nothing_is_told_and_not_stored(tmp_path, strict, arguments):
    provider, origin = strict
    provider.add_resource("https://elsewhere.example/", "skill:forecast")
    done, listed = log_in(tmp_path, provider, origin, *arguments)
    assert done.code == 5
    assert "error[ACCESS_DENIED]: the origin refuses the token; it is not stored: " in done.err
    assert "Name what its tokens have to be for with --resource" in done.err
    assert listed.code == 0, listed.err  # what is public stays readable
