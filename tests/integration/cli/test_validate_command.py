"""``skillwire validate``: every error of a document, with its place; and what it says of valid ones."""

import json

import pytest
from tests.support.raw_server import RawServer, answer, serving
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire.cli.main import run

INDEX = {"protocol": {"version": "1.0.0"}, "provider": {"name": "P"}, "skills": [ENTRY]}


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(document, name="document.json"):
        (tmp_path / name).write_text(document if isinstance(document, str) else json.dumps(document, indent=2))
        return name

    return write


@pytest.fixture
def report(capsys):
    def report(*arguments, code):
        assert run(["validate", *arguments, "--json"]) == code
        return json.loads(capsys.readouterr().out)["documents"]

    return report


def test_an_address_is_fetched(write, report):
    assert write(DESCRIPTOR)
    body = json.dumps(INDEX | {"skills": []}).encode()
    with RawServer(serving(answer(body, "Content-Type: application/json"))) as server:
        (document,) = report(server.url("/any"), code=0)
    assert document["type"] == "index"
