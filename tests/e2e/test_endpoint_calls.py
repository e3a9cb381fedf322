"""``call``, ``cat`` and ``client.rpc`` against a server of ours that executes: blobs, failures, and what is closed."""

import json

import pytest
from tests.support.command import run_command
from tests.support.publishing import serving, write_skill

from skillwire import Client
from skillwire.errors import FetchError, NotFoundError, SkillwireError

MANIFEST = """name = "sheet.rows"
version = "0.1.0"
kind = "action"
namespace = "sheet"

[runtime]
language = "python"
entrypoint = "main.py"

[inputs.sheet]
type = "blob"
description = "The sheet."
required = true

[inputs.fails]
type = "boolean"
description = "Whether it fails."
default = false
"""
CODE = """import os


def main(args):
    blob = args["sheet"].removeprefix("blob:")
    with open(os.path.join(os.environ["SKILLS_BLOBS"], blob), "rb") as file:
        data = file.read()
    print("read", len(data))
    if args["fails"]:
        raise ValueError("no sheet")
    with open(os.path.join(os.environ["SKILLS_OUTPUT"], "upper.bin"), "wb") as file:
        file.write(data.upper())
    return {"rows": data.count(b"\\n")}
"""
DATA = b"name\nada\xff\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Serve three skills, one of them closed; return the endpoint, a token that opens that one, and a folder."""
    folder = tmp_path_factory.mktemp("endpoint")
    write_skill(folder / "skills", "sheet-rows", {"skill.toml": MANIFEST, "main.py": CODE})
    write_skill(folder / "skills", "notes", {"picture.bin": "\x00"})
    write_skill(folder / "skills", "secret", {"skill.toml": 'access = "restricted"\n'})
    (folder / "server.toml").write_text("[rpc]\nexecute_skill = true\n")
    (folder / "sheet.csv").write_bytes(DATA)
    made = run_command(
        "token", "create", "ann", "--skill", "secret", "-q", env={"SKILLWIRE_HOME": str(folder / "server")}
    )
    with serving(folder / "skills", folder / "server", "--config", folder / "server.toml", "--grant-all") as origin:
        yield f"{origin}/rpc", made.out.strip(), folder


@pytest.fixture
def told(place, tmp_path):
    """Run a command; return its exit code and both streams."""
    endpoint, _, folder = place

    def run(*words):
        done = run_command(
            *(word.replace("ENDPOINT", endpoint) for word in words), cwd=folder, env={"SKILLWIRE_HOME": str(tmp_path)}
        )
        return done.code, done.raw, done.err

    return run


def test_a_file_goes_in_and_what_is_left_is_read(told):
    code, out, errors = told("call", "ENDPOINT#sheet.rows", "sheet=@sheet.csv")
    assert (code, json.loads(out)) == (0, {"rows": 2}), errors
    blob = errors.split()[-3]
    assert told("cat", "ENDPOINT#sheet.rows", blob)[1] == DATA.upper()


def test_a_run_that_fails_ends_as_every_call_does(told):
    code, out, errors = told("call", "ENDPOINT#sheet.rows", "sheet=@sheet.csv", "fails=true")
    assert (code, out) == (8, b"")
    assert "read 10" in errors
    assert "error[EXECUTION_FAILED]: the skill raised ValueError: no sheet" in errors


def test_what_is_closed_is_described_and_opened_by_a_token(place, told):
    endpoint, token, _ = place
    assert told("show", "ENDPOINT#local.secret")[0] == 0
    code, _, errors = told("cat", "ENDPOINT#local.secret", "SKILL.md")
    assert (code, "error[PERMISSION_DENIED]" in errors) == (5, True)
    assert told("cat", "ENDPOINT#local.secret", "SKILL.md", "--token", token)[0] == 0
    code, _, errors = told("show", "ENDPOINT#local.secret", "--token", "sw_wrong")
    assert (code, "error[AUTH_REQUIRED]" in errors) == (5, True)
    assert f"skillwire auth login http://{endpoint.removesuffix('/rpc')}" in errors


def test_the_methods_from_python(place, tmp_path, monkeypatch):
    endpoint, _, _ = place
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    with Client(tmp_path) as client:
        rpc = client.rpc(endpoint)
        assert [skill.name for skill in rpc.iterate("sheet")] == ["sheet.rows"]
        assert rpc.read_skill_file("local.notes", "picture.bin") == b"\x00"
        large = bytes(range(256)) * 20_000  # more than a request may have
        created = rpc.create_blob(large)
        assert created.size_bytes == len(large)
        assert client.show(f"{endpoint}#sheet.rows").open(created.blob_id) == large
        run = rpc.execute_skill("sheet.rows", {"sheet": created.blob_id}, input_blobs=[created.blob_id], timeout=20)
        assert (run.status, run.output) == ("completed", {"rows": 20_000})
        with pytest.raises(FetchError, match="PERMISSION_DENIED"):
            rpc.run_code("def main(args):\n    return 1")
        for method in ("nope", "rpc.discover"):
            with pytest.raises(NotFoundError, match="RPC_METHOD"):
                rpc.call(method)
        with pytest.raises(SkillwireError, match="RPC_PARAMS"):
            rpc.call("list_skills", {"limit": 0})
