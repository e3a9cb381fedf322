"""``auth login --registry``: the program shows a code, a person approves it on a page, and the token works at once."""

import json
import re
import sqlite3
import subprocess
import sys

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.http_browser import HttpBrowser
from tests.support.publishing import ServeProcess, write_skill


@pytest.fixture
def registry(tmp_path):
    """Serve a registry with the operator ``ann``; give its address, her token, and a set for more secrets.

    None of them may be in the log, or in a file of the server.
    """
    home = tmp_path / "home"
    (tmp_path / "skills").mkdir()
    made = run_command("registry", "init", "ann", env={"SKILLWIRE_HOME": str(home)}, cwd=tmp_path)
    token: str = made.out.strip()
    secrets: set[str] = set()
    with ServeProcess(tmp_path / "skills", "--registry", home=home) as server:
        yield f"http://127.0.0.1:{server.port}", token, secrets
        _, log = server.end()
    assert not [secret for secret in {token, *secrets} if secret in log]
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert not [secret for secret in {token, *secrets} if secret.encode() in kept]


@pytest.fixture
def run(tmp_path, registry):
    environment = {"SKILLWIRE_HOME": str(tmp_path / "user"), "SKILLWIRE_REGISTRY": registry[0]}

    def run(*arguments, code=0):
        done = run_command(*arguments, env=environment, cwd=tmp_path)
        assert done.code == code, done.out + done.err
        return done.out + done.err

    return run


@pytest.mark.deep
def test_a_program_logs_in_publishes_and_logs_out(tmp_path, registry, run):
    address, token, secrets = registry
    browser = HttpBrowser(address)
    assert browser.sign_in(token).status == 303
    command = [sys.executable, "-m", "skillwire", "auth", "login", "--registry", f"{address}/", "--json"]
    environment = {"SKILLWIRE_HOME": str(tmp_path / "user"), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as login:
        assert login.stderr is not None
        assert login.stdout is not None
        assert f"{address}/account/device" in login.stderr.readline()
        code = login.stderr.readline().split()[-1]
        secrets |= {code, code.replace("-", "")}
        form = {"code": code, "decision": "approve", "scope": "publish", "lifetime": "30"}
        done = browser.act("/account/device", form)
        assert "The program is logged in" in done.text
        stored = json.loads(login.stdout.read())
        assert login.wait(PATIENCE) == 0, login.stderr.read()
    credentials = json.loads((tmp_path / "user" / "state" / "credentials.json").read_text())
    secrets.add(credentials[address]["secrets"]["secret"])
    assert (stored["kind"], stored["scope"], stored["renewable"]) == ("oauth2", "publish", False)
    write_skill(tmp_path / "new", "notes")
    assert "published" in run("publish", str(tmp_path / "new" / "notes"))
    assert "token allows publish" in run("registry", "whoami")
    assert "skillwire (login)" in browser.get("/account").text
    environment = {"SKILLWIRE_HOME": str(tmp_path / "operator"), "TOKEN": token}
    done = run_command("auth", "login", address, "--api-key-env", "TOKEN", env=environment, cwd=tmp_path)
    assert done.code == 0, done.err
    listed = run_command("registry", "token", "list", "--registry", address, env=environment, cwd=tmp_path).out
    [row] = [line for line in listed.splitlines() if "skillwire (login)" in line]
    assert re.search(r"last used 20\d\d-.*expires 20\d\d-", row)
    assert "revoked" in run("auth", "logout", address)
    assert "skillwire (login)" not in browser.get("/account").text
    run("registry", "whoami", code=5)


def test_what_cannot_be_is_refused(run, registry):
    address, *_ = registry
    for arguments, code in (
        ([], "USAGE"),
        ([address, "--registry", address], "USAGE"),
        (["--registry", address, "--issuer", "https://id.example"], "LOGIN_FORM"),
        (["--registry", address, "--flow", "code"], "LOGIN_FORM"),
        (["--registry", "nonsense"], "URL"),
    ):
        assert f"[{code}]" in run("auth", "login", *arguments, code=2 if code != "URL" else 1)
    run("registry", "account", "link", "ann", code=2)
    run("registry", "account", "link", "ann", "--subject", "x", code=2)
    run("registry", "account", "link", "ann", "--issuer", "x", "--subject", "x", "--undo", code=2)
    plan = run("auth", "login", "--registry", address, "--dry-run")
    assert "read, publish" in plan
    assert f"would contact {address}" in plan


def test_audit_verify_shows_what_was_changed_in_the_database(tmp_path, registry, run):
    address, token, _ = registry
    run_command(
        "auth", "login", address, "--token-stdin", input=f"{token}\n", env={"SKILLWIRE_HOME": str(tmp_path / "user")}
    )
    run("registry", "namespace", "create", "acme")
    run("registry", "token", "create", "ci")
    assert "verified 4 entries" in run("registry", "audit", "--verify")
    owner = {"SKILLWIRE_HOME": str(tmp_path / "owner"), "SKILLWIRE_REGISTRY": address}
    made = run("registry", "token", "create", "bob's", "--account", "bob", "--scope", "admin")
    owner["TOKEN"] = re.findall(r"sw_\S+", made)[0]
    run_command("auth", "login", address, "--api-key-env", "TOKEN", env=owner)
    assert run_command("registry", "namespace", "create", "other", env=owner).code == 0
    assert "namespace.create" in run_command("registry", "audit", env=owner).out
    refused = run_command("registry", "audit", "--verify", env=owner)
    assert "error[PERMISSION_DENIED]" in refused.err, "a part of the log is no broken log"
    database = tmp_path / "home" / "state" / "skillwire.db"
    for change, undo, message in (
        (
            "UPDATE audit SET account = 'eve' WHERE number = 2",
            "UPDATE audit SET account = 'ann'",
            "entry 2 is not what",
        ),
        (
            "UPDATE audit SET at = at + 1 WHERE number = 1",
            "UPDATE audit SET at = at - 1 WHERE number = 1",
            "entry 1 is not",
        ),
        ("DELETE FROM audit WHERE number = 2", "", "entry 2 is missing"),
    ):
        with sqlite3.connect(database) as connection:
            connection.execute(change)
        told = run("registry", "audit", "--verify", code=4)
        assert "AUDIT_BROKEN" in told
        assert message in told
        with sqlite3.connect(database) as connection:
            connection.executescript(undo)
