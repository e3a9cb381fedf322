"""Hits as JSON, kept in a file without the address of the site."""

from __future__ import annotations

import json

import pytest
from tests.support.catalogs import make_skill

from skillwire.adapters.files.row_file import RowFile
from skillwire.adapters.files.skill_rows import pack_skill
from skillwire.errors import StorageError
from skillwire.server.search_hits import SearchHits, encode_hit

SITE = "https://skills.example/a/"
HOSTILE = 'says "\\u0000", \\\\, \0 and \x1f, {"name": 1}, \u2028 and é'


def read(hits, numbers, site=SITE):
    return json.loads(b"[%s]" % hits.join(numbers, site))


@pytest.fixture
def rows(tmp_path):
    rows = RowFile(tmp_path)
    for name in ("one", "two", "three"):
        rows.add(pack_skill(make_skill(name)._replace(description=f"{name}: {HOSTILE}")))
    return rows


def test_hits_are_the_same_whenever_they_are_asked_for_and_at_each_site(rows, tmp_path):
    hits = SearchHits(rows, tmp_path)
    for site in (SITE, SITE, 'http://"\\/'):
        told = read(hits, [2, 0], site)
        assert [(hit["name"], hit["description"]) for hit in told] == [
            ("three", f"three: {HOSTILE}"),
            ("one", f"one: {HOSTILE}"),
        ]
        assert [hit["source"] for hit in told] == [site, site]
        for hit in told:
            assert hit["url"] == f"{site}.well-known/agent-skills/{hit['digest'].replace(':', '/')}.md"
    assert read(hits, []) == []


def test_a_hit_holds_a_zero_byte_at_the_address_alone(rows):
    assert encode_hit(rows[0]).count(b"\0") == 2


def test_a_hit_is_made_once_and_a_full_disk_costs_only_that(rows, tmp_path, monkeypatch):
    made: list[bytes] = []

    def encode(packed: bytes) -> bytes:
        made.append(packed)
        return encode_hit(packed)

    monkeypatch.setattr("skillwire.server.search_hits.encode_hit", encode)
    hits = SearchHits(rows, tmp_path)
    first = read(hits, [1])
    assert read(hits, [1]) == first
    assert len(made) == 1

    def fail(*_: object) -> int:
        raise StorageError("STORAGE", "rows cannot be kept")

    monkeypatch.setattr(RowFile, "add", fail)
    assert read(hits, [0, 0])[1]["name"] == "one"
    assert len(made) == 3
