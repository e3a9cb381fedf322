"""Somebody who knows nothing but the address of our server logs in at a real authorization server, and adds a skill."""

import json

import pytest
from tests.support.command import run_command
from tests.support.oidc_provider import JWT_RESOURCE, SERVICE, oidc_provider
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
