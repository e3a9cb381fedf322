"""Fuzz the endpoint's codec: ``python tests/fuzz/fuzz_json_rpc.py [CORPUS] [-max_total_time=60]``.

The first byte chooses between a request, which is answered from a catalog of two skills, and an answer, which a client
reads. Seeds are the examples of JSON-RPC and of the Skills Protocol.
"""

import json
from typing import Any

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import TESTS, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire.errors import SkillwireError
    from skillwire.folder.publish import PreparedSkill, prepare_files
    from skillwire.model.skill import FileContent
    from skillwire.protocols.skills_rpc import codec
    from skillwire.protocols.skills_rpc.codec import (
        Batch,
        Call,
        Refused,
        decode,
        decode_answer,
        decode_params,
        encode_error,
        encode_result,
        params_type,
    )
    from skillwire.protocols.skills_rpc.errors import ERRORS
    from skillwire.protocols.skills_rpc.server import SkillIndex, SkillsRpc

URL = "https://example.com/rpc"
SKILL_MD = b"---\nname: notes\ndescription: d\n---\nRead.\n"
DECODERS = (codec.decode_page, codec.decode_described, codec.decode_file, codec.decode_blob, codec.decode_run)
#: What an endpoint answers without executing anything.
READING = {"list_skills", "describe_skill", "read_skill_file", "load_skills_protocol_guide"}


def _endpoint() -> SkillsRpc:
    files = (FileContent("SKILL.md", SKILL_MD), FileContent("a/b.txt", b"text"))
    prepared = prepare_files("notes", files, "acme")
    assert isinstance(prepared, PreparedSkill)
    contents = {file.digest: bytes(content.content) for file, content in zip(prepared.skill.files, files, strict=True)}
    return SkillsRpc(SkillIndex({"notes": prepared.skill}), {"notes"}, contents.get)


ENDPOINT = _endpoint()


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Answer a request, or read an answer; nothing but our errors may come out, and every answer is one."""
    if data[:1] == b"a":
        _read_answer(data[1:])
        return
    request = decode(data[1:])
    for item in request.items if isinstance(request, Batch) else [request]:
        _check(_answer(item))


def _read_answer(data: bytes) -> None:
    try:
        result = decode_answer(data, 1, source=URL, max_bytes=8192)
    except SkillwireError:
        return
    for read in DECODERS:
        try:
            read(result, URL)
        except SkillwireError:
            continue


def _answer(item: Call | Refused) -> bytes:
    if isinstance(item, Refused):
        return encode_error(item.request_id, item.error)
    try:
        params = decode_params(item.params, params_type(item.method))
        if item.method not in READING:
            return encode_result(item.request_id, None)
        result = getattr(ENDPOINT, item.method)(params)
        assert b"/etc" not in result
    except SkillwireError as error:
        return encode_error(item.request_id, error)
    return encode_result(item.request_id, result)


def _check(answer: bytes) -> None:
    told = json.loads(answer)
    assert told["jsonrpc"] == "2.0"
    assert ("result" in told) != ("error" in told)
    assert "error" not in told or told["error"]["code"] in ERRORS
    assert isinstance(decode(answer), Refused)  # an answer is no request


def seeds() -> dict[str, bytes]:
    """Return requests and answers, each with its first byte."""
    calls: dict[str, dict[str, Any]] = {
        "list": {"method": "list_skills", "params": {"namespace": "acme", "detail": "summary", "limit": 50}},
        "cursor": {"method": "list_skills", "params": {"cursor": "L2FjbWUubm90ZXM"}},
        "describe": {"method": "describe_skill", "params": {"name": "acme.notes", "detail": "full"}},
        "read": {"method": "read_skill_file", "params": {"name": "acme.notes", "path": "a/b.txt"}},
        "guide": {"method": "load_skills_protocol_guide"},
        "execute": {"method": "execute_skill", "params": {"name": "a", "args": {}, "input_blobs": ["blob:0"]}},
        "code": {"method": "run_code", "params": {"code": "def main(args): ...", "limits": {"timeout_ms": 1}}},
    }
    found = {name: b"r" + json.dumps({"jsonrpc": "2.0", "id": 1, **call}).encode() for name, call in calls.items()}
    found["batch"] = b"r[" + b",".join(seed[1:] for seed in found.values()) + b',1,{"jsonrpc":"2.0","method":"x"}]'
    paths = json.loads((TESTS / "corpus" / "documents" / "file-path.json").read_bytes())
    for number, case in enumerate(paths):
        params = {"name": "acme.notes", "path": case["data"]}
        call = {"jsonrpc": "2.0", "id": "p", "method": "read_skill_file", "params": params}
        found[f"path-{number}"] = b"r" + json.dumps(call).encode()
    run = {"status": "failed", "run_id": "exec-1", "summary": "s", "error": {"type": "timeout", "message": "m"}}
    found["run"] = b"a" + encode_result(1, run)
    found["page"] = b"a" + encode_result(1, {"skills": [{"name": "a", "version": "1"}], "next_cursor": None})
    found["error"] = (
        b'a{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"m","data":{"code":"SKILL_NOT_FOUND"}}}'
    )
    return found


if __name__ == "__main__":
    fuzz("json_rpc", TestOneInput, seeds(), max_bytes=8192)
