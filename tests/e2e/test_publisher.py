"""A small service of typed functions: in every index, on the pages, in search, and called."""

import enum
import json
import re
import shlex
import signal
import textwrap
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Annotated
from urllib.parse import urlsplit
from urllib.request import urlopen

import msgspec
import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.invoking import Caller
from tests.support.processes import started
from tests.support.publishing import write_skill
from tests.support.receiver import Receiver

import skillwire
from skillwire.errors import UsageError
from skillwire.model.execution import ExecutionSettings
from skillwire.protocols.skill_sharing.validation import validate
from skillwire.rpc import verify_webhook
from skillwire.server.configuration import ServerConfiguration


class Unit(enum.Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


@dataclass
class Place:
    city: str
    country: str | None = None


def service():
    publisher = skillwire.Publisher("acme")

    @publisher.skill(tags=["weather"], timeout=5, idempotent=True)
    def forecast(
        place: Place, days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 2, unit: Unit = Unit.CELSIUS
    ) -> list[float]:
        """Say how warm it will be. Use when somebody asks about the weather of the next days.

        Args:
            place: Where.
            days: For how many days.
            unit: Of the degrees.

        Returns:
            The temperature of each day.
        """
        assert isinstance(place, Place)
        return [20.0 if unit is Unit.CELSIUS else 68.0] * days

    @publisher.skill
    async def who_calls(context: skillwire.CallContext) -> dict[str, str | None]:
        """Say which call this is. Use to try out a publisher."""
        return {"trace": context.trace_id}

    @publisher.skill(access="private")
    def secret_plan() -> None:
        """Plan in secret. Use when a secret plan is asked for."""

    return publisher


@asynccontextmanager
async def running(tmp_path, *folders, **options):
    application = service().app(folders, blobs=tmp_path / "blobs", access_log=False, **options)
    await application.startup()
    await application.catalog.first(PATIENCE)
    try:
        yield Caller(application)
    finally:
        await application.shutdown()


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))


@pytest.fixture
async def caller(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    async with running(tmp_path, tmp_path / "skills") as caller:
        yield caller


async def test_a_function_stands_in_every_index(caller):
    index = (await caller.request("/.well-known/agent-skills/index.json")).json()
    assert [one["name"] for one in index["skills"]] == ["forecast", "notes", "who-calls"]
    sharing = (await caller.request("/.well-known/skill-sharing")).json()
    assert validate(sharing, "SkillIndex").valid
    assert [one["id"] for one in sharing["skills"]] == ["acme/forecast", "acme/notes", "acme/who-calls"]
    found = (await caller.request("/api/search?q=weather")).json()
    assert [one["name"] for one in found["skills"]] == ["forecast"]
    page = await caller.request("/skills/forecast", {"Accept": "text/html"})
    assert b"The temperature of each day." in page.body
    text = await caller.request("/.well-known/agent-skills/forecast/SKILL.md")
    assert b"## Inputs" in text.body


async def test_its_descriptor_says_what_its_hints_say(caller):
    descriptor = (await caller.request("/skills/forecast.json", {"Host": "skills.example.com"})).json()
    assert validate(descriptor).valid
    place, days, unit = descriptor["inputs"]
    assert (place["type"], place["required"], place["description"]) == ("object", True, "Where.")
    assert place["schema"]["required"] == ["city"]
    assert (days["type"], days["required"], days["default"]) == ("integer", False, 2)
    assert days["schema"] == {"type": "integer", "minimum": 1, "maximum": 7}
    assert unit["schema"]["enum"] == ["C", "F"]
    assert descriptor["output"]["schema"] == {"type": "array", "items": {"type": "number"}}
    assert descriptor["output"]["description"] == "The temperature of each day."
    assert descriptor["endpoint"]["timeout_ms"] == 5000
    assert (descriptor["capability_type"], descriptor["tags"]) == ("api", ["weather"])


async def test_a_private_one_is_not_for_everybody(caller):
    assert (await caller.request("/skills/secret-plan.json")).status in {401, 404}
    assert (await caller.invoke("secret-plan")).status in {401, 404}


async def test_it_is_called_without_a_grant(caller):
    ended = await caller.ended(await caller.invoke("forecast", {"place": {"city": "Oslo"}, "unit": "F"}))
    assert ended.json()["status"] == "completed"
    assert ended.json()["output"] == [68.0, 68.0]
    context = {"trace_id": "trace-7"}
    ended = await caller.ended(await caller.invoke("who-calls", context=context))
    assert ended.json()["output"] == {"trace": "trace-7"}


async def test_inputs_are_checked_by_the_hints(caller):
    answer = await caller.invoke("forecast", {"place": {}, "days": 9, "unit": "K"})
    assert answer.status == 422
    told = {one["path"] for one in answer.json()["error"]["details"]}
    assert told == {"/inputs/place/city", "/inputs/days", "/inputs/unit"}


async def test_a_caller_is_told_of_the_end(tmp_path):
    with Receiver() as receiver:
        settings = ExecutionSettings(allow_callbacks=(receiver.url("").rstrip("/"),))
        configuration = ServerConfiguration(executions=settings)
        async with running(tmp_path, configuration=configuration) as caller:
            fields = {"Callback-Url": receiver.url("/hook")}
            accepted = await caller.invoke("who-calls", fields=fields, context={"trace_id": "t"})
            await eventually_async(lambda: receiver.taken)
        [(_, headers, body)] = receiver.taken
    told = verify_webhook(accepted.fields["webhook-secret"], headers, body)
    assert told["type"] == "execution.completed"
    assert told["data"]["execution_id"] == accepted.json()["execution_id"]
    assert told["data"]["output"] == {"trace": "t"}


async def test_a_folder_does_not_take_a_functions_name(tmp_path):
    write_skill(tmp_path / "skills", "forecast", description="Another.")
    async with running(tmp_path, tmp_path / "skills") as caller:
        text = await caller.request("/.well-known/agent-skills/forecast/SKILL.md")
    assert text.status == 200
    assert b"Another." not in text.body


async def test_bytes_that_are_lost_are_written_again(tmp_path):
    for _ in range(2):  # the second finds the record of the first
        async with running(tmp_path, poll=0.1) as caller:
            everything = caller.application.catalog.current.everything
            assert sorted(everything.skills) == ["forecast", "secret-plan", "who-calls"]
            assert (await caller.request("/.well-known/agent-skills/forecast/SKILL.md")).status == 200
        for blob in (tmp_path / "blobs").glob("??/*"):
            blob.unlink()


def test_what_cannot_be_published_is_said_where_it_is_written():
    publisher = skillwire.Publisher("acme")

    def undocumented(a: int):
        return a

    def documented(a: int):
        """Do it."""
        return a

    for function, options, message in (
        (undocumented, {}, "it has no docstring"),
        (documented, {"name": "Not A Name"}, "cannot name a skill"),
        (lambda: 1, {"description": "Do it."}, "cannot name a skill"),
        (documented, {"access": "secret"}, "access is one of"),
        (documented, {"version": "one"}, "FIELD: version is a version"),
        (documented, {"capability_type": "magic"}, "capability_type is one of"),
        (documented, {"tags": "weather"}, "tags is a list of texts"),
        (documented, {"scenes": ["a b"]}, "scenes is a list of identifiers"),
        (documented, {"timeout": 0}, "timeout is"),
        (documented, {"retry": 99}, "retry is"),
        (documented, {"health": "HEALTHY"}, "health is a function"),
        (documented, {"description": "x" * 1025}, "more than 1024 characters"),
        (documented, {"description": "a\u202eb"}, "hidden characters"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            publisher.skill(**options)(function)
        assert caught.value.code == "FUNCTION_FORM"
    assert publisher.functions == ()
    assert publisher.skill(documented) is documented
    with pytest.raises(UsageError, match="another function has the name documented"):
        publisher.skill(documented)
    with pytest.raises(UsageError):
        skillwire.Publisher("not a name")


SERVICE = """
    import skillwire

    publisher = skillwire.Publisher("acme")

    @publisher.skill
    def add(a: int, b: int = 1) -> int:
        '''Add two numbers. Use when a sum is asked for.'''
        return a + b

    publisher.serve(port=0, on_ready=print)
"""


def test_a_file_is_a_service(tmp_path):
    (tmp_path / "service.py").write_text(textwrap.dedent(SERVICE))
    with started(tmp_path / "service.py", home=tmp_path / "home") as address:
        connection = HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
        connection.request("GET", "/skills/add.json")
        descriptor = json.load(connection.getresponse())
        request = {"caller": {"id": "x", "type": "service"}, "skill_id": descriptor["id"], "inputs": {"a": 2}}
        fields = {"Content-Type": "application/json", "Prefer": "wait=20"}
        connection.request("POST", urlsplit(descriptor["endpoint"]["url"]).path, json.dumps(request), fields)
        assert json.load(connection.getresponse())["output"] == 3
        connection.close()


MOUNTED = '''
import socket
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from skillwire import Publisher

publisher, listener = Publisher("acme"), socket.create_server(("127.0.0.1", 0))

@publisher.skill
def greeting(name: str) -> str:
    """Greets a person. Use when a greeting is asked for."""
    return f"Hello {name}"

site = f"http://127.0.0.1:{listener.getsockname()[1]}/tools/x"
inner = publisher.app(folders=[], base_url=site, access_log=False)
print(site, flush=True)
uvicorn.Server(uvicorn.Config(Starlette(routes=[Mount("/tools/x", inner)]), log_config=None)).run(sockets=[listener])
'''


def test_the_commands_of_an_application_below_a_path_work_as_printed(tmp_path):
    (tmp_path / "mounted.py").write_text(MOUNTED)
    home = {"SKILLWIRE_HOME": str(tmp_path / "client")}
    with started(tmp_path / "mounted.py", home=tmp_path / "server", code=-signal.SIGTERM) as site:
        with urlopen(f"{site}/skills/greeting/call") as page:  # noqa: S310  # of loopback
            (printed,) = re.findall(r"skillwire (call http[^<]+)", page.read().decode())
        assert printed == f"call {site}/greeting name=text"
        called = run_command(*shlex.split(printed.replace("text", "Bo")), env=home, cwd=tmp_path)
        assert (called.code, called.out) == (0, "Hello Bo\n"), called.err
        by_id = run_command("call", f"{site}/acme/greeting", "name=Bo", env=home, cwd=tmp_path)
        assert (by_id.code, by_id.out) == (0, "Hello Bo\n"), by_id.err
        found = run_command("find", "greet", "--from", site, "--type", "api", env=home, cwd=tmp_path)
        assert (found.code, found.out.split()[0]) == (0, "greeting"), found.err
        shown = run_command("show", f"{site}/greeting", env=home, cwd=tmp_path)
        assert f"skillwire call {site.removeprefix('http://')}/greeting" in shown.err
