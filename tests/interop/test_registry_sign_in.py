"""People sign in to a registry at a real OpenID Connect provider, and a client from npm logs in by the device flow."""

import json
import subprocess
import sys
import urllib.request

import pytest
from tests.interop.peers import find_peer
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.http_browser import HttpBrowser
from tests.support.oidc_provider import CONSOLE, JWT_RESOURCE, oidc_provider
from tests.support.publishing import ServeProcess

pytestmark = pytest.mark.deep
__all__ = ["oidc_provider"]


@pytest.fixture
def registry(tmp_path, oidc_provider, monkeypatch):
    """Serve a registry; give its address, with the token of its operator in the environment."""
    home = tmp_path / "home"
    (tmp_path / "skills").mkdir()
    (tmp_path / "secret").write_text(str(CONSOLE.secret))
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "server.toml").write_text(f"""
[oauth2]
issuer = "{oidc_provider.issuer}"
audience = "{JWT_RESOURCE}"
client_id = "{CONSOLE.client_id}"
client_secret_file = "secret"
sign_in = "anyone"
""")
    made = run_command("registry", "init", "root", env={"SKILLWIRE_HOME": str(home)}, cwd=tmp_path)
    monkeypatch.setenv("ROOT", made.out.strip())
    with ServeProcess(tmp_path / "skills", "--registry", "--config", tmp_path / "server.toml", home=home) as server:
        yield f"http://127.0.0.1:{server.port}"


def sign_in(registry, provider, following=""):
    browser = HttpBrowser(registry)
    begun = browser.get(f"/account/sign-in?next={following}")
    assert begun.status == 303
    assert begun.location.startswith(provider.issuer)
    return browser, browser.get(provider.approve(begun.location))


def test_a_person_makes_an_account_and_signs_in_again(registry, oidc_provider):
    browser, page = sign_in(registry, oidc_provider)
    assert 'content="0; url=../../account/new"' in page.text
    assert 'value="alice"' in browser.get("/account/new").text
    assert browser.get("/account/new", {"account": "root"}).status == 422
    assert browser.get("/account/new", {"account": "alice"}).location == "/account"
    assert "alice" in browser.get("/account").text
    second, page = sign_in(registry, oidc_provider, "/account/device")
    assert 'content="0; url=../../account/device"' in page.text
    assert "Log in a program" in second.get("/account/device").text


def test_an_answer_counts_in_its_browser_and_once(registry, oidc_provider):
    browser, thief = HttpBrowser(registry), HttpBrowser(registry)
    answer = oidc_provider.approve(browser.get("/account/sign-in").location)
    assert thief.get(answer).status == 403
    thief.get("/account/sign-in")
    assert thief.get(answer).status == 403
    assert browser.get(answer).status == 200
    assert browser.get(answer).status == 403


def test_openid_client_logs_in_by_the_device_flow(registry, oidc_provider):
    browser, _ = sign_in(registry, oidc_provider)
    browser.get("/account/new", {"account": "alice"})
    command = [*find_peer("device_client"), registry, "read publish"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr) as client:
        assert client.stdout is not None
        begun = json.loads(client.stdout.readline())
        assert begun["verification_uri"] == f"{registry}/account/device"
        shown = browser.act("/account/device", {"code": begun["user_code"]})
        assert "openid-client" in shown.text
        form = {"code": begun["user_code"], "decision": "approve", "scope": "publish", "lifetime": "1"}
        assert "The program is logged in" in browser.act("/account/device", form).text
        token = json.loads(client.stdout.readline())
        assert (token["scope"], token["expires_in"]) == ("publish", 86_400)
        assert json.loads(client.stdout.readline()) == {"revoked": True}
        assert client.wait(PATIENCE) == 0
    assert token["access_token"].split("_")[1] not in browser.get("/account").text


def test_an_operator_links_an_account(registry, oidc_provider, tmp_path):
    environment = {"SKILLWIRE_HOME": str(tmp_path / "user"), "SKILLWIRE_REGISTRY": registry}

    def run(*arguments, code=0):
        done = run_command(*arguments, env=environment, cwd=tmp_path)
        assert done.code == code, done.out + done.err
        return done.out

    run("auth", "login", registry, "--api-key-env", "ROOT")
    run("registry", "token", "create", "bob's", "--account", "bob")
    link = ["registry", "account", "link", "bob", "--issuer", oidc_provider.issuer, "--subject", "alice"]
    run(*link)
    run("registry", "account", "link", "carl", "--undo", code=3)
    browser, page = sign_in(registry, oidc_provider)
    assert 'content="0; url=../../account"' in page.text
    assert "bob" in browser.get("/account").text
    assert "account.link" in run("registry", "audit")
    assert "verified" in run("registry", "audit", "--verify")
    assert urllib.request.urlopen(f"{registry}/.well-known/oauth-authorization-server").status == 200  # noqa: S310  # of loopback


def test_a_person_signs_in_to_the_console_of_a_server_without_accounts(tmp_path, oidc_provider):
    (tmp_path / "skills").mkdir()
    (tmp_path / "secret").write_text(str(CONSOLE.secret))
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "server.toml").write_text(f"""
[oauth2]
issuer = "{oidc_provider.issuer}"
audience = "{JWT_RESOURCE}"
client_id = "{CONSOLE.client_id}"
client_secret_file = "secret"
sign_in = "linked"

[console]
operators = ["alice"]
""")
    home = tmp_path / "home"
    with ServeProcess(tmp_path / "skills", "--config", tmp_path / "server.toml", home=home) as server:
        browser, page = sign_in(f"http://127.0.0.1:{server.port}", oidc_provider, "/inbox")
        assert 'content="0; url=../../inbox"' in page.text
        assert "<h1>Inbox</h1>" in browser.get("/inbox").text
        assert "<h1>Executions</h1>" in browser.get("/executions").text
