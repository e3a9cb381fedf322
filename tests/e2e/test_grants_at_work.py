"""A server that runs takes calls of a skill from the moment somebody granted it, until the folder changes."""

import json
import urllib.error
import urllib.request

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, eventually
from tests.support.publishing import serving, write_skill

MANIFEST = 'version = "1.0.0"\nkind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
CODE = "def main(args):\n    return {}\n"
CALL = {"skill_id": "local/adder", "inputs": {}, "caller": {"id": "test", "type": "agent"}}


@pytest.fixture
def folder(tmp_path):
    return write_skill(tmp_path / "skills", "adder", {"main.py": CODE, "skill.toml": MANIFEST})


@pytest.fixture
def origin(tmp_path, folder):
    with serving(folder.parent, tmp_path / "home") as origin:
        yield origin


def call(origin):
    """Call the skill; return the status and the document."""
    request = urllib.request.Request(
        f"http://{origin}/skills/adder/executions", json.dumps(CALL).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  # a server of this test
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def skillwire(home, *arguments):
    assert run_command(*arguments, env={"SKILLWIRE_HOME": str(home)}).code == 0


def assert_not_granted(origin):
    """Hold a call to be refused, soon: the server takes a grant for good for a few seconds, and its workers do not."""
    status, document = eventually(lambda: call(origin), lambda answer: answer[0] != 202, every=0.05)
    assert (status, document["error"]["code"]) == (503, "ENDPOINT_UNREACHABLE")
    assert document["error"]["details"]["reason"] == "not_granted"


def test_a_call_is_taken_while_exactly_this_is_granted(tmp_path, folder, origin):
    assert_not_granted(origin)
    skillwire(tmp_path / "home", "grant", "add", folder, "--yes")
    assert call(origin)[0] == 202
    skillwire(tmp_path / "home", "grant", "revoke", "adder")
    assert_not_granted(origin)
    skillwire(tmp_path / "home", "grant", "add", folder, "--yes")
    assert call(origin)[0] == 202
    (folder / "main.py").write_text(f"{CODE}# something else wrote this\n")
    assert_not_granted(origin)
    skillwire(tmp_path / "home", "grant", "add", folder, "--yes")
    assert call(origin)[0] == 202
