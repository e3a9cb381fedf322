"""Every ``file-path`` case of the hostile documents, asked for by ``read_skill_file``."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.rpc import answer, publish, serving

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "documents" / "file-path.json").read_bytes())
PUBLISHED = publish(notes={"outside.txt": "inside, under a name that hostile paths end in"})
CALL = serving(PUBLISHED.rpc())


@pytest.mark.spec("SKP-read-escape")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"][:24].encode("unicode_escape").decode())
def test_a_path_is_refused_or_not_found_and_nothing_is_given(case):
    params = {"name": "acme.notes", "path": case["data"]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "read_skill_file", "params": params}
    told = answer(json.dumps(request).encode(), CALL)
    if case["expect"] == "accept":
        assert "result" in told or told["error"]["code"] == -32002
        return
    # What JSON cannot carry at all, such as half of a surrogate pair, is no request.
    assert told["error"]["code"] in {-32003, -32700}
    assert "result" not in told


def test_an_accepted_path_that_is_there_is_read():
    harmless = {case["data"]: "here" for case in CASES if case["expect"] == "accept" and case["data"] != "SKILL.md"}
    rpc = publish(notes=harmless).rpc()
    for path in harmless:
        params = {"name": "acme.notes", "path": path}
        request = {"jsonrpc": "2.0", "id": 1, "method": "read_skill_file", "params": params}
        assert answer(json.dumps(request).encode(), serving(rpc))["result"] == {"content": "here"}
