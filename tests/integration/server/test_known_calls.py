"""A call whose head is known is answered as the application would answer it, and nothing else is taken for one."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import Any

import pytest
from tests.support.connections import Connections
from tests.support.invoking import write_action

from skillwire.executions.accept import ExecutionSettings
from skillwire.server import app
from skillwire.server.application import Application
from skillwire.server.configuration import ServerConfiguration

INPUTS = """
[inputs.text]
type = "string"
description = "What is summed up."
required = true
[inputs.words]
type = "array"
description = "What it is about."
default = ["a", "b"]
"""


CALL: dict[str, Any] = {
    "caller": {"id": "ann", "type": "user"},
    "skill_id": "acme/sum-up",
    "inputs": {"text": "skills"},
}


PATH = "/skills/sum-up/executions"


#: All bodies have as many bytes, so that a head stays known whatever the body says.
LENGTH = 400


def written(document):
    """Return a body."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return text.ljust(LENGTH)


def call(document=None, *fields, path=PATH, method="POST", version="1.1"):
    """Return a request."""
    body = written(CALL if document is None else document)
    own = [f"{method} {path} HTTP/{version}", "Host: skills.example.com", "Content-Type: application/json"]
    head = "\r\n".join([*own, f"Content-Length: {len(body)}", *fields, "", ""])
    return head.encode() + body


class Site:
    """A server without sockets, and which way its requests took."""

    def __init__(self, folder, monkeypatch, settings, **options):
        executions = ExecutionSettings(concurrency=0, **settings)
        configuration = ServerConfiguration(executions=executions, **options.pop("configuration", {}))
        self.application = app(
            [folder / "skills"],
            blobs=folder / "blobs",
            publisher="acme",
            configuration=configuration,
            access_log=False,
            **options,
        )
        self.ways: Counter[str] = Counter()
        self.known_ways_are_open = True
        begin, answer = Application.call_again, Application._answer

        def call_again(application, *arguments):
            is_begun = self.known_ways_are_open and begin(application, *arguments)
            if is_begun:
                self.ways["known"] += 1
            return is_begun

        async def ordinary(application, *arguments):
            self.ways["ordinary"] += 1
            await answer(application, *arguments)

        monkeypatch.setattr(Application, "call_again", call_again)
        monkeypatch.setattr(Application, "_answer", ordinary)
        self.connect = Connections(self.application)

    @property
    def desk(self):
        return self.application._executions.desk

    async def ask(self, *chunks, number=1, connection=None):
        """Return what is answered to ``chunks`` on a connection, until there are ``number`` answers."""
        connection, transport = connection or self.connect()
        before = len(transport.written)
        for chunk in chunks:
            connection.data_received(chunk)
        await until(lambda: transport.written[before:].count(b"HTTP/1.1 ") >= number and connection._is_free())
        return transport.written[before:]

    async def teach(self, *requests):
        """Let heads be known."""
        for request in requests or (call(),):
            assert (await self.ask(request)).startswith(b"HTTP/1.1 202 ")
        self.ways.clear()


async def until(is_so, seconds=10.0):
    """Return when something is so."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.001)


def answer_of(text):
    """Return status, fields in order of their names, and document, without what is another each time."""
    head, _, body = text.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    same = sorted(re.sub(r"exec-[0-9a-f]{44}|(?<=etag: )\S+", "...", line) for line in lines)
    document = re.sub(rb'"exec-[0-9a-f]{44}"|"20\d\d-[^"]*Z"', b'"..."', body)
    same = [re.sub(r"(?<=content-length: )\d+", str(len(document)), line) for line in same]
    return status, same, json.loads(document)


@pytest.fixture
async def serve(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_action(tmp_path / "skills", "sum-up", tables=INPUTS)
    sites = []

    async def make(settings=None, **options):
        site = Site(tmp_path, monkeypatch, {"grant_all": True, **(settings or {})}, **options)
        sites.append(site)
        await site.application.startup()
        await site.application.publication.first(20)
        return site

    yield make
    for site in sites:
        site.connect.close()
        await site.application.shutdown()


ODD = {
    "no JSON": b"{",
    "nothing": b"",
    "another document": [],
    "an input that does not fit": {**CALL, "inputs": {"text": 1}},
    "an input that is missing": {**CALL, "inputs": {}},
    "an input that nobody knows": {**CALL, "inputs": {"text": "a", "txet": "b"}},
    "another skill": {**CALL, "skill_id": "acme/other"},
    "no skill": {"caller": CALL["caller"], "inputs": {}},
    "a caller of two lines": {**CALL, "caller": {"id": "a\nb", "type": "user"}},
    "a caller without a name": {**CALL, "caller": {"id": "", "type": "user"}},
    "a time that is over": {**CALL, "context": {"timeout_ms": -1}},
    "a key that stands twice": json.dumps(CALL).encode()[:-1] + b',"skill_id":"acme/sum-up"}',
    "a field that nobody knows": {**CALL, "more": 1},
    "escapes": {**CALL, "inputs": {"text": "\u00fc\n"}},
    "a number without an end": json.dumps(CALL).encode()[:-1] + b',"context":{"timeout_ms":' + b"1" * 50 + b"}}",
    "wrong credentials": {**CALL, "caller": {**CALL["caller"], "credentials": {"api_key": "swk_wrong"}}},
    "credentials of no kind": {**CALL, "caller": {**CALL["caller"], "credentials": {"secret": "s-1"}}},
    "no text": b'{"caller":{"id":"\xff"}}',
}


@pytest.mark.parametrize("name", ODD)
async def test_what_is_not_in_order_is_told_as_the_application_tells_it(serve, name):
    site = await serve()
    await site.teach()
    texts = [await site.ask(call(ODD[name]))]
    assert site.ways == {"ordinary": 1}
    site.known_ways_are_open = False
    texts.append(await site.ask(call(ODD[name])))
    first, second = map(answer_of, texts)
    assert first == second
    assert first[0].split()[1] in {"202", "401", "422"}
