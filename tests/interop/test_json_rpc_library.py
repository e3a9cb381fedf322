"""A JSON-RPC client that no one here wrote (pjrpc) drives ``/rpc``: calls, batches, notifications and every error."""

import hashlib

import pytest
from tests.interop.skill_samples import EXAMPLES, copy_examples
from tests.support.publishing import ServeProcess

errors = pytest.importorskip("pjrpc.client.exceptions", reason="pjrpc is not installed")
backend = pytest.importorskip("pjrpc.client.backend.aiohttp", reason="pjrpc has no client over aiohttp here")
common = pytest.importorskip("pjrpc.common", reason="pjrpc is not installed")
NAME = "calendar.working.days"
CALL = {"start": "2026-11-20", "days": 3}
CONTENT = b"a,b\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("json-rpc")
    (work / "skills").mkdir()
    copy_examples(work / "skills")
    (work / "server.toml").write_text("[rpc]\nexecute_skill = true\n")
    options = ("--grant-all", "--config", work / "server.toml", "--no-access-log")
    with ServeProcess(work / "skills", *options, home=work / "home") as running:
        yield running


@pytest.fixture
async def client(server):
    async with backend.Client(f"http://127.0.0.1:{server.port}/rpc") as client:
        yield client


async def test_it_lists_describes_and_reads(client):
    names, cursor = [], None
    while True:
        page = await client.proxy.list_skills(limit=5, detail="summary", **({"cursor": cursor} if cursor else {}))
        names += [skill["name"] for skill in page["skills"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == sorted(names)
    assert len(names) == len([folder for folder in EXAMPLES.iterdir() if (folder / "SKILL.md").is_file()])
    described = await client.proxy.describe_skill(name=NAME)
    assert described["skill"]["manifest"]["runtime"]["language"] == "python"
    read = await client.proxy.read_skill_file(name=NAME, path="SKILL.md")
    assert read["content"] == (EXAMPLES / "working-days" / "SKILL.md").read_text()
    assert "list_skills" in (await client("load_skills_protocol_guide"))["content"]


async def test_it_executes_and_keeps_blobs(client):
    run = await client.proxy.execute_skill(name=NAME, args=CALL)
    assert (run["status"], run["output"]["end"]) == ("completed", "2026-11-25")
    failed = await client.proxy.execute_skill(name=NAME, args={"start": "never", "days": 1})
    assert failed["status"] == "failed"
    assert failed["error"]["message"]
    blob = await client.proxy.create_blob(content=CONTENT.decode(), kind="text/csv")
    assert blob == {"blob_id": f"blob:{hashlib.sha256(CONTENT).hexdigest()}", "size_bytes": len(CONTENT)}
    assert (await client.proxy.read_blob(blob_id=blob["blob_id"]))["content"] == CONTENT.decode()


async def test_it_sends_batches_and_notifications(client):
    async with client.batch() as batch:
        batch.proxy.list_skills(limit=1)
        batch.proxy.describe_skill(name=NAME, detail="manifest")
    listed, described = batch.get_results()
    assert (len(listed["skills"]), described["skill"]["manifest"]["name"]) == (1, NAME)
    async with client.batch() as batch:
        batch.proxy.list_skills(limit=1)
        batch.notify("list_skills")
        batch.proxy.describe_skill(name="no.such.skill")
    answered, refused = batch.get_response()
    assert (answered.is_success, refused.is_error, refused.error.code) == (True, True, -32001)
    async with client.batch() as batch:
        batch.notify("list_skills")
        batch.notify("no_such_method")
    assert batch.get_response() is None
    assert await client.notify("list_skills") is None


@pytest.mark.parametrize("request_id", ["text", 0, 123456789012345])
async def test_ids_come_back_as_they_went(client, request_id):
    answer = await client.send(common.Request("list_skills", {"limit": 1}, id=request_id))
    assert answer.id == request_id


async def test_it_tells_each_error_by_its_number(client):
    for method, params, code in (
        ("no_such_method", {}, -32601),
        ("list_skills", {"limit": 0}, -32602),
        ("list_skills", {"nonsense": 1}, -32602),
        ("list_skills", {"cursor": "x"}, -32602),
        ("describe_skill", {"name": "no.such.skill"}, -32001),
        ("describe_skill", {"name": NAME, "version": "9.9.9"}, -32001),
        ("read_skill_file", {"name": NAME, "path": "no/such.md"}, -32002),
        ("read_skill_file", {"name": NAME, "path": "../working-days/SKILL.md"}, -32003),
        ("run_code", {"code": "def main(args): ...\n"}, -32004),
    ):
        with pytest.raises(errors.JsonRpcError) as refused:
            await client.call(method, **params)
        assert refused.value.code == code, method
        assert refused.value.data["fix"], method
    with pytest.raises(errors.MethodNotFoundError):
        await client.call("no_such_method")
    with pytest.raises(errors.InvalidParamsError):
        await client.call("list_skills", 1, 2)  # by position
