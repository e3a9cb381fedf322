"""The page about HTTP names every path of the OpenAPI document, which is held to the server by its own tests."""

import re
from pathlib import Path

import pytest
from tests.support.openapi import document

from skillwire.server.http import Part, choose_coding, matching_tag, requested_part

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text()
PARTS = {
    "{blob}": "ID",
    "{execution}": "ID",
    "{skill}": "NAME",
    "{namespace}": "PUBLISHER",
    "{asset}": "NAME",
    "{file}": "PATH",
    "{archive}": "ARCHIVE",
    "{artifact}": "ARTIFACT",
}


def test_every_path_is_on_the_page():
    named = set(re.findall(r"`(?:[A-Z, ]+ )?(/[^`]*)`", PAGE.partition("An error is")[0]))
    served = {
        path for path in document()["paths"] if not path.startswith(("/@{scope}/.well-known/", "/.well-known/skills/"))
    }
    wanted = {re.sub(r"\{\w+\}", lambda found: PARTS[found[0]], path) for path in served}
    assert wanted - named == set()
    assert {"/@SCOPE/.well-known/…", "/.well-known/skills/…"} <= named


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        ("", "identity"),
        ("gzip", "gzip"),
        ("GZip", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate, br, zstd", "br"),
        ("gzip;q=1.0, br;q=0.5", "gzip"),
        ("gzip;q=0.5, br;q=0.5", "br"),
        ("br;q=0, gzip;q=0, *", "identity"),
        ("*", "br"),
        ("*;q=0", "identity"),
        ("*;q=0, gzip", "gzip"),
        ("gzip;q=0.5, identity", "identity"),
        ("gzip;q=0.5, identity;q=0.5", "gzip"),
        ("identity;q=0", "identity"),
        ("identity;q=0, gzip;q=0", "identity"),
        ("deflate, compress", "identity"),
        ("gzip ; q=0.2 , br ; Q=0.1", "gzip"),
        ("gzip;q=2, br;q=0.1", "br"),
        ("gzip;q=x", "identity"),
        ("gzip;q=0.1234", "identity"),
        (";;;, ,gzip", "gzip"),
        ("gzip\x00, br\xff", "identity"),
    ],
)
def test_the_coding_is_the_one_that_the_client_likes_best(accept_encoding, coding):
    assert choose_coding(accept_encoding) == coding


@pytest.mark.parametrize(
    ("if_none_match", "held"),
    [
        ("", None),
        ("*", '"a"'),
        ('"a"', '"a"'),
        ('"b"', '"b"'),
        ('W/"b"', '"b"'),
        ('"x", W/"y" ,"b"', '"b"'),
        ('"x",,"a"', '"a"'),
        ('"x,y", "a"', '"a"'),
        ('"a', None),
        ("a", None),
        ('w/"a"', None),
        ('"A"', None),
        ('"x" "a"', None),
        ('"*"', None),
    ],
)
def test_a_tag_is_found_in_a_list_in_its_weak_form_and_by_a_star(if_none_match, held):
    assert matching_tag(if_none_match, ('"a"', '"b"')) == held


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("bytes=0-3", Part(0, 4)),
        ("bytes=3-", Part(3, 10)),
        ("bytes=-4", Part(6, 10)),
        ("bytes=-40", Part(0, 10)),
        ("bytes=9-9", Part(9, 10)),
        ("bytes=5-500", Part(5, 10)),
        ("bytes=10-", Part(10, 10)),
        ("bytes=99-100", Part(10, 10)),
        ("bytes=-0", Part(10, 10)),
        ("BYTES=0-0", Part(0, 1)),
        ("bytes=4-3", None),
        ("bytes=-", None),
        ("bytes=0-1,4-5", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
        ("bytes=0-1 2", None),
        ("bytes=" + "9" * 5000 + "-", None),
        ("", None),
    ],
)
def test_a_range_is_cut_to_what_exists_and_anything_else_stands_for_the_whole(field, part):
    assert requested_part(field, 10) == part


def test_of_nothing_no_part_can_be_had():
    assert requested_part("bytes=0-", 0) == Part(0, 0)
