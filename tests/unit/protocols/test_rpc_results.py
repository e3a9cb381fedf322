"""Results: what a server writes is read by a client as it was meant, and nothing else is taken."""

import json

import pytest

from skillwire.errors import Place, ValidationError
from skillwire.protocols.skills_rpc import results
from skillwire.protocols.skills_rpc.messages import (
    BlobContent,
    CreatedBlob,
    DescribedSkill,
    FileContent,
    ListedSkill,
    OutputBlob,
    Run,
    RunError,
    SkillPage,
)

URL = "https://example.com/rpc"
COMPLETED = Run(
    "completed",
    "exec-1",
    "It is done.",
    {"rows": 3},
    (OutputBlob("blob:ab", "text/csv", 12, "out.csv"),),
    "3 rows\n",
)
FAILED = Run("failed", "exec-2", "It took too long.", error=RunError("timeout", "10 s were over"))


@pytest.mark.spec("SKP-run", "SKP-error-levels")
def test_a_run_that_completed_has_an_output_and_no_error():
    assert json.loads(results.encode_run(COMPLETED)) == {
        "status": "completed",
        "run_id": "exec-1",
        "summary": "It is done.",
        "output": {"rows": 3},
        "output_blobs": [{"blob_id": "blob:ab", "kind": "text/csv", "size_bytes": 12, "name": "out.csv"}],
        "logs_preview": "3 rows\n",
    }


@pytest.mark.spec("SKP-run", "SKP-error-levels")
def test_a_run_that_failed_has_an_error_and_no_output():
    assert json.loads(results.encode_run(FAILED)) == {
        "status": "failed",
        "run_id": "exec-2",
        "summary": "It took too long.",
        "error": {"type": "timeout", "message": "10 s were over"},
    }


@pytest.mark.spec("SKP-run")
@pytest.mark.parametrize("output", [None, False, 0, "", [], {}, {"a": [None, 1.5, "ü"]}])
def test_an_output_is_told_whatever_it_is(output):
    run = Run("completed", "exec-1", "", output)
    written = json.loads(results.encode_run(run))
    assert written["output"] == output
    assert "output_blobs" not in written
    assert "logs_preview" not in written
    assert results.decode_run(written, URL) == run


@pytest.mark.parametrize("run", [COMPLETED, FAILED])
def test_a_run_is_read_as_it_was_written(run):
    assert results.decode_run(json.loads(results.encode_run(run)), URL) == run


@pytest.mark.parametrize(
    ("encode", "decode", "value"),
    [
        (results.encode_described, results.decode_described, DescribedSkill({"name": "a", "n": 1.5})),
        (results.encode_described, results.decode_described, DescribedSkill({}, {"a": ["b"]}, "")),
        (results.encode_file, results.decode_file, FileContent("a\x00ü")),
        (results.encode_file, results.decode_file, FileContent("AAA=", "base64")),
        (results.encode_created, results.decode_created, CreatedBlob("blob:ab", 0)),
        (results.encode_blob, results.decode_blob, BlobContent("a", 5, truncated=True, kind="text/csv")),
        (results.encode_blob, results.decode_blob, BlobContent("AAA=", 2, encoding="base64")),
    ],
)
def test_a_result_is_read_as_it_was_written(encode, decode, value):
    assert decode(json.loads(encode(value)), URL) == value


def test_a_page_is_read_as_it_was_written():
    skills = (ListedSkill("a.b", "1.0.0"), ListedSkill("a.c", "1.0.0", "d", "a", "action"))
    written = results.encode_page(b",".join(map(results.encode_listed, skills)), "cur")
    assert results.decode_page(json.loads(written), URL) == SkillPage(skills, "cur")
    assert json.loads(results.encode_page(b"", None)) == {"skills": [], "next_cursor": None}


def test_whether_more_is_left_of_a_blob_is_always_said():
    assert json.loads(results.encode_blob(BlobContent("a", 1))) == {"content": "a", "size_bytes": 1, "truncated": False}


def test_what_a_newer_server_says_beyond_this_is_passed_over():
    page = {"skills": [{"name": "a.b", "version": "1", "stars": 5}], "next_cursor": None, "total": 1}
    assert results.decode_page(page, URL) == SkillPage((ListedSkill("a.b", "1"),))
    run = {"status": "completed", "run_id": "1", "output_blobs": ["blob:ab"], "cost": 1}
    assert results.decode_run(run, URL).output_blobs == (OutputBlob("blob:ab", "", 0),)


def test_what_people_read_is_bounded_and_holds_nothing_hidden():
    page = results.decode_page({"skills": [{"name": "a\x1b[2J", "version": "1\u202e", "description": "d" * 9999}]}, URL)
    assert page.skills[0].name == "a[U+001B][2J"
    assert page.skills[0].version == "1[U+202E]"
    assert len(page.skills[0].description) == 1024
    run = results.decode_run({**json.loads(results.encode_run(FAILED)), "summary": "\x9b" * 5000}, URL)
    assert run.summary == "[U+009B x1000]"


@pytest.mark.parametrize(
    "decode",
    [
        results.decode_page,
        results.decode_described,
        results.decode_file,
        results.decode_created,
        results.decode_blob,
        results.decode_run,
        results.decode_guide,
    ],
)
@pytest.mark.parametrize("result", [None, 1, "a", [], {}, {"skills": {}}, {"content": 1}, {"status": "running"}])
def test_what_is_no_result_of_the_method_is_refused(decode, result):
    with pytest.raises(ValidationError) as caught:
        decode(result, URL)
    assert caught.value.code == "RPC_ANSWER"
    assert caught.value.place == Place(URL)
